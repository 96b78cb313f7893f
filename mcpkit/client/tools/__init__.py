"""Tools of a server: their definitions, arguments and results.

Internal: the public names are exported by `mcpkit.client`.
"""
