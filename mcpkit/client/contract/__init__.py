"""What clients of a server rely on: written down, compared, and judged.

Internal: it may change at any time.
"""
