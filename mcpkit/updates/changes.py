"""Changes on their way to whoever listens: who wants which, what is pending, and how it is told."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Protocol

from ..access.visibility import Conditional, may_hear
from ..errors import INVALID_PARAMS, MalformedError, ProtocolError
from ..protocol import jsonrpc
from ..protocol.eras import SUBSCRIPTION_ID
from ..protocol.jsonrpc import is_array
from ..uri_template import is_template
from .audience import Audience, either
from .watching import Watches

if TYPE_CHECKING:
    from ..access.principal import Principal
    from ..component import Component
    from ..context import Context
    from ..server import Server

logger = logging.getLogger("mcpkit")

LISTS: Final = {
    "toolsListChanged": "tools",
    "promptsListChanged": "prompts",
    "resourcesListChanged": "resources",
}
"""Members of a subscription's filter, and the list whose changes each asks for."""

MAX_URIS: Final = 1000
"""URIs that one session or one stream may subscribe to."""

MAX_URIS_LENGTH: Final = 64 * 1024
"""Characters in all of them together."""

MAX_URI_LENGTH: Final = 2048
"""Characters in a URI that is subscribed to."""

_URIS: Final = "resourceSubscriptions"

Change = tuple[str, str | None]
"""A list's name and None, or `resource` and the URI that was updated."""

_AT_A_TIME: Final = 64
"""Changes that are told in one turn of the loop: so many that whoever reads fast enough never overflows."""

_RESOURCES: Final[Change] = ("resources", None)
"""Whoever wants to hear of a URI depends on it too: another component may serve it now."""


class ChangeListener(Protocol):
    """Whoever hears of changes."""

    @property
    def principal(self) -> Principal:
        """Who listens."""
        ...

    def changed(self, change: Change) -> None:
        """Take a change; in the event loop's thread, without blocking."""
        ...


