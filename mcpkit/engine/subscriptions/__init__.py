"""What changes, on its way to whoever listens: clients, the author's functions, other processes.

Internal: it may change at any time.
"""
