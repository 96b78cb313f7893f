"""Servers are given to hosts, and taken from them.

Internal: it may change at any time.
"""
