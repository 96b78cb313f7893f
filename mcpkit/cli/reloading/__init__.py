"""What keeps a host's pipe, or a port, while the code behind it changes.

Internal: it may change at any time.
"""
