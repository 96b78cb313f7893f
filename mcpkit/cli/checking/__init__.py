"""What hosts and models will stumble over, and what of a change breaks clients.

Internal: it may change at any time.
"""
