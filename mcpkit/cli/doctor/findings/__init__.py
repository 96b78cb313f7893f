"""What is found.

Internal: it may change at any time.
"""
