"""What changes at a server, heard by whoever watches.

Internal: what is public of it stands in `mcpkit`.
"""
