"""A server in the process of an agent, as agent SDKs take it.

Internal: it may change at any time.
"""
