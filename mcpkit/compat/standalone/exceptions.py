"""What goes wrong, under the names of `fastmcp.exceptions`."""

from __future__ import annotations

import logging


class FastMCPError(Exception):
    """What the next have in common: clients read their text, also where details are masked."""

    def __init__(self, *args: object, log_level: int = logging.ERROR) -> None:
        super().__init__(*args)
        self.log_level = log_level


class ValidationError(FastMCPError):
    """Arguments are not what was declared."""


class ResourceError(FastMCPError):
    """A resource cannot be read."""


class ToolError(FastMCPError):
    """A tool has failed."""


class PromptError(FastMCPError):
    """A prompt cannot be made."""


class AuthorizationError(FastMCPError):
    """Whoever asks may not have it."""


class ClientError(Exception):
    """A client cannot do what it should."""


class NotFoundError(Exception):
    """There is no such component."""


class DisabledError(Exception):
    """The component is switched off."""
