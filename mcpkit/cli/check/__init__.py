"""`mcpkit check` and `mcpkit lock`: rules for the interface of a server.

Internal: it may change at any time.
"""
