"""What the other end of a pipe hears of changes: list_changed and resources/updated, in both eras."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol

from ...calls.channel import Channel
from ...common.errors import INTERNAL_ERROR, ProtocolError
from ...protocol import jsonrpc
from ...protocol.eras import Handshake
from ...protocol.jsonrpc import RequestId
from ...state.change import LIST_NAMES, Change, ListName
from ...state.principal import Principal
from .hub import Changes
from .listen import LOST, Listen, notification
from .mailbox import Pending

logger = logging.getLogger(__name__)


class Places(Protocol):
    """The places of streams that the pipes of a server share."""

    def take(self) -> None:
        """Take one.

        Raises:
            BusyError: There is none.
        """
        ...

    def give_back(self) -> None:
        """Give one back."""
        ...


class Subscriptions:
    """The session and the `subscriptions/listen` streams of one pipe.

    A pipe takes messages as fast as its reader does. What waits meanwhile is bounded for each
    listener: a stream that falls behind ends, the session loses its oldest update.

    Args:
        changes: Tells of the changes.
        channel: Where it is told.
        most: How many streams may be open.
        places: What each stream takes a place of, as others have streams, too; None where there are no others.

    Attributes:
        principal: Who is at the other end.
        is_local: Whether they do not have to say so.
        streams: The open `subscriptions/listen` streams by request id.
    """

    def __init__(
        self,
        changes: Changes,
        channel: Channel,
        most: int,
        places: Places | None = None,
    ) -> None:
        self.principal = channel.principal
        self.is_local = channel.is_local
        self._places = places
        self._most = most
        self._channel = channel
        self._loop = asyncio.get_running_loop()
        self._changes = changes
        self._leaving: list[Changes] = []
        self._delivery: asyncio.Task[None] | None = None
        self._session: _Session | None = None
        self.streams: dict[RequestId, _Stream] = {}

    def begin(self, params: dict[str, Any]) -> Handshake:
        """Return the session that `initialize` opens: what changes once that is answered reaches it.

        A list that the server does not declare then is never announced to it, as it was not negotiated.

        Raises:
            ProtocolError: -32602 for params that are missing or malformed.
        """

        def subscribed(uri: str, is_subscribed: bool) -> Coroutine[object, object, None] | None:
            change = Change("resource", uri)
            if is_subscribed:
                self._changes.want(listener, change)
                return self._changes.listening()
            for changes in (self._changes, *self._leaving):
                changes.unwant(listener, change)
            return None

        self._session = listener = _Session(self, Handshake.receive(params, subscribed))
        for name in LIST_NAMES:
            self._changes.want(listener, Change(name))
        return listener.session

    def end_session(self) -> None:
        """Tell the session, which `initialize` was not to open, of nothing any more."""
        if self._session is not None:
            self._forget(self._session)
            self._session = None

    def initialized(self) -> None:
        """Tell the session what has changed since `initialize` was answered."""
        if self._session is not None and self._session.session.lists is None:
            # A middleware has answered it, or it waits, and more may be declared then.
            self._session.session.lists = frozenset(filter(self._changes.is_declared, LIST_NAMES))
        self.wake()

    def open(self, listen: Listen) -> None:
        """Serve `subscriptions/listen`: acknowledge the part of the filter that is honoured.

        Raises:
            ProtocolError: -32603 when there are too many streams.
        """
        if len(self.streams) >= self._most:
            raise ProtocolError(
                INTERNAL_ERROR, f"Too many subscriptions are open ({len(self.streams)}). Close one first"
            )
        stream = _Stream(self, listen)
        if self._places is not None:
            self._places.take()
        self.streams[listen.request_id] = stream
        for change in listen.wanted:
            self._changes.want(stream, change)
        self._changes.when_listening(partial(self._acknowledge, stream), partial(self._refuse, stream))

    def _acknowledge(self, stream: _Stream) -> None:
        if self.streams.get(stream.listen.request_id) is stream:
            self._channel.send(stream.listen.acknowledged())
            stream.is_ready = True
            self.wake()

    def _refuse(self, stream: _Stream, problem: ProtocolError) -> None:
        if self.streams.get(stream.listen.request_id) is stream:
            self.cancel(stream.listen.request_id)
            self._channel.send(jsonrpc.error(stream.listen.request_id, problem))

    @contextmanager
    def moved(self, changes: Changes, most: int, differs: Callable[[ListName, str], bool]) -> Generator[None]:
        """Hear of the changes of another server from now on, and of those of the one before within the block.

        Args:
            changes: Tells of them.
            most: How many streams may be open.
            differs: Says whether a list, in a revision, is another one now, of which listeners are told then.
        """
        before, self._changes, self._most = self._changes, changes, most
        self._leaving.append(before)
        try:
            for listener in self._listeners:
                for change in before.wanted(listener):
                    changes.want(listener, change)
                    if change.kind in LIST_NAMES and differs(change.kind, listener.revision):
                        listener.changed(Change(change.kind))
            yield
        finally:
            self._leaving.remove(before)
            if before is not self._changes and before not in self._leaving:
                for listener in self._listeners:
                    before.forget(listener)

    @property
    def _listeners(self) -> list[_Session | _Stream]:
        listeners: list[_Session | _Stream] = [*self.streams.values()]
        if self._session is not None:
            listeners.insert(0, self._session)
        return listeners

    def cancel(self, id_: RequestId) -> None:
        """End a stream because the client said so; it gets no answer."""
        stream = self.streams.pop(id_, None)
        if stream is not None:
            self._forget(stream)

    def close(self, *, graceful: bool) -> None:
        """End everything; what has ended stays so.

        Args:
            graceful: Whether each stream ends with its result (basic/patterns/subscriptions,
                "Graceful Closure"); otherwise it is cancelled with a reason.
        """
        if self._delivery is not None:
            self._delivery.cancel()
        for listener in self._listeners:
            self._forget(listener)
        for stream in self.streams.values():
            self._channel.send(
                stream.listen.result()
                if graceful
                else stream.listen.cancelled("the server closed the subscription")
            )
        self.streams.clear()

    def _forget(self, listener: _Session | _Stream) -> None:
        for changes in (self._changes, *self._leaving):
            changes.forget(listener)
        if self._places is not None and isinstance(listener, _Stream):
            self._places.give_back()

    def drop(self, stream: _Stream, reason: str) -> None:
        """End a stream that cannot be told of all, and say why."""
        self.cancel(stream.listen.request_id)
        self._channel.send(stream.listen.cancelled(reason))

    def wake(self) -> None:
        """Tell what waits, as soon as the reader keeps up."""
        if self._delivery is None:
            self._delivery = self._loop.create_task(self._deliver())

    async def _deliver(self) -> None:
        while self._waiting():
            await self._channel.ready()
            for listener in self._waiting():
                self._channel.send(listener.message(listener.pending.pop()))
        self._delivery = None

    def _waiting(self) -> list[_Session | _Stream]:
        """Return those with something to tell: each tells one change before anybody tells a second."""
        return [each for each in self._listeners if each.pending and each.is_ready]


class _Listener:
    """Who listens at the other end of a pipe, and what waits to be told."""

    def __init__(self, subscriptions: Subscriptions) -> None:
        self._subscriptions = subscriptions
        self.pending = Pending()

    @property
    def principal(self) -> Principal:
        return self._subscriptions.principal

    @property
    def is_local(self) -> bool:
        return self._subscriptions.is_local


class _Session(_Listener):
    """A handshake session that listens."""

    def __init__(self, subscriptions: Subscriptions, session: Handshake) -> None:
        super().__init__(subscriptions)
        self.session = session
        self._is_behind = False

    def changed(self, change: Change) -> None:
        if change.uri is None and change.kind not in (self.session.lists or ()):
            return
        if not self.pending:
            self._is_behind = False
        if not self.pending.add(change):
            lost = self.pending.replace_oldest(change)
            if not self._is_behind:
                logger.warning(
                    "a client reads too slowly: updates are lost, the first one for %.200r", lost.uri
                )
            self._is_behind = True
        self._subscriptions.wake()

    @property
    def revision(self) -> str:
        return self.session.revision

    @property
    def is_ready(self) -> bool:
        return self.session.is_initialized

    def message(self, change: Change) -> bytes:
        return notification(change)


class _Stream(_Listener):
    """A `subscriptions/listen` request that is open."""

    def __init__(self, subscriptions: Subscriptions, listen: Listen) -> None:
        super().__init__(subscriptions)
        self.listen = listen
        self.revision = listen.revision
        self.is_ready = False

    def changed(self, change: Change) -> None:
        if change.is_lost:
            self._subscriptions.drop(self, LOST)
        elif self.pending.add(change):
            self._subscriptions.wake()
        else:
            reason = f"more than {Pending.LIMIT} updates wait for the client; listen again and read faster"
            self._subscriptions.drop(self, reason)

    def message(self, change: Change) -> bytes:
        return self.listen.notification(change)
