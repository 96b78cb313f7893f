"""Principals, scopes, the audit log, revocation, and recipients of change notifications.

Internal: it may change at any time.
"""
