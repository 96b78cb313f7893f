"""Rules of `mcpkit check`: each is a function that yields what it finds.

Internal: it may change at any time.
"""
