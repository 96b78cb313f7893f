"""Commands that ask servers.

Internal: it may change at any time.
"""
