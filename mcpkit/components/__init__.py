"""What an author registers: tools, resources, prompts, and where they are kept.

Internal: it may change at any time.
"""
