"""Delivery of a server's changes to listeners in one event loop, with access rules."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Protocol
from weakref import WeakKeyDictionary

from ..._utils.exceptions import BusyError
from ...components.base import is_template
from ...content.uris import normalized_template, spellings, template_spellings
from ...identity.change import Change, ListName
from ...identity.principal import Principal
from ..registry import CompositeCatalog
from ..visibility import Guards, Subscriber, Visibility, may_receive
from .mailbox import Mailbox
from .watching import Watches

if TYPE_CHECKING:
    from ...storage.base import PubSub

logger = logging.getLogger(__name__)

_AT_A_TIME = 64
"""Changes that are delivered in one iteration of the event loop, few enough for a fast reader."""

_RESOURCES = Change("resources")
"""A change that also concerns subscribers of a URI: another component may serve it now."""


class ChangeListener(Subscriber, Protocol):
    """A listener for changes, such as a session or a stream."""

    def changed(self, change: Change) -> None:
        """Receive a change in the event loop's thread, without blocking.

        If events of a topic were lost, end the stream.
        """
        ...


class Changes:
    """Delivers the changes of one server to the listeners in the running event loop.

    A change may be made in any thread. Changes that come faster than the loop runs are delivered once, in the order of
    their first occurrence. Changes without a listener are discarded. All methods but `tell` must be called in the
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
        self._mailbox = Mailbox(self._deliver)
        self._visibility = Visibility(catalog, is_closed=is_closed)
        self._sources = ExitStack()
        self._forget_all()

        self._settling: set[asyncio.Task[None]] = set()

    def _forget_all(self) -> None:
        self._listeners: dict[Change, dict[ChangeListener, None]] = {}
        self._wants: dict[ChangeListener, dict[Change, None]] = {}
        self._templates: dict[str, None] = {}
        self._spelled: dict[str, dict[str, None]] = {}  # the URIs that are wanted, by their normalized form
        self._watches = Watches(self._catalog, self._ready, self.tell, self._subscribers)

    def want(self, listener: ChangeListener, change: Change) -> None:
        """Subscribe a listener to a change.

        Args:
            listener: The listener.
            change: The change. If its URI is the text of a registered template, the listener gets the changes of every
                URI that the template matches.
        """
        if not self._wants:
            self._sources.callback(self._catalog.listeners.add(self.tell))
            if self._broker is not None:
                from .relay import Hearing

                hearing = Hearing(self._broker, self._topic, self.origin, self.tell, self.principals)
                self._sources.callback(self._broker.subscribe(self._topic, hearing.heard, self._missed))
        self._wants.setdefault(listener, {})[change] = None
        listeners = self._listeners.get(change)
        if listeners is None:
            listeners = self._listeners[change] = {}
            if change.uri is not None:
                self._spelled.setdefault(normalized_template(change.uri), {})[change.uri] = None
                if is_template(change.uri):
                    self._templates[change.uri] = None
        listeners[listener] = None
        if change in self._watches:
            self._watches.update(change)
        elif may_receive(listener, self._guards(change)):
            self._watches.want(change)

    def listening(self) -> Coroutine[object, object, None] | None:
        """Return a coroutine that waits until changes of other processes are received.

        Returns:
            The coroutine, which raises BusyError if the storage does not answer; None if there are no other processes.
        """
        return None if self._broker is None else self._listening(self._broker)

    async def _listening(self, broker: PubSub) -> None:
        try:
            await broker.listening()
        except OSError:
            logger.exception(
                "the shared store does not answer: subscriptions of clients are refused until it does. Check the store"
            )
            raise BusyError(
                "The server cannot receive changes from its other processes. Try again later"
            ) from None

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
        self._settling.add(task)
        task.add_done_callback(self._settling.discard)

    def unwant(self, listener: ChangeListener, change: Change) -> None:
        """Unsubscribe a listener from a change; without a subscription, nothing happens."""
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
            if change.uri is not None:
                self._templates.pop(change.uri, None)
                alike = self._spelled[form := normalized_template(change.uri)]
                del alike[change.uri]
                if not alike:
                    del self._spelled[form]
            if change in self._watches:
                self._watches.unwant(change)
        elif change in self._watches:
            self._watches.update(change)
        if not self._wants:
            self._sources.close()

    def wanted(self, listener: ChangeListener) -> tuple[Change, ...]:
        """Return the changes to which a listener is subscribed."""
        return tuple(self._wants.get(listener, ()))

    def forget(self, listener: ChangeListener) -> None:
        """Remove all subscriptions of a listener."""
        for change in self.wanted(listener):
            self.unwant(listener, change)

    def tell(self, change: Change) -> None:
        """Deliver a change to its listeners in this event loop; from any thread, without blocking."""
        if not self.is_wanted(change) or self._mailbox.put(change):
            return
        self._sources.close()  # the loop has ended
        self._forget_all()

    def _missed(self) -> None:
        """Deliver all subscribed changes, as messages of other processes were lost; from any thread."""
        for change in (_RESOURCES, *self._listeners):
            if change.kind not in self.recovered:
                self.tell(change)

    def publish(self) -> Callable[[], None]:
        """Publish the changes of this process to other processes, if there are any.

        Returns:
            A function that ends it.
        """
        if self._broker is None:
            return lambda: None
        from .relay import Publisher

        return Publisher(self._catalog.listeners, self._broker, self._topic, self.origin).close

    def principals(self, change: Change) -> set[Principal]:
        """Return the users that are subscribed to a change here and may get it; in the loop's thread."""
        return self._told(change, self._interested(change))

    def _subscribers(self, change: Change) -> set[Principal]:
        return self._told(change, self._listeners.get(change, ()))

    def _told(self, change: Change, listeners: Iterable[ChangeListener]) -> set[Principal]:
        guards = self._guards(change)
        return {listener.principal for listener in listeners if may_receive(listener, guards)}

    def all_wanted(self, kind: str) -> list[Change]:
        """Return the subscribed changes of a kind."""
        return [change for change in self._listeners if change.kind == kind]

    def is_wanted(self, change: Change) -> bool:
        """Return True if a change has a listener."""
        if change in self._listeners or change == _RESOURCES:
            return True
        uri = change.uri
        return uri is not None and (
            any(form in self._spelled for form in spellings(uri))
            or next(self._templates_of(uri), None) is not None
        )

    def _templates_of(self, uri: str) -> Iterator[str]:
        """Yield the subscribed templates that match a URI; the time does not depend on subscriptions to other texts."""
        registered = self._catalog.resource_templates
        wanted = self._templates
        if len(wanted) < len(registered):
            found = [(text, registered.spelled(text)) for text in tuple(wanted)]
        else:
            alike = [
                (text, each.key)
                for each in (registered if wanted else ())
                for form in template_spellings(each.key)
                for text in tuple(self._spelled.get(form, ()))
            ]
            found = [(text, registered.get(key)) for text, key in alike]
        for text, template in found:
            if template is not None and template.template.match(uri) is not None:
                yield text

    def _deliver(self) -> None:
        changes = self._mailbox.take(_AT_A_TIME)
        try:
            for change in changes:
                self._tell(change)
        finally:
            if changes:
                asyncio.get_running_loop().call_soon(self._deliver)

    def _tell(self, change: Change) -> None:
        if change == _RESOURCES:
            self._watches.refresh()
        guards, audience = self._guards(change), change.audience
        for listener, as_wanted in self._interested(change).items():
            # What another one did about this change may have ended it.
            if listener not in self._wants or not may_receive(listener, guards):
                continue
            if audience is None or audience.holds(listener.principal):
                for each in as_wanted:
                    listener.changed(each)

    def _guards(self, change: Change) -> Guards | None:
        return None if change.uri is None else self._visibility.guards(change.uri)

    def _interested(self, change: Change) -> dict[ChangeListener, list[Change]]:
        """Return the listeners of a change, each with the change under the URIs that it subscribed to."""
        found = {listener: [change] for listener in self._listeners.get(change, ())}
        uri = change.uri
        if uri is None:
            return found
        for other in dict.fromkeys(other for form in spellings(uri) for other in self._spelled.get(form, ())):
            if other != uri:
                twin = Change(change.kind, other, change.audience, change.params)
                for listener in self._listeners[twin]:
                    found.setdefault(listener, []).append(twin)
        for text in self._templates_of(uri):
            for listener in self._listeners[Change("resource", text)]:
                found.setdefault(listener, [change])
        return found


class Hubs:
    """The `Changes` of one server, one for each event loop.

    Args:
        make: Creates one for the running event loop.
    """

    def __init__(self, make: Callable[[], Changes]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, Changes] = WeakKeyDictionary()

    def here(self) -> Changes:
        """Return the one for the running event loop."""
        loop = asyncio.get_running_loop()
        with self._lock:
            return self._by_loop.get(loop) or self._by_loop.setdefault(loop, self._make())
