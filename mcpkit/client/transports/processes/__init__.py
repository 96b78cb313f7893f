"""Servers as child processes, over their standard streams.

Internal: the public names are exported by `mcpkit.client`.
"""
