"""The handshake era: sessions, their streams, and their state that processes share.

Internal: it may change at any time.
"""
