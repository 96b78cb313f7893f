"""The server that is looked at, and how it is talked to.

Internal: it may change at any time.
"""
