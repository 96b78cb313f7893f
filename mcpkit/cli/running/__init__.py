"""How servers are run while they are written, and after.

Internal: it may change at any time.
"""
