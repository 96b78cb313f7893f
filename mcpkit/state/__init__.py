"""What processes share, and who asks.

Internal: it may change at any time.
"""
