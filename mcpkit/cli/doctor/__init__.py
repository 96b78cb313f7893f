"""`mcpkit doctor`: diagnose a server step by step.

Internal: it may change at any time.
"""
