"""OAuth client of this server at an identity provider.

Internal: the public part is in `mcpkit.auth`.
"""
