"""Tools, resources, prompts and custom methods, and the registries that contain them.

Internal: it may change at any time.
"""
