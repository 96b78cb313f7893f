"""Messages over HTTP, in the ways of all revisions.

Internal: what is public of it stands in `mcpkit`.
"""
