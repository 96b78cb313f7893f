"""Providers: components that are looked up at each request, and folders served as resources.

Internal: it may change at any time.
"""
