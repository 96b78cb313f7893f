"""The engine of a server: it dispatches requests to methods, and delivers changes to listeners.

Internal: it may change at any time.
"""
