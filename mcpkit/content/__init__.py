"""Content of results: values, their conversion to content blocks and JSON, and URI templates.

Internal: it may change at any time.
"""
