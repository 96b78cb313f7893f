"""Streamable HTTP and HTTP+SSE: one ASGI app for every client.

Internal: it may change at any time.
"""
