"""Bundles (.mcpb) of servers, and their `server.json` for the MCP registry.

Internal: it may change at any time.
"""
