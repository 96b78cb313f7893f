"""Subscribes to changes at a server in all protocol versions, and again after a lost connection.

basic/patterns/subscriptions; up to 2025-11-25 server/resources, "Subscriptions".
"""

from __future__ import annotations

import asyncio
import math
from asyncio import sleep
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from .._utils.exceptions import INTERNAL_ERROR, METHOD_NOT_FOUND, ProtocolError, TransportError
from ..execution.coroutines import within
from ..identity.principals_and_scopes import RESOURCES, ListName
from ..protocol.jsonrpc import Json, RequestId, is_array, is_object, whole_number
from ..protocol.revisions import STATELESS, SUBSCRIPTION_ID
from .client_session import ClientSession
from .client_subscriptions import Change, ChangeBuffer, SubscriptionFilter, prefixes
from .retries_and_timeouts import pause_after
from .transport_interface import HasStream

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
_LISTS: Final[dict[str, ListName]] = {
    "notifications/tools/list_changed": "tools",
    "notifications/prompts/list_changed": "prompts",
    "notifications/resources/list_changed": "resources",
}
_LIST_CHANGED: Final[dict[str, str]] = {name: method for method, name in _LISTS.items()}


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
        self._lists = requested.lists  # those whose changes the server announces
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
            and not self._requested.is_about(uri)
            and self._subscriptions.are_about(uri)
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
                self._on_missed(_LIST_CHANGED[change.kind], {})
            else:
                self._on_missed(_UPDATED, {"uri": change.uri})
            self._queue.add(change)


def not_announced(missing: Sequence[str]) -> ProtocolError:
    """Return the error for changes that a server does not announce."""
    return ProtocolError(
        METHOD_NOT_FOUND,
        f"the server does not send notifications about {', '.join(missing)}. Watch only what it notifies; "
        "watch() without arguments watches all lists that may change",
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
    """

    def __init__(self, session: ClientSession) -> None:
        self._session = session
        self._by_uri: dict[str, _ResourceSubscription] = {}
        self._unsubscribing: set[asyncio.Task[None]] = set()

    def are_about(self, uri: str) -> bool:
        """Return whether a URI is subscribed to, matches a subscribed template or lies below a subscribed URI."""
        return uri in self._by_uri or uri.startswith(prefixes(self._by_uri))

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

        tasks: list[asyncio.Task[None]] = []
        for uri in uris:
            subscription = self._by_uri.setdefault(uri, _ResourceSubscription())
            subscription.users += 1
            tasks.append(asyncio.create_task(subscribe(uri, subscription)))
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def release(self, uris: Iterable[str]) -> None:
        """Release resources, and unsubscribe in the background from those without another user."""
        for uri in uris:
            subscription = self._by_uri[uri]
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
                self._by_uri.pop(uri, None)
