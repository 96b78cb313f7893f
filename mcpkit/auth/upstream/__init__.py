"""The provider that users log in with: what an authorization server of mcpkit asks of it, as its client.

Internal: what is public of it stands in `mcpkit.auth`.
"""
