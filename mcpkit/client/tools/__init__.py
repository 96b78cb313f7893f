"""Tools of a server: what they take, what they promise, and what they answer.

Internal: what is public of it stands in `mcpkit`.
"""
