"""Servers packed for people who install them by a click, and described for the registry of servers.

Internal: it may change at any time.
"""
