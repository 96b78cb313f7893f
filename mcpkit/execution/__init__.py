"""Requests of a handler to the client: as server requests, or by repeating the call with the answers.

Internal: it may change at any time.
"""
