"""What serves: each request finds its method here, whatever it came by, and each change its listeners.

Internal: it may change at any time.
"""
