"""The checks: each is a function that looks at one thing.

Internal: it may change at any time.
"""
