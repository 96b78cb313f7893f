"""The command line: `mcpkit COMMAND TARGET ...`.

Internal: it may change at any time.
"""
