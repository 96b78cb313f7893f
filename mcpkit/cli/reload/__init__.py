"""`mcpkit run --reload`: restart a server after edits, and keep its clients connected.

Internal: it may change at any time.
"""
