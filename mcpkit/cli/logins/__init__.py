"""Where people have logged in, for all commands.

Internal: it may change at any time.
"""
