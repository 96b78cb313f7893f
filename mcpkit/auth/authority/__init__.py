"""An authorization server: OAuth 2.1 as MCP wants it (basic/authorization), but for who logs the users in.

Internal: what is public of it stands in `mcpkit.auth`.
"""
