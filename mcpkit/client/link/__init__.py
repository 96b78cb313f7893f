"""The link to one server: its transport, messages and negotiated protocol version.

Internal: the public names are exported by `mcpkit.client`.
"""
