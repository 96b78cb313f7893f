"""The version of mcpkit."""

__version__ = "0.1.0"
