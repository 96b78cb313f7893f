"""What a client meets at a server, step by step.

Internal: it may change at any time.
"""