class Changes:
    """Brings the changes of one server to those who listen in one event loop.

    A change may be made in any thread. Those that come faster than the loop turns are told once,
    in the order of their first time; what nobody wants is not kept. All methods but `tell` are for
    the loop's thread.

    Args:
        server: Whose changes; it must outlive this.

    Attributes:
        origin: What its messages to other processes are known by.
    """

    def __init__(self, server: Server) -> None:
        self._server: Server = weakref.proxy(server)
        self._loop = weakref.ref(asyncio.get_running_loop())
        self.origin = os.urandom(8).hex()
        self._lock = threading.Lock()
        self._pending: dict[Change, Audience | None] = {}
        self._is_delivering = False
        self._listeners: dict[Change, dict[ChangeListener, None]] = {}
        self._wants: dict[ChangeListener, dict[Change, None]] = {}
        self._templates: dict[str, None] = {}
        self._watches = Watches(self._server, self.tell, self._subscribers)
        self._conditional = Conditional(self._server)
        self._sources: list[Callable[[], None]] = []

    @classmethod
    def of(cls, server: Server) -> Changes:
        """Return the one for a server and the running event loop."""
        loop = asyncio.get_running_loop()
        with _all_lock:
            by_loop = _all.setdefault(server, weakref.WeakKeyDictionary())
            changes = by_loop.get(loop)
            if changes is None:
                changes = by_loop[loop] = cls(server)
        return changes

    def want(self, listener: ChangeListener, change: Change) -> None:
        """Let a listener hear of a change from now on.

        Args:
            listener: Who listens.
            change: What to hear of. Where its URI is the text of a template that is registered,
                the listener hears of every URI that the template matches.
        """
        if not self._sources:
            self._start()
        self._wants.setdefault(listener, {})[change] = None
        listeners = self._listeners.get(change)
        if listeners is None:
            listeners = self._listeners[change] = {}
            if change[1] is not None and is_template(change[1]):
                self._templates[change[1]] = None
        listeners[listener] = None
        if change in self._watches:
            self._watches.update(change)
        elif may_hear(listener.principal, self._guards(change)):
            self._watches.want(change)

    def unwant(self, listener: ChangeListener, change: Change) -> None:
        """Let a listener hear no more of a change; nothing happens where it did not want to."""
        wants = self._wants.get(listener)
        if wants is None or change not in wants:
            return
        del wants[change]
        if not wants:
            del self._wants[listener]
        listeners = self._listeners[change]
        del listeners[listener]
        if not listeners:
            del self._listeners[change]
            if change[1] is not None:
                self._templates.pop(change[1], None)
            if change in self._watches:
                self._watches.unwant(change)
        elif change in self._watches:
            self._watches.update(change)
        if not self._wants:
            self._stop()

    def forget(self, listener: ChangeListener) -> None:
        """Let a listener hear of nothing any more."""
        for change in tuple(self._wants.get(listener, ())):
            self.unwant(listener, change)

    def tell(self, change: Change, audience: Audience | None = None) -> None:
        """Tell whoever wants to hear of it in this loop of a change; in any thread, without blocking.

        Args:
            change: The change.
            audience: Whom it is for; everybody when None.
        """
        if not self._is_wanted(change):
            return
        with self._lock:
            self._pending[change] = either(self._pending.get(change, audience), audience)
            if self._is_delivering:
                return
            self._is_delivering = True
        loop = self._loop()
        try:
            if loop is not None:
                loop.call_soon_threadsafe(self._deliver)
                return
        except RuntimeError:  # the loop is closed
            pass
        logger.debug("a change came after the end of the event loop whose clients wanted it")
        self._listeners.clear()
        self._wants.clear()
        self._templates.clear()
        self._watches = Watches(self._server, self.tell, self._subscribers)
        self._stop()

    def principals(self, uri: str) -> set[Principal]:
        """Return who would hear of an update here, if it were for everybody; in the loop's thread."""
        guards = self._guards(("resource", uri))
        listening = {listener.principal for listener in self._interested(("resource", uri))}
        return {principal for principal in listening if may_hear(principal, guards)}

    def _subscribers(self, change: Change) -> set[Principal]:
        guards = self._guards(change)
        principals = {listener.principal for listener in self._listeners.get(change, ())}
        return {principal for principal in principals if may_hear(principal, guards)}

    def _changed(self, what: str, uri: str | None, audience: Audience | None) -> None:
        self.tell((what, uri), audience)

    def _is_wanted(self, change: Change) -> bool:
        if change in self._listeners or change == _RESOURCES:
            return True
        uri = change[1]
        return uri is not None and next(self._templates_of(uri), None) is not None

    def _templates_of(self, uri: str) -> Iterator[str]:
        """Find the templates that match a URI and are wanted; however many are wanted that are none."""
        registered = self._server.resource_templates
        wanted = self._templates
        are_few = len(wanted) < len(registered)
        for text in tuple(wanted) if are_few else [each.key for each in registered]:
            template = registered.get(text) if text in wanted else None
            if template is not None and template.template.match(uri) is not None:
                yield text

    def _deliver(self) -> None:
        with self._lock:
            changes = list(islice(self._pending.items(), _AT_A_TIME))
            for change, _ in changes:
                del self._pending[change]
            has_more = self._is_delivering = bool(self._pending)
        try:
            for change, audience in changes:
                self._tell(change, audience)
        finally:
            if has_more:
                asyncio.get_running_loop().call_soon(self._deliver)

    def _tell(self, change: Change, audience: Audience | None) -> None:
        if change == _RESOURCES:
            self._watches.refresh()
        guards = self._guards(change)
        for listener in self._interested(change):
            # What another one did about this change may have ended it.
            if listener not in self._wants or not may_hear(listener.principal, guards):
                continue
            if audience is None or audience.holds(listener.principal):
                listener.changed(change)

    def _guards(self, change: Change) -> tuple[Component, ...]:
        return () if change[1] is None else self._conditional.guards(change[1])

    def _interested(self, change: Change) -> tuple[ChangeListener, ...]:
        found = self._listeners.get(change, {})
        uri = change[1]
        if uri is not None:
            for text in self._templates_of(uri):
                found = {**found, **self._listeners["resource", text]}
        return tuple(found)

    def _start(self) -> None:
        self._sources.append(self._server._watch(self._changed))
        if self._server.broker is not None:
            from .fan_out import hear

            self._sources.append(hear(self, self._server, self._server.broker))

    def _stop(self) -> None:
        for end in self._sources:
            end()
        self._sources.clear()


_all: weakref.WeakKeyDictionary[Server, weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Changes]] = (
    weakref.WeakKeyDictionary()
)
_all_lock = threading.Lock()


class Pending:
    """What one listener has not been told yet: each change once, in the order of its first time.

    Attributes:
        LIMIT: How many may wait; beyond it there is still room for the three lists.
    """

    __slots__ = ("_changes",)

    LIMIT: Final = 256

    def __init__(self) -> None:
        self._changes: dict[Change, None] = {}

    def add(self, change: Change) -> bool:
        """Add a change; False when there is no room for it."""
        if change[1] is not None and len(self._changes) >= self.LIMIT and change not in self._changes:
            return False
        self._changes[change] = None
        return True

    def replace_oldest(self, change: Change) -> Change:
        """Add the update of a resource in the place of the oldest one, and return that."""
        oldest = next(waiting for waiting in self._changes if waiting[1] is not None)
        del self._changes[oldest]
        self._changes[change] = None
        return oldest

    def pop(self) -> Change:
        """Remove and return the change that waits for the longest time."""
        change = next(iter(self._changes))
        del self._changes[change]
        return change

    def take(self) -> list[Change]:
        """Remove and return all."""
        changes = list(self._changes)
        self._changes.clear()
        return changes

    def __len__(self) -> int:
        """Count what waits."""
        return len(self._changes)


