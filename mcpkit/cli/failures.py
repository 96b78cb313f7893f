"""What errors come to on the command line: a message, and the status of the process."""

from __future__ import annotations

import re
from typing import Final

from .._utils.exceptions import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    UNSUPPORTED_PROTOCOL_VERSION,
    ProtocolError,
)
from .._utils.package import install_command
from .statuses import CommandError, Status

_RESOURCE_NOT_FOUND: Final = -32002

_SAID_BY_TEXT: Final = frozenset({INVALID_PARAMS, INTERNAL_ERROR, 0})
"""Error codes that servers use for "not found"; 0 is the code of an exception of `mcp` 1.x."""

_NO_SUCH_THING: Final = re.compile(
    r"\b(unknown|no such|not found|does not exist|there is no)\b", re.IGNORECASE
)

_OF_THE_EXTRA: Final = frozenset(
    {"httpx2", "packaging", "pathspec", "rich", "ruamel", "tomlkit", "watchfiles"}
)
"""Packages that `mcpkit[cli]` brings."""


def failure(error: Exception, *, is_debugged: bool = False) -> tuple[str, Status]:
    """Return what is said of an error, and the status that the process ends with.

    Args:
        error: The error.
        is_debugged: Whether its traceback has been shown already.
    """
    from .._utils.exceptions import AuthorizationError
    from ..client.authorization.errors import AuthorizationFailedError  # only where something has gone wrong
    from ..client.link.errors import InvalidResultError

    message = str(error) or type(error).__name__
    if isinstance(error, CommandError):
        return message, error.status
    if isinstance(error, ProtocolError):
        return message, _status_of(error)
    if (
        isinstance(error, ModuleNotFoundError)
        and (lacks := (error.name or "").partition(".")[0]) in _OF_THE_EXTRA
    ):
        return f"this command needs {lacks}. Run: {install_command('cli')}", Status.USAGE
    if isinstance(error, ImportError) and ". Run: " in message:  # which installs what is missing
        return message, Status.USAGE
    statuses: tuple[tuple[type[Exception] | tuple[type[Exception], ...], Status], ...] = (
        ((AuthorizationError, AuthorizationFailedError), Status.NOT_AUTHORIZED),
        (InvalidResultError, Status.TOOL_ERROR),
        (FileNotFoundError, Status.NO_SUCH_THING),
        ((ConnectionError, TimeoutError), Status.NOT_REACHED),
        ((ValueError, TypeError, OSError), Status.USAGE),
    )
    for kinds, status in statuses:
        if isinstance(error, kinds):
            return message, status
    hint = "" if is_debugged else ". Add --debug to see the traceback"
    return f"{type(error).__name__}: {message}{hint}", Status.USAGE


def _status_of(error: ProtocolError) -> Status:
    if error.code in {METHOD_NOT_FOUND, _RESOURCE_NOT_FOUND}:
        return Status.NO_SUCH_THING
    if error.code == UNSUPPORTED_PROTOCOL_VERSION:  # no revision that both know: nothing can be asked
        return Status.NOT_REACHED
    if error.code in _SAID_BY_TEXT and _NO_SUCH_THING.search(str(error)):  # how servers say it is up to them
        return Status.NO_SUCH_THING
    return Status.TOOL_ERROR
