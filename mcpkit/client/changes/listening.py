"""Receives change notifications in all protocol versions, and subscribes again after a lost connection."""

from __future__ import annotations

import asyncio
import math
from asyncio import sleep
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from ..._utils.exceptions import INTERNAL_ERROR, METHOD_NOT_FOUND, ProtocolError, TransportError
from ...execution.coroutines import within
from ...identity.principals_and_scopes import RESOURCES, ListName
from ...protocol.jsonrpc import Json, RequestId, is_array, is_object, whole_number
from ...protocol.revisions import STATELESS, SUBSCRIPTION_ID
from ..client_session import ClientSession
from ..retries_and_timeouts import pause_after
from ..transport_interface import HasStream
from .changes import Change, Pending, SubscriptionFilter
from .subscribed import Subscribed

TRIES: Final = 20
"""Attempts in a row to subscribe again: for one to two minutes if nothing responds."""

_FIRST_TRIES: Final = 3
_TIMEOUT: Final = 30.0
_LASTING: Final = 5.0
"""Seconds after which a lost subscription no longer counts as a failed attempt."""

_LONGEST_WAIT: Final = 300.0
"""The longest wait in seconds for a server that sends `Retry-After`."""

_NO_STREAM: Final = "the server declares notifications of changes, but provides no stream to receive them"
_ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
_UPDATED: Final = "notifications/resources/updated"
_LISTS: Final[dict[str, ListName]] = {
    "notifications/tools/list_changed": "tools",
    "notifications/prompts/list_changed": "prompts",
    "notifications/resources/list_changed": "resources",
}
_CHANGED: Final[dict[str, str]] = {name: method for method, name in _LISTS.items()}


