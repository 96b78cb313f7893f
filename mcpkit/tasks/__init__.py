"""Tasks: calls of tools that outlive their connections, in both generations of the protocol.

Internal: it may change at any time.
"""
