"""Looks at a server's URL, and says which clients cannot log in there.

Internal: what is public is named in `mcpkit`.
"""
