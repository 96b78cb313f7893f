"""Execution of one request: limits, timeouts, worker threads and processes, and requests to the client.

Internal: it may change at any time.
"""
