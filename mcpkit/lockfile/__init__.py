"""Lockfiles of servers, and the changes since then that break clients.

Internal: it may change at any time.
"""
