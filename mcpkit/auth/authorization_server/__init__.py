"""Authorization server (OAuth 2.1) for one MCP server.

Internal: the public part is in `mcpkit.auth`.
"""
