"""Authorization server: OAuth 2.1 as MCP requires it (basic/authorization), without the login of users.

Internal: the public part is in `mcpkit.auth`.
"""