class Listen:
    """One `subscriptions/listen` request: what it wants, and its messages (basic/patterns/subscriptions).

    Args:
        ctx: The request.
        server: Who serves it.

    Attributes:
        request_id: The id of the request, under which every message of the stream goes.
        wanted: The changes that it is told of.

    Raises:
        ProtocolError: -32602 for a filter that is malformed or asks for too much.
    """

    __slots__ = ("_honoured", "_meta", "_result", "request_id", "wanted")

    def __init__(self, ctx: Context[Any], server: Server) -> None:
        self.request_id = ctx.request_id
        self._meta = {SUBSCRIPTION_ID: ctx.request_id}
        self._honoured: dict[str, Any] = {}
        asked: dict[str, Any] | None = ctx.params.get("notifications")
        if type(asked) is not dict:
            raise MalformedError("notifications: expected an object that says what to listen for")
        wanted: list[Change] = []
        may_come = server._entrance.is_waiting  # what a lifespan registers is declared by then
        for member, name in LISTS.items():
            flag = asked.get(member)
            if flag is not None and type(flag) is not bool:
                raise MalformedError(f"notifications.{member}: expected true or false")
            if flag and (may_come or server._declared.has(name)):
                wanted.append((name, None))
                self._honoured[member] = True
        uris: list[Any] | None = asked.get(_URIS)
        if uris is not None:
            _check_uris(uris)
            if may_come or server._declared.has("resources"):
                wanted += [("resource", uri) for uri in uris]
                self._honoured[_URIS] = uris
        self.wanted = frozenset(wanted)
        # Made now, so that the stream keeps nothing else of its request.
        self._result = jsonrpc.result(self.request_id, server._render(ctx, {"_meta": self._meta}))

    def acknowledged(self) -> bytes:
        """Return the first message of the stream, which names the part of the filter that is honoured."""
        params = {"_meta": self._meta, "notifications": self._honoured}
        return jsonrpc.notification("notifications/subscriptions/acknowledged", params)

    def notification(self, change: Change) -> bytes:
        """Return the message that tells of a change."""
        head, tail = _around_id(change)
        return b"".join((head, jsonrpc.encode(self.request_id), tail))

    def result(self) -> bytes:
        """Return the last message of a stream that ends gracefully."""
        return self._result

    def cancelled(self, reason: str) -> bytes:
        """Return the last message, on a pipe, of a stream that is dropped (basic/patterns/cancellation)."""
        params = {"requestId": self.request_id, "reason": reason}
        return jsonrpc.notification("notifications/cancelled", params)


def check_uri(uri: str) -> None:
    """Refuse to subscribe to what is too long to be kept.

    Raises:
        ProtocolError: -32602, naming the limit.
    """
    if len(uri) > MAX_URI_LENGTH:
        raise ProtocolError(
            INVALID_PARAMS, f"A URI that is subscribed to has at most {MAX_URI_LENGTH:,} characters"
        )


def check_room(count: int, length: int) -> None:
    """Refuse more URIs than a client may subscribe to.

    Args:
        count: How many they are.
        length: How many characters they have together.

    Raises:
        ProtocolError: -32602, naming the limits.
    """
    if count > MAX_URIS or length > MAX_URIS_LENGTH:
        raise ProtocolError(
            INVALID_PARAMS,
            f"A client subscribes to at most {MAX_URIS:,} URIs of {MAX_URIS_LENGTH:,} characters together; "
            "unsubscribe from one, or subscribe to a template",
        )


def _check_uris(uris: Any) -> None:
    if not is_array(uris) or not all(isinstance(uri, str) for uri in uris):
        raise MalformedError(f"notifications.{_URIS}: expected an array of URIs")
    check_room(len(uris), sum(map(len, uris)))
    for uri in uris:
        check_uri(uri)


@lru_cache(256)
def notification(change: Change) -> bytes:
    """Return the message that tells a handshake session of a change."""
    what, uri = change
    if uri is None:
        return jsonrpc.notification(f"notifications/{what}/list_changed")
    return jsonrpc.notification("notifications/resources/updated", {"uri": uri})


@lru_cache(256)
def _around_id(change: Change) -> tuple[bytes, bytes]:
    """Return a stream's message without the id of the stream; a thousand streams differ in that alone."""
    what, uri = change
    method = f"notifications/{what}/list_changed" if uri is None else "notifications/resources/updated"
    uri_member = b"" if uri is None else b',"uri":' + jsonrpc.encode(uri)
    head = f'{{"jsonrpc":"2.0","method":"{method}","params":{{"_meta":{{"{SUBSCRIPTION_ID}":'
    return head.encode(), b"}" + uri_member + b"}}"
