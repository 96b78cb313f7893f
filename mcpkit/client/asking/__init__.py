"""What a server asks, and who answers.

Internal: what is public of it stands in `mcpkit`.
"""
