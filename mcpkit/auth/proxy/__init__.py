"""An authorization server whose users log in with a provider that knows none of its clients.

Internal: what is public of it stands in `mcpkit.auth`.
"""
