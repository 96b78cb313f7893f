"""Commands that check servers.

Internal: it may change at any time.
"""
