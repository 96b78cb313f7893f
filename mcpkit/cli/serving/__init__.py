"""How a server is served by this process, and its workers.

Internal: it may change at any time.
"""
