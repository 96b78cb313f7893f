"""What changes at a server, as its client hears of it: alike in both eras.

basic/patterns/subscriptions; up to 2025-11-25 server/resources, "Subscriptions", and the lists' notifications.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Literal

from typing_extensions import Self

from ...common.loops import Home, require_loop
from ...state.change import LIST_NAMES, ListName

Kind = Literal["tools", "prompts", "resources", "resource"]
"""One of the lists (templates belong to `resources`), or `resource`, what is read under a URI."""

MOST_WAITING: Final = 1000
"""Changes of URIs that were not asked for by name, which wait for a slow reader."""

MAX_LENGTH: Final = 1024 * 1024
"""Characters of them all."""


@dataclass(frozen=True, slots=True)
class Change:
    """Something is not as it was: ask for it again.

    Attributes:
        kind: The list that has changed: `tools`, `prompts` or `resources`; or `resource`, of which the data has.
        uri: The URI of the resource; None for a list.
        may_have_missed: Whether nothing was heard for a while, so that it may have changed, or not.
    """

    kind: Kind
    uri: str | None = None
    may_have_missed: bool = False


class Wanted:
    """What a watch is to hear of.

    Attributes:
        lists: The lists.
        uris: The URIs of resources, each once.
        is_whatever_there_is: Whether lists that the server tells nothing of are no error.
    """

    __slots__ = ("_stems", "is_whatever_there_is", "lists", "uris")

    def __init__(
        self, lists: Iterable[ListName], uris: Iterable[str] = (), *, is_whatever_there_is: bool = False
    ) -> None:
        self.lists = tuple(lists)
        self.uris = dict.fromkeys(uris)
        self._stems = stems(self.uris)
        self.is_whatever_there_is = is_whatever_there_is

    @classmethod
    def of(cls, *, tools: bool, prompts: bool, resources: bool, uris: str | Iterable[str]) -> Wanted:
        """Read the arguments of `listen`; nothing at all means all lists.

        Raises:
            TypeError: URIs are no strings.
        """
        named: list[object] = [uris] if isinstance(uris, str) else list(uris)
        for uri in named:
            if not isinstance(uri, str):
                raise TypeError(f"resource_subscriptions must be URIs, got {uri!r}")
        flags = {"tools": tools, "prompts": prompts, "resources": resources}
        lists: list[ListName] = [name for name in LIST_NAMES if flags[name]]
        if not lists and not named:
            return cls(LIST_NAMES, is_whatever_there_is=True)
        return cls(lists, [str(uri) for uri in named])

    def is_about(self, uri: str) -> bool:
        """Say whether a URI is one of those that are asked for, of one of their templates, or within one of them."""
        return uri in self.uris or uri.startswith(self._stems)

    def all(self, lists: Iterable[ListName]) -> list[Change]:
        """Return a change of each thing, which may have happened while nothing was heard."""
        changes = [Change(name, None, may_have_missed=True) for name in lists]
        return changes + [Change("resource", uri, may_have_missed=True) for uri in self.uris]


def stems(uris: Iterable[str]) -> tuple[str, ...]:
    """Return how URIs begin that are of these templates, or within these URIs."""
    return tuple(
        stem if brace else stem.rstrip("/") + "/" for stem, brace, _ in (uri.partition("{") for uri in uris)
    )


class Pending:
    """Changes that wait for their reader: one of each thing, and never more than there is room for.

    Attributes:
        is_over: Whether no more will come.
        error: Why, where that was not meant.
    """

    def __init__(self, wanted: Wanted) -> None:
        self.is_over = False
        self.error: BaseException | None = None
        self._wanted = wanted
        self._changes: dict[tuple[Kind, str | None], Change] = {}
        self._unnamed: set[str] = set()  # of the URIs that wait those that were not asked for by name
        self._length = 0  # of all these
        self._arrival = asyncio.Event()

    def add(self, change: Change) -> None:
        """Add a change; what is certain takes the place of what may be."""
        key = change.kind, change.uri
        waiting = self._changes.get(key)
        if waiting is None or waiting.may_have_missed:
            self._changes[key] = change
        if waiting is None and change.uri is not None and change.uri not in self._wanted.uris:
            self._unnamed.add(change.uri)
            self._length += len(change.uri)
            if len(self._unnamed) > MOST_WAITING or self._length > MAX_LENGTH:
                self._drop_unnamed()
        self._arrival.set()

    def _drop_unnamed(self) -> None:
        for uri in self._unnamed:
            del self._changes["resource", uri]
        self._unnamed.clear()
        self._length = 0
        for missed in self._wanted.all(()):
            self.add(missed)

    def end(self, error: BaseException | None = None) -> None:
        """Let the reader know that no more will come."""
        if not self.is_over:
            self.is_over = True
            self.error = error
            self._arrival.set()

    def drop(self) -> None:
        """Forget what waits: nobody wants it any more."""
        self._changes.clear()
        self._unnamed.clear()
        self.end()
        self.error = None

    async def take(self) -> Change:
        """Wait for the next change, and return it.

        Raises:
            StopAsyncIteration: No more will come.
            Exception: Why no more will come; said once.
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


