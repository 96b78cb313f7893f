"""Exceptions of `fastmcp.exceptions`."""

from __future__ import annotations

import logging


class FastMCPError(Exception):
    """Base class of errors with a message for clients, also if error details are masked."""

    def __init__(self, *args: object, log_level: int = logging.ERROR) -> None:
        super().__init__(*args)
        self.log_level = log_level


class ValidationError(FastMCPError):
    """Arguments do not match their types."""


class ResourceError(FastMCPError):
    """A resource cannot be read."""


class ToolError(FastMCPError):
    """A tool failed."""


class PromptError(FastMCPError):
    """A prompt cannot be rendered."""


class AuthorizationError(FastMCPError):
    """The user is not authorized."""


class ClientError(Exception):
    """A client operation failed."""


class NotFoundError(Exception):
    """The component does not exist."""


class DisabledError(Exception):
    """The component is disabled."""
