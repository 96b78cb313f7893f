"""HTTP transports of the client: Streamable HTTP, and HTTP with SSE of 2024-11-05.

Internal: the public names are exported by `mcpkit.client`.
"""
