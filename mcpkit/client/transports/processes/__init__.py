"""Messages over the standard streams of a process.

Internal: what is public of it stands in `mcpkit`.
"""
