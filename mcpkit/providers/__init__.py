"""Worker threads and worker processes, for functions that would block the event loop.

Internal: it may change at any time.
"""
