"""Storage shared by processes, principals, scopes, and change notifications.

Internal: it may change at any time.
"""
