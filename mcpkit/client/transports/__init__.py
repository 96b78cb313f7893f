"""Transports of a client.

Internal: the public names are exported by `mcpkit.client`.
"""
