"""Rewriting of servers for `mcp.server.fastmcp` (version 1 of the official SDK) to native mcpkit.

Internal: it may change at any time. The public interface is the command `python -m mcpkit.compat.migrate FILE...`.
"""
