"""Server in the process of an agent, in the form that agent SDKs accept.

Internal: it may change at any time.
"""
