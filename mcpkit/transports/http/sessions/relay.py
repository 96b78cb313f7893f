"""Continuation of a stream of another process in this one, to which its client has reconnected."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Literal, Protocol

from ...._utils.exceptions import INTERNAL_ERROR, BusyError, ProtocolError
from ....execution.coroutines import within
from ....protocol import jsonrpc
from ..exchange import Exchange, Source, event
from .remote import TAKEN
from .streams import EventId, not_kept, read_event_id

if TYPE_CHECKING:
    from .environment import Environment
    from .journal import Journal, Page
    from .record import Record
    from .streams import Streams
    from .telling import Telling

logger = logging.getLogger(__name__)

_POLL = 2.0
"""Seconds between two polls without a notification."""

_WRITTEN = 3.0
"""Timeout in seconds for another process to write its events to the shared store."""

_TIMEOUT = 1.0
"""Timeout in seconds for another process to write pending events, or to close a listening stream."""


class Relays(Protocol):
    """The session of a relay."""

    relays: dict[str, Relay]
    record: Record
    streams: Streams
    telling: Telling

    def listen(self, exchange: Exchange) -> None:
        """Open a stream for messages that belong to no call."""
        ...

    def save_later(self) -> None:
        """Save changes in the background."""
        ...


async def take_up(
    session: Relays, environment: Environment, last_event_id: str, exchange: Exchange
) -> ProtocolError | Literal[False] | None:
    """Continue a stream of another process on a connection of this one.

    Args:
        session: The session.
        environment: Shared objects of the app.
        last_event_id: Id of the last event that the client has received.
        exchange: The connection.

    Returns:
        The error if that is impossible; False if the stream belongs to this process.

    Raises:
        BusyError: The shared store does not respond.
    """
    seen, journal = read_event_id(last_event_id), environment.journal
    is_here = seen.process == "" or session.streams.get(seen.stream) is not None
    if journal is None or not session.streams.has_ids or is_here:
        return False
    relay = Relay(session, environment, journal, seen, exchange)
    if not await relay.begin():
        return not_kept()
    if not relay.has_begun:  # as a session does with streams of its own
        exchange.answer(None, 405, ((b"allow", b"POST, DELETE"),))
    return None


class Relay(Source):
    """Sends the past and future events of a stream of another process, from the shared store.

    The other process closes its own connection to the client, and notifies this one of new events. If it has ended, a
    call is answered with an error, unless its response was stored before.

    Args:
        session: Session of the stream.
        environment: Shared objects of the app.
        journal: Stored streams.
        seen: The last event that the client has received.
        exchange: The connection.
    """

    def __init__(
        self, session: Relays, environment: Environment, journal: Journal, seen: EventId, exchange: Exchange
    ) -> None:
        self._session = session
        self._environment = environment
        self._journal = journal
        self._seen = seen
        self._number = seen.number
        self._exchange = exchange
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._page: Page | None = None

    async def begin(self) -> bool:
        """Start to relay the stream. Return False if the stream answers a call and is not stored.

        Raises:
            BusyError: The shared store does not respond.
        """
        session, seen = self._session, self._seen
        before = session.relays.get(seen.stream)
        if before is not None:
            before.leave()
        session.relays[seen.stream] = self
        try:
            await self._environment.broker.listening()
            await session.record.tell(TAKEN, seen.stream)
            page = await self._read()
            if page is None and seen.process != self._environment.process:
                await self._wait(_WRITTEN)
                page = await self._read()
        except OSError:
            self._forget()
            raise BusyError("The events of the stream are not available. Try again later") from None
        except BaseException:
            self._forget()
            raise
        self._page = page
        if seen.is_for_call and (page is None or (page.is_over and page.sent <= seen.number)):
            self._forget()
            return page is not None
        self._exchange.attach(self)
        self._exchange.open_stream()
        self._task = asyncio.get_running_loop().create_task(self._run())
        return True

    @property
    def has_begun(self) -> bool:
        """True if it has events to send."""
        return self._task is not None

    def hear(self) -> None:
        """Read new events."""
        self._news.set()

    def leave(self) -> None:
        """End the connection after the queued events."""
        self._forget()
        self._exchange.finish()

    def lost(self, exchange: Exchange) -> None:
        """Stop reading, because the client has disconnected."""
        self._forget()

    def _forget(self) -> None:
        if self._session.relays.get(self._seen.stream) is self:
            del self._session.relays[self._seen.stream]
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()

    async def _read(self) -> Page | None:
        self._news.clear()
        return await self._journal.read(self._session.record.token.id, self._seen.stream)

    async def _wait(self, seconds: float) -> None:
        try:
            await within(seconds, self._news.wait())
        except TimeoutError:
            logger.debug(
                "no notification of new events from the process of a stream; the store is read again"
            )

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        while True:
            try:
                is_over = await self._go_on(loop.time() - began)
            except OSError:
                logger.exception(
                    "the shared store does not answer: a client waits for the events of a stream of "
                    "another process until it answers"
                )
                is_over = False
            if is_over:
                break
            await self._wait(_POLL if self._seen.is_for_call else _TIMEOUT)
            try:
                self._page = await self._read() or self._page
            except OSError:
                logger.debug("the shared store still does not answer; mcpkit tries again")
        self._forget()
        if self._seen.is_for_call:
            self._exchange.finish()
        else:
            self._session.listen(self._exchange)
            self._session.save_later()

    async def _go_on(self, seconds: float) -> bool:
        """Send new events. Return True if the stream has ended.

        Args:
            seconds: Seconds since the start of the relay.
        """
        page, seen = self._page, self._seen
        id_, name = self._session.record.token.id, seen.stream
        if page is not None:
            for number, message in await self._journal.events(id_, name, page, self._number):
                self._say(number, message)
            if page.is_over:
                if seen.is_for_call and self._number < page.sent and page.id is not None:
                    self._say(page.sent, _error(page, "is no longer stored"))
                return True
        presence = self._environment.presence
        is_lost = seen.process == self._environment.process  # it was here before the session made room
        is_gone = is_lost or (presence is not None and presence.is_gone(seen.process))
        problem: bytes | None = None
        if page is None:  # it only listens, and nobody has written down what it has said
            self._session.telling.note_gap()
            return True
        if seen.is_for_call and page.id is not None:
            if not is_gone:
                return False
            problem = _error(page, "is lost, as the process that served the request has ended")
        elif not is_gone and seconds < _TIMEOUT:
            return False
        if await self._journal.end(id_, name, page, problem, self._environment.process) is None:
            self._news.set()
            return False
        if problem is not None:
            self._say(page.sent + 1, problem)
        self._session.telling.note_gap()
        return True

    def _say(self, number: int, message: bytes) -> None:
        self._number = number
        self._exchange.push(event(message, f"{self._seen.stream}-{number}"))


def _error(page: Page, what: str) -> bytes:
    assert page.id is not None, "the stream must answer a request"
    problem = ProtocolError(
        INTERNAL_ERROR,
        f"The response {what}. The request may or may not have been executed: check before you repeat it",
    )
    return jsonrpc.error(page.id, problem)
