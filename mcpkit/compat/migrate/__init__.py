"""Rewrites servers that were written for `mcp.server.fastmcp` (version 1 of the official SDK) to native mcpkit.

Internal: it may change at any time. `python -m mcpkit.compat.migrate FILE...` is what others use of it.
"""
