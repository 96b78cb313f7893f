"""One request, and how it runs and ends: where, for how long, how many at a time.

Internal: it may change at any time.
"""
