"""Subscriptions to changes: the filter and messages of a stream, and the delivery to all listeners of an event loop."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Protocol

from .._utils.exceptions import INVALID_PARAMS, BusyError, MalformedError, ProtocolError
from ..components.component import is_template
from ..content.uri_normalization import normalized_template, spellings, template_spellings
from ..identity.principals_and_scopes import LISTS, RESOURCES, Change, ListName, Principal
from ..protocol import jsonrpc
from ..protocol.jsonrpc import Json, is_array, is_object
from ..protocol.revisions import SUBSCRIPTION_ID
from ..requests.access_and_error_responses import check_identified
from ..requests.request_record import Call
from .changes_between_processes import LoopQueue, Publisher, Receiver
from .included_providers_and_extensions import CompositeCatalog, Extension
from .listing_and_visibility import Subscriber, Visibility
from .watch_functions import Watches

if TYPE_CHECKING:
    from ..storage.base import PubSub

logger = logging.getLogger(__name__)

# URIs that one session or one stream may subscribe to, and keys beside them.
MAX_URIS = 1000

# Characters in all of them together.
MAX_URIS_LENGTH = 64 * 1024

# Characters in one of them.
MAX_URI_LENGTH = 2048

# The reason for closing a stream after events of its topics were lost.
LOST = "messages between server processes were lost; listen again, and read what you subscribed to"

# Changes that are delivered in one iteration of the event loop, few enough for a fast reader.
_BATCH = 64

# A change that also concerns subscribers of a URI: another component may serve it now.
_RESOURCES = Change("resources")


# The messages of subscriptions (basic/patterns/subscriptions)


class Listen:
    """One `subscriptions/listen` request: its filter and its messages, without I/O.

    Args:
        call: The request.
        is_offered: Returns True if the server offers a list.
        extensions: Extensions with the topics that clients may subscribe to.

    Attributes:
        request_id: The id of the request, which every message of the stream contains.
        revision: The revision of the request.
        changes: The changes to which the stream subscribes.

    Raises:
        ProtocolError: -32602 for a filter that is malformed or too large, or an error of a topic's `accept`.
        ChallengeError: The filter has a topic, the server is protected, and the client is not authenticated.
        MissingCapabilityError: The client has not declared the extension of a topic.
        Exception: Any other exception of a topic's `accept`.
    """

    def __init__(
        self, call: Call, is_offered: Callable[[str], bool], extensions: Iterable[Extension]
    ) -> None:
        self.request_id = call.request_id
        self.revision = call.revision
        self._meta = {SUBSCRIPTION_ID: call.request_id}
        self._accepted: dict[str, Any] = {}
        requested: Any = call.params.get("notifications")
        if not is_object(requested):
            raise MalformedError("notifications: expected an object with the lists and URIs to listen for")
        changes: list[Change] = []
        for member, name in LISTS.items():
            flag = requested.get(member)
            if flag is not None and type(flag) is not bool:
                raise MalformedError(f"notifications.{member}: expected true or false")
            if flag and is_offered(name):
                changes.append(Change(name))
                self._accepted[member] = True
        topics = [
            (each, topic)
            for each in extensions
            for topic in each.topics
            if requested.get(topic.member) is not None
        ]
        if topics and call.runtime.is_protected and call.principal.id is None:
            check_identified(call)
        keys: dict[str, list[str]] = {}
        for member in (RESOURCES, *(topic.member for _, topic in topics)):
            found: Any = requested.get(member)
            keys[member] = found = [] if found is None else found
            if not is_array(found) or not all(isinstance(key, str) for key in found):
                kind = "URIs" if member == RESOURCES else "strings"
                raise MalformedError(f"notifications.{member}: expected an array of {kind}")
        check_keys([key for each in keys.values() for key in each])
        if requested.get(RESOURCES) is not None and is_offered("resources"):
            self._accepted[RESOURCES] = keys[RESOURCES]
            changes += [Change("resource", uri) for uri in keys[RESOURCES]]
        for extension, topic in topics:
            call.client.require(extension.capability)
            from ..context import Context

            accepted = topic.accepted(keys[topic.member], Context(call))
            changes += [Change(topic.notification, key) for key in accepted]
            before = self._accepted.get(topic.member, ())
            self._accepted[topic.member] = list(dict.fromkeys((*before, *accepted)))
        self.changes = frozenset(changes)
        # Rendered now, so that the stream keeps nothing else of its request.
        self._result = jsonrpc.result(call.request_id, call.render({"_meta": self._meta}))

    def acknowledged(self) -> bytes:
        """Return the first message of the stream, with the accepted part of the filter."""
        params = {"_meta": self._meta, "notifications": self._accepted}
        return jsonrpc.notification("notifications/subscriptions/acknowledged", params)

    def notification(self, change: Change) -> bytes:
        """Return the notification of a change."""
        if change.params is not None:
            meta = {**change.params.get("_meta", {}), **self._meta}
            return jsonrpc.notification(change.kind, {**change.params, "_meta": meta})
        method, params = _method_and_params(change)
        return jsonrpc.notification(method, {"_meta": self._meta, **params})

    def result(self) -> bytes:
        """Return the last message of a stream that ends gracefully."""
        return self._result

    def cancelled(self, reason: str) -> bytes:
        """Return the last message, on a pipe, of a stream that is dropped (basic/patterns/cancellation)."""
        params = {"requestId": self.request_id, "reason": reason}
        return jsonrpc.notification("notifications/cancelled", params)


def check_keys(keys: Collection[str]) -> None:
    """Check the number and the length of subscribed URIs and keys.

    Raises:
        ProtocolError: -32602, with the limit.
    """
    if len(keys) > MAX_URIS or sum(map(len, keys)) > MAX_URIS_LENGTH:
        raise ProtocolError(
            INVALID_PARAMS,
            f"A client can subscribe to at most {MAX_URIS:,} URIs and topic keys, of {MAX_URIS_LENGTH:,} characters "
            "together. Unsubscribe from one, or subscribe to a template",
        )
    if keys and max(map(len, keys)) > MAX_URI_LENGTH:
        raise ProtocolError(
            INVALID_PARAMS, f"A subscribed URI or key must have at most {MAX_URI_LENGTH:,} characters"
        )


def notification(change: Change) -> bytes:
    """Return the notification of a change for a session."""
    method, params = _method_and_params(change)
    return jsonrpc.notification(method, params or None)


def _method_and_params(change: Change) -> tuple[str, Json]:
    """Return the method and the params of the notification of a list or a resource."""
    if change.uri is None:
        return f"notifications/{change.kind}/list_changed", {}
    return "notifications/resources/updated", {"uri": change.uri}


# Delivery


class ChangeListener(Subscriber, Protocol):
    """A listener for changes, such as a session or a stream."""

    def changed(self, change: Change) -> None:
        """Receive a change in the event loop's thread, without blocking.

        If events of a topic were lost, end the stream.
        """
        ...


class SubscriptionHub:
    """Delivers the changes of one server to the listeners in the running event loop.

    A change may be made in any thread. Changes that come faster than the loop runs are delivered once, in the order of
    their first occurrence. Changes without a listener are discarded. All methods but `deliver` must be called in the
    loop's thread.

    Args:
        catalog: Components of the server.
        is_declared: Returns True if the server has declared a list.
        ready: Waits until the lifespans have been entered, before `watch=` functions run.
        broker: Storage through which processes exchange changes; None for a single process.
        topic: Topic of the changes in the broker.
        is_closed: Whether the server is protected.

    Attributes:
        is_declared: Returns True if the server has declared a list.
        origin: Identifier of this object in messages to other processes.
        recovered: Notifications of topics that other code recovers after lost messages.
    """

    def __init__(
        self,
        catalog: CompositeCatalog,
        is_declared: Callable[[ListName], bool],
        ready: Callable[[], Awaitable[None]],
        broker: PubSub | None,
        topic: str,
        *,
        is_closed: bool = False,
    ) -> None:
        self.is_declared = is_declared
        self.origin = os.urandom(8).hex()
        self.recovered: set[str] = set()
        self._catalog = catalog
        self._ready = ready
        self._broker = broker
        self._topic = topic
        self._queue = LoopQueue(self._deliver_batch)
        self._visibility = Visibility(catalog, is_closed=is_closed)
        self._sources = ExitStack()
        self._waiting: set[asyncio.Task[None]] = set()
        self._clear()

    def _clear(self) -> None:
        self._listeners: dict[Change, dict[ChangeListener, None]] = {}
        self._subscriptions: dict[ChangeListener, dict[Change, None]] = {}
        self._templates: dict[str, None] = {}
        self._spelled: dict[str, dict[str, None]] = {}  # the subscribed URIs, by their normalized form
        self._watches = Watches(
            self._catalog,
            self._ready,
            self.deliver,
            lambda change: self._permitted(change, self._listeners.get(change, ())),
        )

    def subscribe(self, listener: ChangeListener, change: Change) -> None:
        """Subscribe a listener to a change.

        Args:
            listener: The listener.
            change: The change. If its URI is the text of a registered template, the listener gets the changes of every
                URI that the template matches.
        """
        if not self._subscriptions:
            self._sources.callback(self._catalog.listeners.add(self.deliver))
            if self._broker is not None:
                receiver = Receiver(self._broker, self._topic, self.origin, self.deliver, self.principals)
                self._sources.callback(self._broker.subscribe(self._topic, receiver.receive, self._missed))
        self._subscriptions.setdefault(listener, {})[change] = None
        listeners = self._listeners.get(change)
        if listeners is None:
            listeners = self._listeners[change] = {}
            if change.uri is not None:
                self._spelled.setdefault(normalized_template(change.uri), {})[change.uri] = None
                if is_template(change.uri):
                    self._templates[change.uri] = None
        listeners[listener] = None
        if change in self._watches or self._visibility.receivers(change.uri)(listener):
            self._watches.update(change)

    def unsubscribe(self, listener: ChangeListener, change: Change) -> None:
        """Unsubscribe a listener from a change; without a subscription, nothing happens."""
        subscriptions = self._subscriptions.get(listener)
        if subscriptions is None or change not in subscriptions:
            return
        del subscriptions[change]
        if not subscriptions:
            del self._subscriptions[listener]
        listeners = self._listeners[change]
        del listeners[listener]
        if listeners:
            if change in self._watches:
                self._watches.update(change)
        else:
            del self._listeners[change]
            if change.uri is not None:
                self._templates.pop(change.uri, None)
                equal = self._spelled[form := normalized_template(change.uri)]
                del equal[change.uri]
                if not equal:
                    del self._spelled[form]
            self._watches.remove(change)
        if not self._subscriptions:
            self._sources.close()

    def unsubscribe_all(self, listener: ChangeListener) -> None:
        """Remove all subscriptions of a listener."""
        for change in self.subscriptions(listener):
            self.unsubscribe(listener, change)

    def subscriptions(self, listener: ChangeListener) -> tuple[Change, ...]:
        """Return the changes to which a listener is subscribed."""
        return tuple(self._subscriptions.get(listener, ()))

    def subscribed(self, kind: str) -> list[Change]:
        """Return the subscribed changes of a kind."""
        return [change for change in self._listeners if change.kind == kind]

    def has_subscribers(self, change: Change) -> bool:
        """Return True if a change has a listener."""
        if change in self._listeners or change == _RESOURCES:
            return True
        uri = change.uri
        return uri is not None and (
            any(form in self._spelled for form in spellings(uri))
            or next(self._templates_of(uri), None) is not None
        )

    def principals(self, change: Change) -> set[Principal]:
        """Return the users that are subscribed to a change here and may get it; in the loop's thread."""
        return self._permitted(change, self._listeners_of(change))

    def _permitted(self, change: Change, listeners: Iterable[ChangeListener]) -> set[Principal]:
        may_receive = self._visibility.receivers(change.uri)
        return {listener.principal for listener in listeners if may_receive(listener)}

    # Other processes

    def listening(self) -> Coroutine[object, object, None] | None:
        """Return a coroutine that waits until changes of other processes are received.

        Returns:
            The coroutine, which raises BusyError if the storage does not answer; None if there are no other processes.
        """
        broker = self._broker
        if broker is None:
            return None

        async def wait() -> None:
            try:
                await broker.listening()
            except OSError:
                logger.exception(
                    "the shared store does not answer: subscriptions of clients are refused until it does. "
                    "Check the store"
                )
                raise BusyError(
                    "The server cannot receive changes from its other processes. Try again later"
                ) from None

        return wait()

    def when_listening(self, acknowledge: Callable[[], None], refuse: Callable[[BusyError], None]) -> None:
        """Call `acknowledge` once changes of other processes are received, or `refuse` if the storage does not answer.

        Without other processes, `acknowledge` is called at once.
        """
        listening = self.listening()
        if listening is None:
            acknowledge()
            return

        async def wait() -> None:
            try:
                await listening
            except BusyError as error:
                refuse(error)
            else:
                acknowledge()

        task = asyncio.get_running_loop().create_task(wait())
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)

    def publish(self) -> Callable[[], None]:
        """Publish the changes of this process to other processes, if there are any.

        Returns:
            A function that ends it.
        """
        if self._broker is None:
            return lambda: None
        return Publisher(self._catalog.listeners, self._broker, self._topic, self.origin).close

    def _missed(self) -> None:
        """Deliver all subscribed changes, as messages of other processes were lost; from any thread."""
        for change in (_RESOURCES, *self._listeners):
            if change.kind not in self.recovered:
                self.deliver(change)

    # Delivery

    def deliver(self, change: Change) -> None:
        """Deliver a change to its listeners in this event loop; from any thread, without blocking."""
        if self.has_subscribers(change) and not self._queue.put(change):  # the loop has ended
            self._sources.close()
            self._clear()

    def _deliver_batch(self) -> None:
        changes = self._queue.take(_BATCH)
        try:
            for change in changes:
                self._deliver(change)
        finally:
            if changes:
                asyncio.get_running_loop().call_soon(self._deliver_batch)

    def _deliver(self, change: Change) -> None:
        if change == _RESOURCES:
            self._watches.refresh()
        may_receive, audience = self._visibility.receivers(change.uri), change.audience
        for listener, changes in self._listeners_of(change).items():
            # The reaction of another listener to this change may have ended it.
            if listener not in self._subscriptions or not may_receive(listener):
                continue
            if audience is None or audience.holds(listener.principal):
                for each in changes:
                    listener.changed(each)

    def _listeners_of(self, change: Change) -> dict[ChangeListener, list[Change]]:
        """Return the listeners of a change, each with the change under the URIs that it subscribed to."""
        found = {listener: [change] for listener in self._listeners.get(change, ())}
        uri = change.uri
        if uri is None:
            return found
        for other in dict.fromkeys(other for form in spellings(uri) for other in self._spelled.get(form, ())):
            if other != uri:
                same = Change(change.kind, other, change.audience, change.params)
                for listener in self._listeners[same]:
                    found.setdefault(listener, []).append(same)
        for text in self._templates_of(uri):
            for listener in self._listeners[Change("resource", text)]:
                found.setdefault(listener, [change])
        return found

    def _templates_of(self, uri: str) -> Iterator[str]:
        """Yield the subscribed templates that match a URI; the time does not depend on subscriptions to other texts."""
        for each in self._catalog.resource_templates if self._templates else ():
            if each.is_enabled and each.template.match(uri) is not None:
                for form in template_spellings(each.key):
                    yield from tuple(self._spelled.get(form, ()))
