"""Checks of requests before their messages: hosts, origins, content types and bodies.

Internal: it may change at any time.
"""
