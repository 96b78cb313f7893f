"""Small things that stand on nothing else of the package.

Internal: it may change at any time.
"""
