"""The stdio transport of the client: servers as child processes.

Internal: the public names are exported by `mcpkit.client`.
"""
