"""Requests from servers to the client (elicitation, sampling, roots) and their handlers.

Internal: the public names are exported by `mcpkit.client`.
"""