class Listening:
    """Receives the change notifications for one subscription.

    Args:
        link: The link to the server.
        subscribed: The resource subscriptions of its session.
        requested: The changes to receive.
        missed: Called with method and params of a notification for each change that may have been missed.
        timeout: Seconds within which the server must acknowledge the subscription; None for 30.
    """

    def __init__(
        self,
        link: ClientSession,
        subscribed: Subscribed,
        requested: SubscriptionFilter,
        missed: Callable[[str, Json], object],
        timeout: float | None,
    ) -> None:
        self._link = link
        self._subscribed = subscribed
        self._requested = requested
        self._lists = requested.lists  # of which the server tells
        self._tell_missed = missed
        self._timeout = _TIMEOUT if timeout is None else timeout
        self._id: RequestId | None = None
        self._began = math.inf  # when it has joined

    async def listen(self, pending: Pending, joined: asyncio.Future[None]) -> None:
        """Receive changes until the client is closed; subscribe again after a lost connection.

        Args:
            pending: The queue that takes the changes.
            joined: Set once the server has acknowledged the subscription.

        Raises:
            ProtocolError: The server refuses the subscription, or does not announce the requested changes.
            TimeoutError: The server did not respond in time.
            ConnectionError: The server could not be reached after all attempts.
        """
        self._pending, self._joined = pending, joined
        failures = 0
        while True:
            self._began = math.inf
            broken = await self._once()
            if self._link.is_closed:
                if not joined.done():
                    raise broken
                return
            if self._time() - self._began >= _LASTING:
                failures = 0
            failures += 1
            if failures >= (TRIES if joined.done() else _FIRST_TRIES):
                raise broken
            wait = pause_after(failures)
            if isinstance(broken, TransportError) and broken.retry_after is not None:
                wait = max(wait, min(broken.retry_after, _LONGEST_WAIT))
            await sleep(wait)

    async def _once(self) -> Exception:
        """Receive changes until the connection is lost, and return the error.

        Errors that another attempt would not avoid are raised.
        """
        link = self._link
        try:
            await link.ensure_open()
            if link.wire.revision in STATELESS:
                return await self._listen_to_stream()
            return await self._listen_to_session()
        except TransportError as error:
            if not error.may_pass:
                raise
            return error
        except ConnectionError as error:
            if not link.is_closed:
                raise
            return error
        except (TimeoutError, ProtocolError) as error:
            # A server that comes up again may not be ready for all yet.
            is_refused = isinstance(error, ProtocolError) and error.code != INTERNAL_ERROR
            if is_refused or not self._joined.done():
                raise
            return error

    # The stateless era: a stream of its own

    async def _listen_to_stream(self) -> Exception:
        link, requested = self._link, self._requested
        asked: Json = {f"{name}ListChanged": True for name in requested.lists}
        if requested.uris:
            asked[RESOURCES] = list(requested.uris)
        self._acknowledged: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        ignore = link.listeners.add(self._hear_on_stream)
        asking = asyncio.ensure_future(
            link.exchange("subscriptions/listen", {"notifications": asked}, on_id=self._begin_stream)
        )
        try:
            await asyncio.wait(
                (asking, self._acknowledged), timeout=self._timeout, return_when=asyncio.FIRST_COMPLETED
            )
            if self._acknowledged.done():
                self._check_honoured(self._acknowledged.result())
                self._join()
            elif not asking.done():
                raise TimeoutError(
                    f"the server did not acknowledge subscriptions/listen within {self._timeout:g} s. "
                    "Raise Timeout(response=...) if the server is slow"
                )
            await asking
            return TransportError("the server closed the subscription", may_have_begun=False)
        finally:
            ignore()
            asking.cancel()
            await asyncio.wait((asking,))

    def _begin_stream(self, id_: RequestId) -> None:
        self._id = id_

    def _hear_on_stream(self, method: str, params: Json | None) -> None:
        meta = None if params is None else params.get("_meta")
        if params is None or not is_object(meta) or whole_number(meta.get(SUBSCRIPTION_ID)) != self._id:
            return
        if method != _ACKNOWLEDGED:
            self._take(method, params)
        elif not self._acknowledged.done():
            self._acknowledged.set_result(params.get("notifications"))

    def _check_honoured(self, honoured: object) -> None:
        told = honoured if is_object(honoured) else {}
        uris = told.get(RESOURCES)
        known = uris if is_array(uris) else []
        unheard = [uri for uri in self._requested.uris if uri not in known]
        if len(known) >= len(self._requested.uris):
            unheard = []  # it writes them otherwise
        self._check(
            [name for name in self._requested.lists if told.get(f"{name}ListChanged") is True], unheard
        )

    # The handshake era: the session

    async def _listen_to_session(self) -> Exception:
        link, requested = self._link, self._requested
        capabilities: Mapping[str, object] = {} if link.negotiated is None else link.negotiated.capabilities
        lists, may_subscribe = declared(capabilities, requested.lists)
        self._check(lists, () if may_subscribe else list(requested.uris))
        broken: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()

        def lose(error: Exception) -> None:
            if not broken.done():
                broken.set_result(error)

        forget = [link.listeners.add(self._hear_in_session), link.losses.add(lose)]
        transport = link.transport
        try:
            if not link.is_open:  # no more, as nobody has heard
                return TransportError("the connection was lost", may_have_begun=False)
            if isinstance(transport, HasStream):
                forget.append(transport.missed.add(self._miss))
                if not await within(self._timeout, transport.listening()):
                    raise ProtocolError(METHOD_NOT_FOUND, _NO_STREAM)
            try:
                await self._subscribed.hold(requested.uris, self._timeout)
                self._join()
                return await broken
            finally:
                self._subscribed.release(requested.uris)
        finally:
            for each in forget:
                each()

    def _hear_in_session(self, method: str, params: Json | None) -> None:
        uri = None if params is None else params.get("uri")
        # A session has one stream for all. What nobody has asked for is told to all: a server may write a URI otherwise
        # than it was told.
        is_anothers = (
            method == _UPDATED
            and isinstance(uri, str)
            and not self._requested.is_about(uri)
            and self._subscribed.are_about(uri)
        )
        if not is_anothers:
            self._take(method, {} if params is None else params)

    # Both

    def _check(self, lists: list[ListName], unheard: Sequence[str]) -> None:
        """Compare the changes that the server announces with those requested.

        Raises:
            ProtocolError: The server does not announce some of the requested changes.
        """
        requested = self._requested
        missing = [f"the list of {name}" for name in requested.lists if name not in lists]
        self._lists = tuple(lists)
        if requested.allows_missing_lists:
            missing = [] if lists else ["any list"]
        missing += [uri[:200] for uri in unheard[:5]]
        if missing:
            raise untold(missing)

    def _take(self, method: str, params: Json) -> None:
        name, uri = _LISTS.get(method), params.get("uri")
        if name is not None and name in self._lists:
            self._pending.add(Change(name))
        elif method == _UPDATED and isinstance(uri, str) and self._requested.uris:
            self._pending.add(Change("resource", uri))

    def _join(self) -> None:
        self._began = self._time()
        if self._joined.done():
            self._miss()
        else:
            self._joined.set_result(None)

    def _miss(self) -> None:
        """Report a possible change of each thing, as notifications may have been missed."""
        for change in self._requested.all(self._lists):
            if change.uri is None:
                self._tell_missed(_CHANGED[change.kind], {})
            else:
                self._tell_missed(_UPDATED, {"uri": change.uri})
            self._pending.add(change)

    @staticmethod
    def _time() -> float:
        return asyncio.get_running_loop().time()


def untold(missing: Sequence[str]) -> ProtocolError:
    """Return the error for changes that a server does not announce."""
    return ProtocolError(
        METHOD_NOT_FOUND,
        f"the server does not send notifications about {', '.join(missing)}. Watch only what it notifies; "
        "watch() without arguments watches all lists that may change",
    )


def declared(capabilities: Mapping[str, object], lists: Sequence[ListName]) -> tuple[list[ListName], bool]:
    """Return which of these lists the server announces changes of, and whether it supports resource subscriptions."""
    said = {name: each for name, each in capabilities.items() if is_object(each)}
    told: list[ListName] = [name for name in lists if said.get(name, {}).get("listChanged") is True]
    return told, said.get("resources", {}).get("subscribe") is True
