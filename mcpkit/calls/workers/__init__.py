"""Where functions run that would hold up the event loop: worker threads and worker processes.

Internal: it may change at any time.
"""
