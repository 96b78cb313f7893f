"""Subscriptions to changes at a server (`Client.listen`), the same for all protocol versions.

basic/patterns/subscriptions; up to 2025-11-25 server/resources, "Subscriptions", and the lists' notifications.
"""

from __future__ import annotations

import asyncio
import math
from asyncio import sleep
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Literal

from typing_extensions import Self

from .._utils.concurrency import LoopAffinity, call_in_loop, require_loop
from .._utils.exceptions import INTERNAL_ERROR, METHOD_NOT_FOUND, ProtocolError, TransportError
from ..execution.coroutines import gather_or_cancel, within
from ..identity.principals_and_scopes import LIST_NAMES, RESOURCES, ListName
from ..protocol.jsonrpc import Json, RequestId, is_array, is_object, whole_number
from ..protocol.revisions import STATELESS, SUBSCRIPTION_ID
from .client_session import ClientSession
from .timeouts_retries_and_progress import pause_after
from .transport_interface_and_memory import HasStream

Kind = Literal["tools", "prompts", "resources", "resource"]
"""One of the lists (`resources` includes the templates), or `resource` for the contents of one resource."""

MAX_WAITING: Final = 1000
"""The most queued changes of URIs that were not subscribed to by name, for a slow reader."""

MAX_LENGTH: Final = 1024 * 1024
"""The most characters of these URIs together."""


@dataclass(frozen=True, slots=True)
class Change:
    """A change at the server: list or read the thing again.

    Attributes:
        kind: The list that has changed: `tools`, `prompts` or `resources`; or `resource`, whose contents have changed.
        uri: The URI of the resource; None for a list.
        may_have_missed: Whether the change is only possible: the connection was lost, and notifications may have been
            missed.
    """

    kind: Kind
    uri: str | None = None
    may_have_missed: bool = False


@dataclass(frozen=True, slots=True)
class SubscriptionFilter:
    """The changes that a subscription covers.

    Attributes:
        lists: The lists to receive changes of.
        uris: The URIs of resources to receive changes of, without duplicates.
        allows_missing_lists: Whether lists whose changes the server does not announce are no error.
    """

    lists: Sequence[ListName]
    uris: Collection[str] = ()
    allows_missing_lists: bool = False

    @classmethod
    def of(cls, flags: Sequence[bool], uris: str | Iterable[str]) -> SubscriptionFilter:
        """Return the filter for arguments of `Client.listen`. Without any argument it covers all lists.

        Args:
            flags: Whether to receive changes of each list of `LIST_NAMES`.
            uris: The URIs of resources, or one URI.

        Raises:
            TypeError: A URI is not a string.
        """
        named: list[object] = [uris] if isinstance(uris, str) else list(uris)
        for uri in named:
            if not isinstance(uri, str):
                raise TypeError(f"resource_subscriptions must be URIs, got {uri!r}")
        lists: list[ListName] = [
            name for name, is_requested in zip(LIST_NAMES, flags, strict=True) if is_requested
        ]
        if not lists and not named:
            return cls(LIST_NAMES, allows_missing_lists=True)
        return cls(lists, dict.fromkeys(map(str, named)))

    def all(self, lists: Iterable[ListName]) -> list[Change]:
        """Return a possible change (`may_have_missed`) of each of these lists and of each URI."""
        changes = [Change(name, None, may_have_missed=True) for name in lists]
        return changes + [Change("resource", uri, may_have_missed=True) for uri in self.uris]


def is_covered(uri: str, uris: Collection[str]) -> bool:
    """Return whether a URI is one of several, matches one of their templates, or lies below one of them."""
    parts = (each.partition("{") for each in uris)
    beginnings = tuple(before if brace else before.rstrip("/") + "/" for before, brace, _ in parts)
    return uri in uris or uri.startswith(beginnings)


