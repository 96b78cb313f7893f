"""The link to one server: what travels over it, and what was agreed upon.

Internal: what is public of it stands in `mcpkit`.
"""
