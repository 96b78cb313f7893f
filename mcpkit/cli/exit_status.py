"""Exit status of commands, the error that sets it, and the status and message of other exceptions."""

from __future__ import annotations

import re
from enum import IntEnum
from typing import Final

from .._utils.exceptions import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    RESOURCE_NOT_FOUND,
    UNSUPPORTED_PROTOCOL_VERSION,
    ProtocolError,
)
from .._utils.package import missing_package

_AMBIGUOUS_CODES: Final = frozenset({INVALID_PARAMS, INTERNAL_ERROR, 0})
"""Error codes that servers also use for "not found"; 0 is the code of an exception of `mcp` 1.x."""

_NOT_FOUND_TEXT: Final = re.compile(
    r"\b(unknown|no such|not found|does not exist|there is no)\b", re.IGNORECASE
)

_PACKAGES_OF_EXTRA: Final = frozenset(
    {"httpx2", "packaging", "pathspec", "rich", "ruamel", "tomlkit", "watchfiles"}
)
"""Packages that `mcpkit[cli]` installs."""


class Status(IntEnum):
    """Exit status of a command."""

    DONE = 0
    USAGE = 1
    NO_SUCH_THING = 2
    NOT_AUTHORIZED = 3
    NOT_REACHED = 4
    TOOL_ERROR = 5
    FINDINGS = 6
    INTERRUPTED = 130


class CommandError(Exception):
    """Error that ends a command with a message and an exit status.

    Args:
        message: The message; its last sentence gives the next step.
        status: The exit status.
    """

    def __init__(self, message: str, status: Status = Status.USAGE) -> None:
        super().__init__(message)
        self.status = status


def message_and_status(error: Exception, *, is_debug: bool = False) -> tuple[str, Status]:
    """Return the message that is written for an exception, and the exit status.

    Args:
        error: The exception.
        is_debug: Whether its traceback has been printed already.
    """
    # Imported after an error alone, as they take time.
    from .._utils.exceptions import AuthorizationError
    from ..client.auth.authorization_server_client import AuthorizationFailedError
    from ..client.call_results import InvalidResultError

    message = str(error) or type(error).__name__
    if isinstance(error, CommandError):
        return message, error.status
    if isinstance(error, ProtocolError):
        return message, _status_of_protocol_error(error)
    if isinstance(error, ModuleNotFoundError):
        package = (error.name or "").partition(".")[0]
        if package in _PACKAGES_OF_EXTRA:
            return missing_package("this command", package, "cli"), Status.USAGE
    if isinstance(error, ImportError) and ". Run: " in message:  # a command that installs the package
        return message, Status.USAGE
    statuses: tuple[tuple[type[Exception] | tuple[type[Exception], ...], Status], ...] = (
        ((AuthorizationError, AuthorizationFailedError), Status.NOT_AUTHORIZED),
        (InvalidResultError, Status.TOOL_ERROR),
        (FileNotFoundError, Status.NO_SUCH_THING),
        ((ConnectionError, TimeoutError), Status.NOT_REACHED),
        ((ValueError, TypeError, OSError), Status.USAGE),
    )
    for types, status in statuses:
        if isinstance(error, types):
            return message, status
    hint = "" if is_debug else ". Add --debug to see the traceback"
    return f"{type(error).__name__}: {message}{hint}", Status.USAGE


def _status_of_protocol_error(error: ProtocolError) -> Status:
    if error.code in {METHOD_NOT_FOUND, RESOURCE_NOT_FOUND}:
        return Status.NO_SUCH_THING
    if error.code == UNSUPPORTED_PROTOCOL_VERSION:  # no common revision, so no request is possible
        return Status.NOT_REACHED
    if error.code in _AMBIGUOUS_CODES and _NOT_FOUND_TEXT.search(str(error)):
        return Status.NO_SUCH_THING
    return Status.TOOL_ERROR