class ChangeBuffer:
    """A bounded queue of changes for one reader, with one entry for each thing that has changed.

    Attributes:
        is_over: Whether no more changes will come.
        error: The error that ended the subscription; None if it was closed.
    """

    def __init__(self, requested: SubscriptionFilter) -> None:
        self.is_over = False
        self.error: BaseException | None = None
        self._requested = requested
        self._changes: dict[tuple[Kind, str | None], Change] = {}
        self._unnamed: set[str] = set()  # URIs in the queue that the filter does not name
        self._length = 0  # characters of these URIs together
        self._arrival = asyncio.Event()

    def add(self, change: Change) -> None:
        """Add a change. A certain change replaces a possible one (`may_have_missed`)."""
        key = change.kind, change.uri
        queued = self._changes.get(key)
        if queued is None or queued.may_have_missed:
            self._changes[key] = change
        if queued is None and change.uri is not None and change.uri not in self._requested.uris:
            self._unnamed.add(change.uri)
            self._length += len(change.uri)
            if len(self._unnamed) > MAX_WAITING or self._length > MAX_LENGTH:
                self._drop_unnamed()
        self._arrival.set()

    def _drop_unnamed(self) -> None:
        for uri in self._unnamed:
            del self._changes["resource", uri]
        self._unnamed.clear()
        self._length = 0
        for missed in self._requested.all(()):
            self.add(missed)

    def end(self, error: BaseException | None = None) -> None:
        """Wake the reader: no more changes will come."""
        if not self.is_over:
            self.is_over = True
            self.error = error
            self._arrival.set()

    def clear(self) -> None:
        """Discard the queued changes and end."""
        self._changes.clear()
        self._unnamed.clear()
        self.end()
        self.error = None

    async def get(self) -> Change:
        """Wait for the next change and return it.

        Raises:
            StopAsyncIteration: No more changes will come.
            Exception: The error that ended the subscription. It is raised once.
        """
        while not self._changes:
            if self.is_over:
                error, self.error = self.error, None
                raise StopAsyncIteration if error is None else error
            self._arrival.clear()
            await self._arrival.wait()
        change = self._changes.pop(next(iter(self._changes)))
        if change.uri in self._unnamed:
            self._unnamed.discard(change.uri)
            self._length -= len(change.uri)
        return change


ChangeSource = Callable[[ChangeBuffer, "asyncio.Future[None]"], Coroutine[object, object, None]]
"""Adds changes to a `ChangeBuffer` until the client is closed, and sets the future once no change can be missed."""


class Subscription:
    """A subscription to changes at a server, made by `client.listen(...)`.

        async with client.listen(tools_list_changed=True) as changes:
            tools = await client.list_tools()
            async for change in changes:
                tools = await client.list_tools()

    No change is lost after the subscription has been entered: each list that is requested afterwards is at least as new
    as the last change that was not reported. In a plain `async for change in client.listen(...)` this holds from the
    first iteration on. Such a subscription ends with `aclose`, or when it is garbage collected after the loop.

    Changes of the same thing that wait for the reader are merged. After a lost connection the subscription reconnects
    and reports a change of each thing with `may_have_missed`. It ends without an error when the client is closed.

    Args:
        requested: The changes to subscribe to.
        source: The coroutine function that receives changes from the server.
    """

    def __init__(self, requested: SubscriptionFilter, source: ChangeSource) -> None:
        self._requested = requested
        self._source = source
        self._queue: ChangeBuffer | None = None
        self._task: asyncio.Task[None] | None = None
        self._affinity = LoopAffinity("the subscription", "make another one there, by client.listen()")

    async def _begin(self) -> ChangeBuffer:
        """Subscribe, and return once the server has acknowledged the subscription."""
        if self._task is not None:
            self._affinity.check()
        if self._queue is not None:
            return self._queue
        loop = require_loop("the subscription")
        self._affinity.bind(loop)
        self._queue = queue = ChangeBuffer(self._requested)
        acknowledged: asyncio.Future[None] = loop.create_future()
        self._task = loop.create_task(_run_source(self._source, queue, acknowledged))
        try:
            await acknowledged
        except BaseException:
            await self.aclose()
            raise
        return queue

    async def __aenter__(self) -> Self:
        """Subscribe, and return once the server has acknowledged the subscription.

        Raises:
            ProtocolError: The server does not announce the requested changes, or responded with an error.
            TimeoutError: The server did not respond in time.
            ConnectionError: The server cannot be reached, or the client has been closed.
        """
        await self._begin()
        return self

    async def __aexit__(self, *error: object) -> None:
        """End the subscription and notify the server."""
        await self.aclose()

    def __aiter__(self) -> Self:
        """Return the subscription itself."""
        return self

    async def __anext__(self) -> Change:
        """Wait for the next change and return it.

        Raises:
            StopAsyncIteration: The subscription or the client has been closed.
            Exception: `__aenter__` failed, or the subscription could not be renewed after several tries.
        """
        return await (await self._begin()).get()

    async def aclose(self) -> None:
        """End the subscription and notify the server. Closing it again does nothing."""
        if self._queue is None:
            self._queue = ChangeBuffer(self._requested)
        self._queue.clear()
        if self._task is not None and not self._task.done() and not self._affinity.is_lost:
            self._affinity.check()
            self._task.cancel()
            await asyncio.wait((self._task,))

    def __del__(self) -> None:
        """End the subscription when it is garbage collected, as after `break`."""
        task = self._task
        if task is not None and not task.done():
            call_in_loop(task.get_loop(), task.cancel)


