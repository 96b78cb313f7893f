"""Authorization server with login at a provider that does not know its clients.

Internal: the public part is in `mcpkit.auth`.
"""
