"""Notifications of changes on a pipe: list_changed and resources/updated, in both eras."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from typing import Any, Protocol

from .._utils.exceptions import INTERNAL_ERROR, ProtocolError
from ..identity.principals_and_scopes import LIST_NAMES, Change, ListName, Principal
from ..protocol import jsonrpc
from ..protocol.jsonrpc import RequestId
from ..protocol.revisions import Handshake
from ..requests.requests_to_client import Channel
from .changes_between_processes import ChangeQueue
from .subscription_filters_and_delivery import LOST, Listen, SubscriptionHub, notification

logger = logging.getLogger(__name__)


class Places(Protocol):
    """A limit of streams that the pipes of a server share."""

    def take(self) -> None:
        """Take a place.

        Raises:
            BusyError: All places are taken.
        """
        ...

    def release(self) -> None:
        """Release a place."""
        ...


class Subscriptions:
    """The session and the `subscriptions/listen` streams of one pipe.

    Messages are sent as fast as the client reads. The queue of each listener is bounded: a stream that falls behind
    ends, and the session loses its oldest update.

    Args:
        hub: Delivers the changes.
        channel: Channel of the pipe.
        limit: Maximum number of open streams.
        places: Limit of streams that several pipes share; None if there are no other pipes.

    Attributes:
        principal: The user.
        is_local: Whether the user need not authenticate.
        streams: The open `subscriptions/listen` streams by request id.
    """

    def __init__(
        self, hub: SubscriptionHub, channel: Channel, limit: int, places: Places | None = None
    ) -> None:
        self.principal = channel.principal
        self.is_local = channel.is_local
        self.streams: dict[RequestId, _Stream] = {}
        self._places = places
        self._limit = limit
        self._channel = channel
        self._loop = asyncio.get_running_loop()
        self._hub = hub
        self._previous_hubs: list[SubscriptionHub] = []
        self._delivery: asyncio.Task[None] | None = None
        self._session: _Session | None = None

    def begin(self, params: dict[str, Any]) -> Handshake:
        """Return the session of an `initialize` request. It gets the changes that happen after the response.

        A list that the server does not declare then is never announced to the session, as it was not negotiated.

        Raises:
            ProtocolError: -32602 for params that are missing or malformed.
        """

        def subscribe(uri: str, is_subscribed: bool) -> Coroutine[object, object, None] | None:
            change = Change("resource", uri)
            if is_subscribed:
                self._hub.subscribe(listener, change)
                return self._hub.listening()
            for hub in (self._hub, *self._previous_hubs):
                hub.unsubscribe(listener, change)
            return None

        self._session = listener = _Session(self, Handshake.receive(params, subscribe))
        for name in LIST_NAMES:
            self._hub.subscribe(listener, Change(name))
        return listener.session

    def end_session(self) -> None:
        """Remove the session, as `initialize` has failed."""
        if self._session is not None:
            self._unsubscribe(self._session)
            self._session = None

    def initialized(self) -> None:
        """Send the changes since the response to `initialize`."""
        if self._session is not None and self._session.session.lists is None:
            # A middleware has answered it, or it waits, and more may be declared then.
            self._session.session.lists = frozenset(filter(self._hub.is_declared, LIST_NAMES))
        self.wake()

    def open(self, listen: Listen) -> None:
        """Serve `subscriptions/listen`: acknowledge the accepted part of the filter.

        Raises:
            ProtocolError: -32603 if too many streams are open.
        """
        if len(self.streams) >= self._limit:
            raise ProtocolError(
                INTERNAL_ERROR, f"Too many subscriptions are open ({len(self.streams)}). Close one first"
            )
        stream = _Stream(self, listen)
        if self._places is not None:
            self._places.take()
        self.streams[listen.request_id] = stream
        for change in listen.changes:
            self._hub.subscribe(stream, change)

        def acknowledge() -> None:
            if self.streams.get(listen.request_id) is stream:
                self._channel.send(listen.acknowledged())
                stream.is_ready = True
                self.wake()

        def refuse(problem: ProtocolError) -> None:
            if self.streams.get(listen.request_id) is stream:
                self.cancel(listen.request_id)
                self._channel.send(jsonrpc.error(listen.request_id, problem))

        self._hub.when_listening(acknowledge, refuse)

    @contextmanager
    def moved(
        self, hub: SubscriptionHub, limit: int, differs: Callable[[ListName, str], bool]
    ) -> Generator[None]:
        """Subscribe to the changes of another server, and to those of the previous one until the block ends.

        Args:
            hub: Delivers the changes of the other server.
            limit: Maximum number of open streams.
            differs: Returns True if a list, in a revision, has changed with the server; its listeners are notified.
        """
        before, self._hub, self._limit = self._hub, hub, limit
        self._previous_hubs.append(before)
        try:
            for listener in self._listeners:
                for change in before.subscriptions(listener):
                    hub.subscribe(listener, change)
                    if change.kind in LIST_NAMES and differs(change.kind, listener.revision):
                        listener.changed(Change(change.kind))
            yield
        finally:
            self._previous_hubs.remove(before)
            if before is not self._hub and before not in self._previous_hubs:
                for listener in self._listeners:
                    before.unsubscribe_all(listener)

    @property
    def _listeners(self) -> list[_Session | _Stream]:
        return [*(() if self._session is None else (self._session,)), *self.streams.values()]

    def cancel(self, id_: RequestId) -> None:
        """End a stream that the client has cancelled; it gets no response."""
        stream = self.streams.pop(id_, None)
        if stream is not None:
            self._unsubscribe(stream)

    def close(self, *, graceful: bool) -> None:
        """End all streams and the session.

        Args:
            graceful: Whether each stream ends with its result (basic/patterns/subscriptions, "Graceful Closure");
                otherwise it is cancelled with a reason.
        """
        if self._delivery is not None:
            self._delivery.cancel()
        for listener in self._listeners:
            self._unsubscribe(listener)
        for stream in self.streams.values():
            listen = stream.listen
            self._channel.send(
                listen.result() if graceful else listen.cancelled("the server closed the subscription")
            )
        self.streams.clear()

    def _unsubscribe(self, listener: _Session | _Stream) -> None:
        for hub in (self._hub, *self._previous_hubs):
            hub.unsubscribe_all(listener)
        if self._places is not None and isinstance(listener, _Stream):
            self._places.release()

    def drop(self, stream: _Stream, reason: str) -> None:
        """End a stream that lost changes, and send the reason."""
        self.cancel(stream.listen.request_id)
        self._channel.send(stream.listen.cancelled(reason))

    def wake(self) -> None:
        """Send the queued changes as soon as the client reads."""
        if self._delivery is None:
            self._delivery = self._loop.create_task(self._deliver())

    async def _deliver(self) -> None:
        while self._waiting():
            await self._channel.ready()
            for listener in self._waiting():
                self._channel.send(listener.message(listener.queue.pop()))
        self._delivery = None

    def _waiting(self) -> list[_Session | _Stream]:
        """Return the listeners with queued changes. Each sends one change before any sends a second."""
        return [each for each in self._listeners if each.queue and each.is_ready]


class _Listener:
    """Base class of listeners on a pipe, with a queue of changes."""

    def __init__(self, subscriptions: Subscriptions) -> None:
        self._subscriptions = subscriptions
        self.queue = ChangeQueue()

    @property
    def principal(self) -> Principal:
        return self._subscriptions.principal

    @property
    def is_local(self) -> bool:
        return self._subscriptions.is_local


class _Session(_Listener):
    """A session (protocol versions with `initialize`)."""

    def __init__(self, subscriptions: Subscriptions, session: Handshake) -> None:
        super().__init__(subscriptions)
        self.session = session
        self.revision = session.revision
        self._is_behind = False

    @property
    def is_ready(self) -> bool:
        return self.session.is_initialized

    def changed(self, change: Change) -> None:
        if change.uri is None and change.kind not in (self.session.lists or ()):
            return
        if not self.queue:
            self._is_behind = False
        if not self.queue.add(change):
            lost = self.queue.replace_oldest(change)
            if not self._is_behind:
                logger.warning(
                    "a client reads too slowly, so it misses notifications of updates, the first one for %.200r",
                    lost.uri,
                )
            self._is_behind = True
        self._subscriptions.wake()

    def message(self, change: Change) -> bytes:
        return notification(change)


class _Stream(_Listener):
    """An open `subscriptions/listen` request."""

    def __init__(self, subscriptions: Subscriptions, listen: Listen) -> None:
        super().__init__(subscriptions)
        self.listen = listen
        self.revision = listen.revision
        self.is_ready = False

    def changed(self, change: Change) -> None:
        if change.is_lost:
            self._subscriptions.drop(self, LOST)
        elif self.queue.add(change):
            self._subscriptions.wake()
        else:
            reason = (
                f"more than {ChangeQueue.LIMIT} updates wait for the client; listen again and read faster"
            )
            self._subscriptions.drop(self, reason)

    def message(self, change: Change) -> bytes:
        return self.listen.notification(change)
