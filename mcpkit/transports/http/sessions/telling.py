"""The GET streams of a session: the newest one, in any process, sends notifications of changes."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from ...._utils.exceptions import BusyError
from ....engine.changes_between_processes import ChangeQueue
from ....engine.subscription_filters_and_delivery import ChangeListener, notification
from ....identity.principal import Change
from ..exchange import Exchange
from .remote import SAID
from .streams import Stream, Streams

if TYPE_CHECKING:
    from ....protocol.eras import Handshake
    from .environment import Environment
    from .record import Record

_TELLER = "teller"
"""The process with the newest stream that listens: it alone sends notifications."""


class Told(ChangeListener, Protocol):
    """A session that receives notifications of changes."""

    record: Record
    negotiated: Handshake

    def save_later(self) -> None:
        """Save changes in the background."""
        ...


class Telling:
    """The listening streams of a session in this process, and their pending notifications.

    Args:
        environment: Shared objects of the app.
        session: The session.

    Attributes:
        streams: The listening streams, the newest one last.
    """

    __slots__ = ("_attending", "_crowd", "_environment", "_pending", "_session", "_teller", "streams")

    def __init__(self, environment: Environment, session: Told) -> None:
        self.streams: list[Listening] = []
        self._attending: dict[object, Callable[[], None]] | None = None
        self._environment = environment
        self._session = session
        self._pending = ChangeQueue()
        self._crowd: dict[Change, None] = {}
        self._teller: str | None = None

    def load(self, fields: Mapping[str, str]) -> None:
        """Process the fields of the session's record."""
        was_heard = self.is_heard
        self._teller = fields.get(_TELLER)
        if self.is_heard and not was_heard:
            self._begin()
        if self.is_elsewhere:
            self._pending.take()
            self._crowd.clear()
        elif self.streams and self._teller is None:
            self._claim()
            self._session.save_later()

    @property
    def is_elsewhere(self) -> bool:
        """True if there are streams here, but another process has a newer one that sends the notifications."""
        return bool(self.streams) and self.has_other

    @property
    def is_here(self) -> bool:
        """True if the newest stream is in this process."""
        return self._teller == self._environment.process

    @property
    def has_other(self) -> bool:
        """True if the newest stream is in another process."""
        return self._teller is not None and not self.is_here and not self._is_untold

    @property
    def _is_untold(self) -> bool:
        """True if the process that sends the notifications has ended."""
        presence = self._environment.presence
        return self._teller is not None and presence is not None and presence.is_gone(self._teller)

    def mend(self) -> None:
        """Send the notifications in place of a process that has ended."""
        if self.streams and self._is_untold:
            self._claim()
            self._session.save_later()
            self.note_gap()

    def note_gap(self) -> None:
        """Notify the client of all its subscriptions, because it may have missed notifications."""
        self._crowd.update(dict.fromkeys(self._environment.changes.subscriptions(self._session)))
        self.wake()

    def _claim(self) -> None:
        if self._teller != self._environment.process:
            self._teller = self._environment.process
            self._session.record.changes[_TELLER] = self._teller

    def open(self, stream: Listening, exchange: Exchange) -> None:
        """Send notifications on a stream from now on. The caller must save the record."""
        self.streams.append(stream)
        self._environment.streams.take(exchange.caller)
        stream.let_go = self._environment.hold(exchange, stream.leave)
        self._claim()
        self._begin()

    @property
    def is_attended(self) -> bool:
        """True if a function is registered with `attend`."""
        return bool(self._attending)

    def attend(self, begun: Callable[[], None]) -> Callable[[], None]:
        """Call a function when the client begins to listen, in any process. Return a function that ends it."""
        key = object()
        if self._attending is None:
            self._attending = {}
        attending = self._attending
        attending[key] = begun
        return lambda: attending.pop(key, None) and None

    def _begin(self) -> None:
        for begun in tuple((self._attending or {}).values()):
            begun()

    def close(self, stream: Listening, caller: str | None) -> None:
        """Send notifications on another stream, if there is one."""
        if stream in self.streams:
            self.streams.remove(stream)
            self._environment.streams.release(caller)
            if not self.streams and self._teller == self._environment.process:
                self._teller = None
                self._session.record.changes[_TELLER] = None
                self._session.save_later()
            self.wake()

    def add(self, change: Change) -> None:
        """Queue a change. It is sent at once, or when there is a stream.

        If too many changes are pending, the client is notified of its subscription, which may be a template, in place
        of each resource. So the number of pending changes is limited by the subscriptions, and none is lost.
        """
        if self.is_elsewhere:
            return
        if not self._pending.add(change):
            self._crowd.update(dict.fromkeys(self._subscribed_as(change)))
        self.wake()

    def _subscribed_as(self, change: Change) -> list[Change]:
        uri = change.uri
        assert uri is not None, "changes of lists always fit"
        subscriptions = self._session.negotiated.subscriptions
        if uri in subscriptions:
            return [change]
        templates = self._environment.engine.catalog.resource_templates
        return [
            Change("resource", text)
            for text in subscriptions
            if (template := templates.spelled(text)) is not None and template.template.match(uri) is not None
        ]

    @property
    def is_heard(self) -> bool:
        """True if the client listens, in any process, as far as this one knows."""
        return bool(self.streams) or self.has_other

    def say(self, message: bytes) -> None:
        """Send a message on the newest stream, in any process."""
        if self.has_other:
            said = self._session.record.tell(SAID, message.decode())
            self._environment.begin(_unheard(said))
        else:
            self.say_here(message)

    def say_here(self, message: bytes) -> None:
        """Send a message on the newest stream, if it is in this process."""
        if self.streams and not self.is_elsewhere:
            self.streams[-1].send(message)

    def wake(self) -> None:
        """Make the newest stream send pending notifications."""
        if self.streams:
            exchange = self.streams[-1].exchange
            assert exchange is not None
            exchange.wake()

    def take(self, stream: Listening) -> list[bytes]:
        """Return the pending notifications for a stream, if it is the newest one."""
        if not self._session.negotiated.is_initialized or not self.streams or stream is not self.streams[-1]:
            return []
        changes = [*self._pending.take(), *self._crowd]
        self._crowd.clear()
        return [stream.event(notification(change)) for change in changes]


async def _unheard(said: Coroutine[object, object, None]) -> None:
    with suppress(BusyError):  # it has been logged
        await said


class Listening(Stream):
    """A GET stream of a session, which sends notifications of changes.

    Args:
        streams: Streams of its session.
        telling: Pending notifications.

    Attributes:
        let_go: Called when it stops listening.
    """

    __slots__ = ("_telling", "let_go")
    kind = "g"

    def __init__(self, streams: Streams, telling: Telling) -> None:
        super().__init__(streams)
        self._telling = telling
        self.let_go: Callable[[], None] | None = None

    @property
    def is_alive(self) -> bool:
        """True if a client is connected."""
        return self.exchange is not None

    def refill(self) -> list[bytes]:
        """Return pending notifications."""
        return self._telling.take(self)

    def lost(self, exchange: Exchange) -> None:
        """Stop listening, unless the client has reconnected already."""
        if self.exchange is exchange:
            self.exchange = None
            self.is_left = True
            if self.let_go is not None:
                self.let_go()
            self._telling.close(self, exchange.caller)
