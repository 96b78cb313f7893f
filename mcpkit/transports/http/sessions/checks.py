"""Confirmation that the process that sends a client's notifications has received its new subscriptions."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from ....execution.coroutines import within
from .remote import CHECK

if TYPE_CHECKING:
    from .record import Record

logger = logging.getLogger(__name__)

_TIMEOUT = 5.0
"""Seconds in which it must know, however busy it is; then the client is answered all the same."""


class Checks:
    """Confirmations that this process waits for.

    Args:
        record: The record of the session.
        process: Name of this process.
    """

    __slots__ = ("_count", "_open", "_process", "_record")

    def __init__(self, record: Record, process: str) -> None:
        self._record = record
        self._process = process
        self._count = 0
        self._open: dict[str, asyncio.Future[None]] = {}

    async def ask(self) -> None:
        """Wait until the notifying process has read the saved record, so that it sends later changes; with a timeout.

        Raises:
            BusyError: The shared store does not respond.
        """
        self._count += 1
        number = f"{self._process}-{self._count}"
        checked = self._open[number] = asyncio.get_running_loop().create_future()
        try:
            await self._record.tell(CHECK, number)
            await within(_TIMEOUT, checked)
        except TimeoutError:
            logger.debug(
                "the process that sends the changes of a session did not confirm a subscription in "
                "time, so the client may miss its first changes"
            )
        finally:
            del self._open[number]

    def hear(self, number: str) -> None:
        """Handle a confirmation."""
        checked = self._open.get(number)
        if checked is not None and not checked.done():
            checked.set_result(None)