Listen = Callable[[Pending, "asyncio.Future[None]"], Coroutine[object, object, None]]
"""Fills what is pending, and sets the future once nothing is missed any more; returns when the client is closed."""


class Subscription:
    """Hears of changes, for as long as it is open; `client.listen(...)` makes one.

        async with client.listen(tools_list_changed=True) as changes:
            tools = await client.list_tools()
            async for change in changes:
                tools = await client.list_tools()

    Once it has been entered no change is lost: what is asked for from then on is not older than the first change that
    is not told. In a plain `async for change in client.listen(...)` that holds from the first step on; it ends when the
    loop is left and nothing refers to it any more, or with `aclose`.

    Changes of the same thing that wait for the reader are one. Where the way to the server breaks it joins again, and
    tells a change of each thing that it hears of, with `may_have_missed`. It ends without an error when the client is
    closed.
    """

    def __init__(self, wanted: Wanted, listen: Listen) -> None:
        self._wanted = wanted
        self._listen = listen
        self._pending: Pending | None = None
        self._listening: asyncio.Task[None] | None = None
        self._home = Home("the watch", "make another one there, by client.listen()")

    async def _begin(self) -> Pending:
        """Listen, and return once the server has said that it tells of changes from now on."""
        if self._listening is not None:
            self._home.check()
        if self._pending is not None:
            return self._pending
        loop = require_loop("the watch")
        self._home.settle(loop)
        self._pending = pending = Pending(self._wanted)
        joined: asyncio.Future[None] = loop.create_future()
        self._listening = loop.create_task(_listening(self._listen, pending, joined))
        try:
            await joined
        except BaseException:
            await self.aclose()
            raise
        return pending

    async def __aenter__(self) -> Self:
        """Return once changes are heard.

        Raises:
            ProtocolError: The server tells nothing of what was asked for, or has answered with an error.
            TimeoutError: It has not answered in time.
            ConnectionError: It cannot be reached, or the client has been closed.
        """
        await self._begin()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Hear of nothing any more, and tell the server so."""
        await self.aclose()

    def __aiter__(self) -> Self:
        """Return itself."""
        return self

    async def __anext__(self) -> Change:
        """Wait for the next change, and return it.

        Raises:
            Exception: What `__aenter__` raises; or why it could not join again, after many tries.
        """
        return await (await self._begin()).take()

    async def aclose(self) -> None:
        """Hear of nothing any more, and tell the server so; called again it does nothing."""
        if self._pending is None:
            self._pending = Pending(self._wanted)
        self._pending.drop()
        if self._listening is not None and not self._listening.done() and not self._home.is_lost:
            self._home.check()
            self._listening.cancel()
            await asyncio.wait((self._listening,))

    def __del__(self) -> None:
        """Stop listening where nobody can hear any more, as after `break`."""
        listening = self._listening
        if listening is not None and not listening.done() and not (loop := listening.get_loop()).is_closed():
            loop.call_soon_threadsafe(listening.cancel)


async def _listening(listen: Listen, pending: Pending, joined: asyncio.Future[None]) -> None:
    """Listen until that ends, and let whoever waits know how."""
    try:
        await listen(pending, joined)
    except asyncio.CancelledError:
        raise
    except BaseException as error:  # noqa: BLE001 - its reader raises it
        if joined.done():
            pending.end(error)
        else:
            joined.set_exception(error)
    finally:
        pending.end()
        if not joined.done():  # it has been closed
            joined.set_result(None)
