"""Delivery of changes to clients, to `watch=` functions and to other processes.

Internal: it may change at any time.
"""
