"""What a handler asks the client: a request the other way, or the call made again with the answers.

Internal: it may change at any time.
"""
