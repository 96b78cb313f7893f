"""What is looked at before there is a message, and may be refused: hosts, origins, content types, bodies.

Internal: it may change at any time.
"""
