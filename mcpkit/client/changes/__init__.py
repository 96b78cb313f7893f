"""Subscriptions of a client to changes at its server.

Internal: the public names are exported by `mcpkit.client`.
"""
