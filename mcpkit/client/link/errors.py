"""What goes wrong between a client and a server; what a server answers is a `ProtocolError`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...common.errors import INTERNAL_ERROR, ProtocolError
from ...protocol.types import Json

if TYPE_CHECKING:
    from .results import CallResult

CLOSED: Final = "the client is closed"
NOT_OPEN: Final = "the client is not open: write `async with Client(...) as client:`"
FOR_OTHERS: Final = "or use SyncClient in a thread, which needs no event loop"
FOR_EACH_LOOP: Final = "use one client for each event loop, or SyncClient, which all threads may use"


class TransportError(ConnectionError):
    """A message did not reach the server, or its answer did not come back.

    Args:
        message: What has happened, and what to do about it.
        may_have_begun: Whether the server may have begun to do what it was asked.
        retry_after: Seconds after which the server wants to be asked again; None where it has not said so.
        session_is_gone: Whether the server knows the session no more, so that another one has to be opened.
        may_pass: Whether it may be otherwise the next time.
    """

    def __init__(
        self,
        message: str,
        *,
        may_have_begun: bool,
        retry_after: float | None = None,
        session_is_gone: bool = False,
        may_pass: bool = True,
    ) -> None:
        super().__init__(message)
        self.may_pass = may_pass
        self.may_have_begun = may_have_begun
        self.retry_after = retry_after
        self.session_is_gone = session_is_gone


class StatusError(TransportError):
    """An HTTP server has answered with a status that carries no message of the protocol.

    Args:
        message: What has happened.
        status: The status.
        may_have_begun: As in `TransportError`.
        retry_after: As in `TransportError`.
        session_is_gone: As in `TransportError`.
    """

    def __init__(
        self,
        message: str,
        status: int,
        *,
        may_have_begun: bool,
        retry_after: float | None = None,
        session_is_gone: bool = False,
    ) -> None:
        super().__init__(
            message,
            may_have_begun=may_have_begun,
            retry_after=retry_after,
            session_is_gone=session_is_gone,
            may_pass=session_is_gone or status == 429 or status >= 500,
        )
        self.status = status


class AuthorizationError(StatusError):
    """The server wants to know who asks (401), or that more is granted (403).

    Args:
        message: What it asks for, in words.
        status: 401 or 403.
        challenge: The value of `WWW-Authenticate`; empty where there is none.
    """

    def __init__(self, message: str, status: int, challenge: str) -> None:
        super().__init__(message, status, may_have_begun=False)
        self.challenge = challenge


class IncompleteListError(ProtocolError):
    """A list of several pages does not come to an end; the pages that came are in `items`.

    Args:
        message: Why it does not end.
        items: The items of the pages that came.
        cursor: The cursor of the next page.
    """

    def __init__(self, message: str, items: list[Json], cursor: str) -> None:
        super().__init__(INTERNAL_ERROR, message)
        self.items = items
        self.cursor = cursor


class InvalidResultError(ValueError):
    """What a tool has answered does not fit what it promises, or what was asked for; the tool has run all the same.

    Args:
        message: What does not fit, and where.
        result: The result.
    """

    def __init__(self, message: str, result: CallResult) -> None:
        super().__init__(message)
        self.result = result


class OutcomeUnknownError(TransportError):
    """A call may or may not have been done: its answer was lost, and doing it again might do it twice."""

    def __init__(self, message: str) -> None:
        super().__init__(message, may_have_begun=True, may_pass=False)
