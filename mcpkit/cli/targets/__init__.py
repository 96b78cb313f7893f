"""What a command is given as its server.

Internal: it may change at any time.
"""
