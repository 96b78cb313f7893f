"""The contract of a server with its clients: recorded, compared and judged.

Internal: it may change at any time.
"""
