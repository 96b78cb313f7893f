"""A client for every server: one for all transports and revisions.

Internal: what is public of it stands in `mcpkit`.
"""
