"""What a command shows.

Internal: it may change at any time.
"""
