"""Helpers that depend on no other part of the package.

Internal: it may change at any time.
"""
