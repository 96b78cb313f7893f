"""Messages of clients, and the exceptions that contain results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..._utils.exceptions import INTERNAL_ERROR, ProtocolError, reduce_exception
from ...protocol.jsonrpc import Json

if TYPE_CHECKING:
    from .results import CallResult

CLOSED: Final = "the client is closed"
NOT_OPEN: Final = "the client is not open: write `async with Client(...) as client:`"
FOR_OTHERS: Final = "or use SyncClient in a thread, which needs no event loop"
FOR_EACH_LOOP: Final = "use one client for each event loop, or SyncClient, which all threads may use"


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

    __reduce__ = reduce_exception


for _public in (IncompleteListError, InvalidResultError):
    _public.__module__ = "mcpkit.exceptions"
