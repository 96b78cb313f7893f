"""Execution of handlers: event loop, worker threads, worker processes, and the lifespan.

Internal: it may change at any time.
"""
