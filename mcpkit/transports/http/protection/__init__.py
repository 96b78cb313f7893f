"""Access tokens of requests: verification, challenges, and metadata for clients without a token.

Internal: it may change at any time.
"""
