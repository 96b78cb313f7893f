"""Servers in the configuration of hosts.

Internal: it may change at any time.
"""