async def _run_source(source: ChangeSource, queue: ChangeBuffer, acknowledged: asyncio.Future[None]) -> None:
    """Run the source of changes and pass its end or error to the reader."""
    try:
        await source(queue, acknowledged)
    except asyncio.CancelledError:
        raise
    except BaseException as error:  # noqa: BLE001 - the reader raises it
        if acknowledged.done():
            queue.end(error)
        else:
            acknowledged.set_exception(error)
    finally:
        queue.end()
        if not acknowledged.done():  # the subscription was closed before
            acknowledged.set_result(None)


MAX_ATTEMPTS: Final = 20
"""Attempts in a row to subscribe again: for one to two minutes if nothing responds."""

_FIRST_ATTEMPTS: Final = 3
_TIMEOUT: Final = 30.0
_STABLE_AFTER: Final = 5.0
"""Seconds after which a lost subscription no longer counts as a failed attempt."""

_MAX_RETRY_AFTER: Final = 300.0
"""The longest wait in seconds for a server that sends `Retry-After`."""

_MAX_CONCURRENT: Final = 16
"""The most `resources/subscribe` requests that are pending at a time."""

_UNSUBSCRIBE_TIMEOUT: Final = 10.0
"""Seconds that the server has to end a subscription. After that the client ignores the subscription."""

_NO_STREAM: Final = "the server declares notifications of changes, but provides no stream to receive them"
_ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
_UPDATED: Final = "notifications/resources/updated"
_LISTS: Final = {f"notifications/{name}/list_changed": name for name in LIST_NAMES}


