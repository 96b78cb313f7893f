"""Access tokens of requests: taken, challenged, and described to clients that have none.

Internal: it may change at any time.
"""
