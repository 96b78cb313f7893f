"""The handshake era: sessions, their streams, and what processes share of them.

Internal: it may change at any time.
"""
