"""Streamable HTTP and HTTP+SSE: one ASGI app for every client."""