class ChangeListener:
    """Subscribes to changes at one server and receives the notifications, for one `Subscription`.

    Args:
        session: The session with the server.
        subscriptions: The resource subscriptions of the session.
        requested: The changes to receive.
        on_missed: Called with method and params of a notification for each change that may have been missed.
        timeout: Seconds within which the server must acknowledge the subscription; None for 30.
    """

    def __init__(
        self,
        session: ClientSession,
        subscriptions: ResourceSubscriptions,
        requested: SubscriptionFilter,
        on_missed: Callable[[str, Json], object],
        timeout: float | None,
    ) -> None:
        self._session = session
        self._subscriptions = subscriptions
        self._requested = requested
        self._lists = tuple(requested.lists)  # those whose changes the server announces
        self._on_missed = on_missed
        self._timeout = _TIMEOUT if timeout is None else timeout
        self._began = math.inf  # when the server acknowledged the subscription

    async def listen(self, queue: ChangeBuffer, acknowledged: asyncio.Future[None]) -> None:
        """Receive changes until the client is closed; subscribe again after a lost connection.

        Args:
            queue: The queue that takes the changes.
            acknowledged: Set once the server has acknowledged the subscription.

        Raises:
            ProtocolError: The server refuses the subscription, or does not announce the requested changes.
            TimeoutError: The server did not respond in time.
            ConnectionError: The server could not be reached after all attempts.
        """
        self._queue, self._acknowledged = queue, acknowledged
        failures = 0
        while True:
            self._began = math.inf
            error = await self._listen_once()
            if self._session.is_closed:
                if not acknowledged.done():
                    raise error
                return
            if asyncio.get_running_loop().time() - self._began >= _STABLE_AFTER:
                failures = 0
            failures += 1
            if failures >= (MAX_ATTEMPTS if acknowledged.done() else _FIRST_ATTEMPTS):
                raise error
            wait = pause_after(failures)
            if isinstance(error, TransportError) and error.retry_after is not None:
                wait = max(wait, min(error.retry_after, _MAX_RETRY_AFTER))
            await sleep(wait)

    async def _listen_once(self) -> Exception:
        """Receive changes until the connection is lost, and return the error.

        Errors that another attempt would not avoid are raised.
        """
        session = self._session
        try:
            await session.ensure_open()
            if session.wire.revision in STATELESS:
                return await self._listen_to_stream()
            return await self._listen_to_session()
        except TransportError as error:
            if not error.may_pass:
                raise
            return error
        except ConnectionError as error:
            if not session.is_closed:
                raise
            return error
        except (TimeoutError, ProtocolError) as error:
            # A server that is restarting may not support every method yet.
            is_refused = isinstance(error, ProtocolError) and error.code != INTERNAL_ERROR
            if is_refused or not self._acknowledged.done():
                raise
            return error

    # 2026-07-28: `subscriptions/listen`, one stream for each subscription

    async def _listen_to_stream(self) -> Exception:
        session, requested = self._session, self._requested
        notifications: Json = {f"{name}ListChanged": True for name in requested.lists}
        if requested.uris:
            notifications[RESOURCES] = list(requested.uris)
        request_id: RequestId | None = None
        acknowledgement: asyncio.Future[object] = asyncio.get_running_loop().create_future()

        def on_id(id_: RequestId) -> None:
            nonlocal request_id
            request_id = id_

        def on_notification(method: str, params: Json | None) -> None:
            meta = None if params is None else params.get("_meta")
            if params is None or not is_object(meta) or whole_number(meta.get(SUBSCRIPTION_ID)) != request_id:
                return
            if method != _ACKNOWLEDGED:
                self._add(method, params)
            elif not acknowledgement.done():
                acknowledgement.set_result(params.get("notifications"))

        remove_listener = session.listeners.add(on_notification)
        request = asyncio.ensure_future(
            session.exchange("subscriptions/listen", {"notifications": notifications}, on_id=on_id)
        )
        try:
            await asyncio.wait(
                (request, acknowledgement), timeout=self._timeout, return_when=asyncio.FIRST_COMPLETED
            )
            if acknowledgement.done():
                self._check_acknowledgement(acknowledgement.result())
                self._on_acknowledged()
            elif not request.done():
                raise TimeoutError(
                    f"the server did not acknowledge subscriptions/listen within {self._timeout:g} s. "
                    "Raise Timeout(response=...) if the server is slow"
                )
            await request
            return TransportError("the server closed the subscription", may_have_begun=False)
        finally:
            remove_listener()
            request.cancel()
            await asyncio.wait((request,))

    def _check_acknowledgement(self, notifications: object) -> None:
        accepted = notifications if is_object(notifications) else {}
        uris = accepted.get(RESOURCES)
        accepted_uris = uris if is_array(uris) else []
        missing = [uri for uri in self._requested.uris if uri not in accepted_uris]
        if len(accepted_uris) >= len(self._requested.uris):
            missing = []  # the server writes the URIs in another form
        self._check_announced(
            [name for name in self._requested.lists if accepted.get(f"{name}ListChanged") is True], missing
        )

    # Up to 2025-11-25: the notifications of the session

    async def _listen_to_session(self) -> Exception:
        session, requested = self._session, self._requested
        capabilities: Mapping[str, object] = (
            {} if session.negotiated is None else session.negotiated.capabilities
        )
        lists, can_subscribe = announced_changes(capabilities, requested.lists)
        self._check_announced(lists, () if can_subscribe else list(requested.uris))
        loss: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()

        def on_loss(error: Exception) -> None:
            if not loss.done():
                loss.set_result(error)

        remove = [session.listeners.add(self._on_session_notification), session.losses.add(on_loss)]
        transport = session.transport
        try:
            if not session.is_open:  # it was lost before the listener was added
                return TransportError("the connection was lost", may_have_begun=False)
            if isinstance(transport, HasStream):
                remove.append(transport.missed.add(self._report_missed))
                if not await within(self._timeout, transport.listening()):
                    raise ProtocolError(METHOD_NOT_FOUND, _NO_STREAM)
            try:
                await self._subscriptions.subscribe(requested.uris, self._timeout)
                self._on_acknowledged()
                return await loss
            finally:
                self._subscriptions.release(requested.uris)
        finally:
            for remove_listener in remove:
                remove_listener()

    def _on_session_notification(self, method: str, params: Json | None) -> None:
        uri = None if params is None else params.get("uri")
        # All subscriptions share the notifications of the session. A URI that none of them names goes to all of them,
        # because a server may write a URI in another form than the client did.
        is_for_another = (
            method == _UPDATED
            and isinstance(uri, str)
            and not is_covered(uri, self._requested.uris)
            and is_covered(uri, self._subscriptions.by_uri)
        )
        if not is_for_another:
            self._add(method, {} if params is None else params)

    # All versions

    def _check_announced(self, lists: list[ListName], missing_uris: Sequence[str]) -> None:
        """Compare the changes that the server announces with those requested.

        Raises:
            ProtocolError: The server does not announce some of the requested changes.
        """
        requested = self._requested
        missing = [f"the list of {name}" for name in requested.lists if name not in lists]
        self._lists = tuple(lists)
        if requested.allows_missing_lists:
            missing = [] if lists else ["any list"]
        missing += [uri[:200] for uri in missing_uris[:5]]
        if missing:
            raise not_announced(missing)

    def _add(self, method: str, params: Json) -> None:
        name, uri = _LISTS.get(method), params.get("uri")
        if name is not None and name in self._lists:
            self._queue.add(Change(name))
        elif method == _UPDATED and isinstance(uri, str) and self._requested.uris:
            self._queue.add(Change("resource", uri))

    def _on_acknowledged(self) -> None:
        self._began = asyncio.get_running_loop().time()
        if self._acknowledged.done():
            self._report_missed()
        else:
            self._acknowledged.set_result(None)

    def _report_missed(self) -> None:
        """Report a possible change of each thing, as notifications may have been missed."""
        for change in self._requested.all(self._lists):
            if change.uri is None:
                self._on_missed(f"notifications/{change.kind}/list_changed", {})
            else:
                self._on_missed(_UPDATED, {"uri": change.uri})
            self._queue.add(change)


