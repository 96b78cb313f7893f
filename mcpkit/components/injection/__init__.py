"""Parameters that clients do not see: what marks them, how they are filled, and what is closed after a call.

Internal: it may change at any time.
"""
