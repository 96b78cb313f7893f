"""The configurations of hosts: where they are, and what is in them.

Internal: it may change at any time.
"""
