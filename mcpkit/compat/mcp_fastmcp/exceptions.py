"""Exceptions of `FastMCP`."""

from __future__ import annotations


class FastMCPError(Exception):
    """Base class of the exceptions."""


class ValidationError(FastMCPError):
    """Arguments or a result do not match their types."""


class ResourceError(FastMCPError):
    """A resource cannot be read."""


class ToolError(FastMCPError):
    """A tool cannot be called, or failed."""


class InvalidSignature(Exception):  # noqa: N818 - the name that servers import
    """A function cannot be registered with these parameters or this return annotation."""
