"""Changes at a server and subscriptions to them (`Client.listen`), the same for all protocol versions.

basic/patterns/subscriptions; up to 2025-11-25 server/resources, "Subscriptions", and the lists' notifications.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Literal

from typing_extensions import Self

from .._utils.concurrency import LoopAffinity, require_loop
from ..identity.principals_and_scopes import LIST_NAMES, ListName

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


class SubscriptionFilter:
    """The changes that a subscription covers.

    Args:
        lists: The lists to receive changes of.
        uris: The URIs of resources to receive changes of.
        allows_missing_lists: Whether lists whose changes the server does not announce are no error.

    Attributes:
        lists: The lists.
        uris: The URIs of resources, without duplicates.
        allows_missing_lists: Whether lists whose changes the server does not announce are no error.
    """

    __slots__ = ("_prefixes", "allows_missing_lists", "lists", "uris")

    def __init__(
        self, lists: Iterable[ListName], uris: Iterable[str] = (), *, allows_missing_lists: bool = False
    ) -> None:
        self.lists = tuple(lists)
        self.uris = dict.fromkeys(uris)
        self._prefixes = prefixes(self.uris)
        self.allows_missing_lists = allows_missing_lists

    @classmethod
    def of(
        cls, *, tools: bool, prompts: bool, resources: bool, uris: str | Iterable[str]
    ) -> SubscriptionFilter:
        """Return the filter for arguments of `Client.listen`. Without any argument it covers all lists.

        Raises:
            TypeError: A URI is not a string.
        """
        named: list[object] = [uris] if isinstance(uris, str) else list(uris)
        for uri in named:
            if not isinstance(uri, str):
                raise TypeError(f"resource_subscriptions must be URIs, got {uri!r}")
        flags = {"tools": tools, "prompts": prompts, "resources": resources}
        lists: list[ListName] = [name for name in LIST_NAMES if flags[name]]
        if not lists and not named:
            return cls(LIST_NAMES, allows_missing_lists=True)
        return cls(lists, [str(uri) for uri in named])

    def is_about(self, uri: str) -> bool:
        """Return whether a URI is one of the filter's URIs, matches one of its templates, or lies below one of them."""
        return uri in self.uris or uri.startswith(self._prefixes)

    def all(self, lists: Iterable[ListName]) -> list[Change]:
        """Return a possible change (`may_have_missed`) of each of these lists and of each URI."""
        changes = [Change(name, None, may_have_missed=True) for name in lists]
        return changes + [Change("resource", uri, may_have_missed=True) for uri in self.uris]


def prefixes(uris: Iterable[str]) -> tuple[str, ...]:
    """Return the prefixes of URIs that match these templates or lie below these URIs."""
    return tuple(
        prefix if brace else prefix.rstrip("/") + "/"
        for prefix, brace, _ in (uri.partition("{") for uri in uris)
    )


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
        self._affinity = LoopAffinity("the watch", "make another one there, by client.listen()")

    async def _begin(self) -> ChangeBuffer:
        """Subscribe, and return once the server has acknowledged the subscription."""
        if self._task is not None:
            self._affinity.check()
        if self._queue is not None:
            return self._queue
        loop = require_loop("the watch")
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

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
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
        if task is not None and not task.done() and not (loop := task.get_loop()).is_closed():
            loop.call_soon_threadsafe(task.cancel)


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
