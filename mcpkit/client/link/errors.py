"""Errors between client and server. Error responses of the server are `ProtocolError`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..._utils.errors import INTERNAL_ERROR, ProtocolError
from ...protocol.types import Json

if TYPE_CHECKING:
    from .results import CallResult

CLOSED: Final = "the client is closed"
NOT_OPEN: Final = "the client is not open: write `async with Client(...) as client:`"
FOR_OTHERS: Final = "or use SyncClient in a thread, which needs no event loop"
FOR_EACH_LOOP: Final = "use one client for each event loop, or SyncClient, which all threads may use"


class TransportError(ConnectionError):
    """A message did not reach the server, or its response was lost.

    Args:
        message: The failure, and what to do about it.
        may_have_begun: Whether the server may have begun to process the message.
        retry_after: Seconds after which the server accepts requests again (`Retry-After`); None if it sent none.
        session_is_gone: Whether the session no longer exists, so that the client has to open another one.
        may_pass: Whether another attempt may succeed.
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
    """An HTTP server responded with an error status and without a JSON-RPC message.

    Args:
        message: The failure.
        status: The HTTP status.
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
    """The server requires authentication (401) or more scopes (403).

    Args:
        message: The reason, and what to do about it.
        status: 401 or 403.
        challenge: The value of `WWW-Authenticate`; empty if the server sent none.
    """

    def __init__(self, message: str, status: int, challenge: str) -> None:
        super().__init__(message, status, may_have_begun=False)
        self.challenge = challenge


class IncompleteListError(ProtocolError):
    """The pages of a list do not end. The pages received so far are in `items`.

    Args:
        message: The reason.
        items: The items of the pages received so far.
        cursor: The cursor of the next page.
    """

    def __init__(self, message: str, items: list[Json], cursor: str) -> None:
        super().__init__(INTERNAL_ERROR, message)
        self.items = items
        self.cursor = cursor


class InvalidResultError(ValueError):
    """The result of a tool does not fit its `outputSchema`, or the requested type. The tool has run nevertheless.

    Args:
        message: The mismatch and its place.
        result: The result.
    """

    def __init__(self, message: str, result: CallResult) -> None:
        super().__init__(message)
        self.result = result


class OutcomeUnknownError(TransportError):
    """The server may or may not have run a request: the response was lost, and sending it again might run it twice."""

    def __init__(self, message: str) -> None:
        super().__init__(message, may_have_begun=True, may_pass=False)
