"""What a client may be given as its server.

Internal: what is public of it stands in `mcpkit`.
"""
