"""Access tokens: what they say, whose they are, and where they come from.

Internal: nothing of it is public yet.
"""
