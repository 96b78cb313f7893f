"""What the other end of a pipe hears of changes: list_changed and resources/updated, in both eras."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from .errors import INTERNAL_ERROR, INVALID_PARAMS, ProtocolError
from .protocol import jsonrpc
from .protocol.eras import SUBSCRIPTION_ID, Handshake
from .protocol.jsonrpc import RequestId

if TYPE_CHECKING:
    from .context import Channel, Context
    from .server import Server

logger = logging.getLogger("mcpkit")

_LISTS: Final = {
    "toolsListChanged": "tools",
    "promptsListChanged": "prompts",
    "resourcesListChanged": "resources",
}
"""Members of a subscription's filter, and the list whose changes each asks for."""

_URIS: Final = "resourceSubscriptions"

Change = tuple[str, str | None]
"""A list's name and None, or `resource` and the URI that was updated."""


class Subscriptions:
    """The session and the `subscriptions/listen` streams of one pipe.

    Changes come from any thread. They are collected until the loop delivers them, so a change that
    happens again meanwhile is told once; what nobody subscribed to is not kept.

    Attributes:
        streams: The open `subscriptions/listen` streams by request id.
    """

    def __init__(self, server: Server, channel: Channel) -> None:
        self._server = server
        self._channel = channel
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._pending: dict[Change, None] = {}
        self._delivery: asyncio.Task[None] | None = None
        self._is_delivering = False
        self._session: Handshake | None = None
        self._announced: set[str] = set()
        self._held: dict[Change, None] = {}
        self.streams: dict[RequestId, _Stream] = {}
        self._unwatch: Callable[[], None] | None = server._watch(self._changed)

    def begin(self, session: Handshake) -> None:
        """Note a new session: what changes from now on reaches it, once it is initialized.

        A list that the server does not declare now is never announced to it, as it was not negotiated.
        """
        self._session = session
        self._announced = {name for name in _LISTS.values() if self._server._declares(name)}

    def initialized(self) -> None:
        """Tell the session what has changed since it began."""
        held, self._held = self._held, {}
        for change in held:
            self._changed(*change)

    def open(self, ctx: Context[Any]) -> None:
        """Serve `subscriptions/listen`: acknowledge the part of the filter that is honoured.

        Raises:
            ProtocolError: -32602 for a malformed filter, -32603 when there are too many streams.
        """
        if len(self.streams) >= self._server.max_running:
            raise ProtocolError(
                INTERNAL_ERROR, f"Too many subscriptions are open ({len(self.streams)}); end one first"
            )
        stream = _Stream(ctx, self._server)
        self.streams[ctx.request_id] = stream
        self._channel.send(
            stream.message("notifications/subscriptions/acknowledged", notifications=stream.honoured)
        )

    def cancel(self, id_: RequestId) -> None:
        """End a stream because the client said so; it gets no answer."""
        self.streams.pop(id_, None)

    def close(self, *, graceful: bool) -> None:
        """End everything; what has ended stays so.

        Args:
            graceful: Whether each stream ends with its result (basic/patterns/subscriptions,
                "Graceful Closure"); otherwise it is cancelled with a reason.
        """
        if self._unwatch is not None:
            self._unwatch()
            self._unwatch = None
        if self._delivery is not None:
            self._delivery.cancel()
        for stream in self.streams.values():
            self._channel.send(
                stream.result() if graceful else stream.cancelled("the server drops the subscription")
            )
        self.streams.clear()

    def _changed(self, what: str, uri: str | None) -> None:
        if not self._is_wanted(what, uri):
            return
        with self._lock:
            self._pending[what, uri] = None
            if self._is_delivering:
                return
            self._is_delivering = True
        try:
            self._loop.call_soon_threadsafe(self._begin_delivery)
        except RuntimeError:  # the loop is closed, and the pipe with it
            logger.debug("a change came after the end of the connection")

    def _is_wanted(self, what: str, uri: str | None) -> bool:
        return self._is_for_session(what, uri) or any(
            stream.wants(what, uri) for stream in tuple(self.streams.values())
        )

    def _is_for_session(self, what: str, uri: str | None) -> bool:
        if self._session is None:
            return False
        return what in self._announced if uri is None else uri in self._session.subscriptions

    def _begin_delivery(self) -> None:
        self._delivery = self._loop.create_task(self._deliver())

    async def _deliver(self) -> None:
        await self._channel.ready()
        with self._lock:
            pending, self._pending = self._pending, {}
        for change in pending:
            await self._channel.ready()
            for message in self._messages(change):
                self._channel.send(message)
        with self._lock:
            self._is_delivering = bool(self._pending)
        if self._is_delivering:  # in another turn, so that changes without end leave room for requests
            self._begin_delivery()

    def _messages(self, change: Change) -> Iterator[bytes]:
        what, uri = change
        method = (
            "notifications/resources/updated" if uri is not None else f"notifications/{what}/list_changed"
        )
        if self._session is not None and self._is_for_session(what, uri):
            if not self._session.is_initialized:
                self._held[change] = None
            else:
                yield jsonrpc.notification(method, {"uri": uri} if uri is not None else None)
        for stream in self.streams.values():
            if stream.wants(what, uri):
                yield stream.message(method, **({"uri": uri} if uri is not None else {}))


class _Stream:
    """One `subscriptions/listen` request: what it asked for, under its id (basic/patterns/subscriptions)."""

    __slots__ = ("_ctx", "_lists", "_server", "_uris", "honoured")

    def __init__(self, ctx: Context[Any], server: Server) -> None:
        self._ctx = ctx
        self._server = server
        wanted: dict[str, Any] | None = ctx.params.get("notifications")
        if type(wanted) is not dict:
            raise ProtocolError(
                INVALID_PARAMS, "notifications: expected an object that says what to listen for"
            )
        self._lists: set[str] = set()
        self._uris: frozenset[str] = frozenset()
        self.honoured: dict[str, Any] = {}
        for member, name in _LISTS.items():
            flag = wanted.get(member)
            if flag is not None and type(flag) is not bool:
                raise ProtocolError(INVALID_PARAMS, f"notifications.{member}: expected true or false")
            if flag and server._declares(name):
                self._lists.add(name)
                self.honoured[member] = True
        uris: list[Any] | None = wanted.get(_URIS)
        if uris is None:
            return
        if type(uris) is not list or not all(isinstance(uri, str) for uri in uris):
            raise ProtocolError(INVALID_PARAMS, f"notifications.{_URIS}: expected an array of URIs")
        if server._declares("resources"):
            self._uris = frozenset(uris)
            self.honoured[_URIS] = uris

    def wants(self, what: str, uri: str | None) -> bool:
        return what in self._lists if uri is None else uri in self._uris

    def message(self, method: str, **params: Any) -> bytes:
        return jsonrpc.notification(method, {"_meta": {SUBSCRIPTION_ID: self._ctx.request_id}, **params})

    def result(self) -> bytes:
        result = self._server._finish(self._ctx, {"_meta": {SUBSCRIPTION_ID: self._ctx.request_id}})
        return jsonrpc.result(self._ctx.request_id, result)

    def cancelled(self, reason: str) -> bytes:
        return jsonrpc.notification(
            "notifications/cancelled", {"requestId": self._ctx.request_id, "reason": reason}
        )
