"""Parameters that clients do not see: their markers, their values, and cleanup after a call.

Internal: it may change at any time.
"""
