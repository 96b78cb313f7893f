"""The life of one request: limits, cancellation, notifications, results, and requests to the client.

Internal: it may change at any time.
"""
