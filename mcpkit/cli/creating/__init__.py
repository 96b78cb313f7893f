"""Projects that begin.

Internal: it may change at any time.
"""
