"""What operators start.

Internal: it may change at any time.
"""
