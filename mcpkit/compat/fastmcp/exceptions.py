"""What goes wrong with tools and resources of `FastMCP`."""

from __future__ import annotations


class FastMCPError(Exception):
    """What the others have in common."""


class ValidationError(FastMCPError):
    """Arguments or a result are not what was declared."""


class ResourceError(FastMCPError):
    """A resource cannot be read."""


class ToolError(FastMCPError):
    """A tool cannot be called, or has failed."""


class InvalidSignature(Exception):  # noqa: N818 - the name that servers import
    """A function cannot be registered with these parameters or this return annotation."""
