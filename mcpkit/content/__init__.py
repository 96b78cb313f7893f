"""What an author returns, and the content that it becomes on the wire.

Internal: it may change at any time.
"""
