"""How a client's messages travel.

Internal: what is public of it stands in `mcpkit`.
"""
