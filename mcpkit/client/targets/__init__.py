"""Targets of a client: servers, files, URLs, commands and configurations.

Internal: the public names are exported by `mcpkit.client`.
"""