def not_announced(missing: Sequence[str]) -> ProtocolError:
    """Return the error for changes that a server does not announce."""
    return ProtocolError(
        METHOD_NOT_FOUND,
        f"the server does not send notifications about {', '.join(missing)}. Subscribe to others; "
        "listen() without arguments subscribes to all lists that may change",
    )


def announced_changes(
    capabilities: Mapping[str, object], lists: Sequence[ListName]
) -> tuple[list[ListName], bool]:
    """Return which of these lists the server announces changes of, and whether it supports resource subscriptions."""
    declared = {name: each for name, each in capabilities.items() if is_object(each)}
    announced: list[ListName] = [name for name in lists if declared.get(name, {}).get("listChanged") is True]
    return announced, declared.get("resources", {}).get("subscribe") is True


# Resource subscriptions of a session, up to 2025-11-25

_NEVER: Final = -1


class _ResourceSubscription:
    """The subscription to one resource, shared by its users.

    Attributes:
        users: The number of its users.
        accepted_in: The generation of the session in which the server accepted it.
        requested_in: The generation of the session in which it was requested.
        lock: The lock for requests about it.
    """

    __slots__ = ("accepted_in", "lock", "requested_in", "users")

    def __init__(self) -> None:
        self.users = 0
        self.accepted_in = self.requested_in = _NEVER
        self.lock = asyncio.Lock()


class ResourceSubscriptions:
    """Resource subscriptions of a session, counted: the release of the last use of a URI unsubscribes.

    Args:
        session: The session.

    Attributes:
        by_uri: The subscriptions by URI.
    """

    def __init__(self, session: ClientSession) -> None:
        self._session = session
        self.by_uri: dict[str, _ResourceSubscription] = {}
        self._unsubscribing: set[asyncio.Task[None]] = set()

    async def subscribe(self, uris: Iterable[str], timeout: float) -> None:
        """Subscribe to resources that are not subscribed to yet. `release` ends it, also if this fails.

        Args:
            uris: The URIs, without duplicates.
            timeout: Seconds that the server has for each of them.

        Raises:
            ProtocolError: The server refuses.
            TimeoutError: The server did not respond in time.
            ConnectionError: The server cannot be reached.
        """
        session, slots = self._session, asyncio.Semaphore(_MAX_CONCURRENT)

        async def subscribe(uri: str, subscription: _ResourceSubscription) -> None:
            async with slots, subscription.lock:
                generation = session.generation
                if subscription.accepted_in == generation:
                    return
                subscription.requested_in = generation
                try:
                    await session.exchange("resources/subscribe", {"uri": uri}, None, timeout)
                except ProtocolError:
                    subscription.requested_in = _NEVER
                    raise
                subscription.accepted_in = generation

        named = {uri: self.by_uri.setdefault(uri, _ResourceSubscription()) for uri in uris}
        for subscription in named.values():
            subscription.users += 1
        await gather_or_cancel(subscribe(*each) for each in named.items())

    def release(self, uris: Iterable[str]) -> None:
        """Release resources, and unsubscribe in the background from those without another user."""
        for uri in uris:
            subscription = self.by_uri[uri]
            subscription.users -= 1
            if subscription.users == 0:
                task = asyncio.get_running_loop().create_task(self._unsubscribe(uri, subscription))
                self._unsubscribing.add(task)
                task.add_done_callback(self._unsubscribing.discard)

    async def _unsubscribe(self, uri: str, subscription: _ResourceSubscription) -> None:
        async with subscription.lock:
            session = self._session
            is_known = session.is_open and subscription.requested_in == session.generation
            subscription.accepted_in = subscription.requested_in = _NEVER
            if is_known:
                with suppress(ProtocolError, ConnectionError, TimeoutError):
                    await session.exchange("resources/unsubscribe", {"uri": uri}, None, _UNSUBSCRIBE_TIMEOUT)
            if not subscription.users:
                self.by_uri.pop(uri, None)
