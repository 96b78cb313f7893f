"""Which resources a session is subscribed to, counted: the last who wants one ends it.

server/resources, "Subscriptions", up to 2025-11-25.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from ...common.errors import ProtocolError
from ..link.link import Link
from .changes import stems

_AT_ONCE: Final = 16
"""Requests that are on their way at a time."""

_FAREWELL: Final = 10.0
"""Seconds that the server has to end a subscription. After that the client ignores the subscription."""

_NEVER: Final = -1


class _Subscription:
    """One resource, for all who want to hear of it.

    Attributes:
        count: How many want it.
        began: In which session the server has said yes, as the link counts them.
        asked: In which session it was asked.
        turn: Whose turn it is to ask.
    """

    __slots__ = ("asked", "began", "count", "turn")

    def __init__(self) -> None:
        self.count = 0
        self.began = self.asked = _NEVER
        self.turn = asyncio.Lock()


class Subscribed:
    """The subscriptions of a link's session.

    Args:
        link: The link.
    """

    def __init__(self, link: Link) -> None:
        self._link = link
        self._all: dict[str, _Subscription] = {}
        self._leaving: set[asyncio.Task[None]] = set()

    def are_about(self, uri: str) -> bool:
        """Say whether a URI is among those that somebody wants to hear of, or belongs to one."""
        return uri in self._all or uri.startswith(stems(self._all))

    async def hold(self, uris: Iterable[str], timeout: float) -> None:
        """Subscribe to resources, as far as the session is not; `release` ends it, also where this fails.

        Args:
            uris: Their URIs, each of them once.
            timeout: Seconds that the server has for each.

        Raises:
            ProtocolError: The server refuses.
            TimeoutError: It has not answered in time.
            ConnectionError: It cannot be reached.
        """
        room = asyncio.Semaphore(_AT_ONCE)

        async def subscribe(uri: str, subscription: _Subscription) -> None:
            async with room, subscription.turn:
                await self._subscribe(uri, subscription, timeout)

        asking: list[asyncio.Task[None]] = []
        for uri in uris:
            subscription = self._all.setdefault(uri, _Subscription())
            subscription.count += 1
            asking.append(asyncio.create_task(subscribe(uri, subscription)))
        try:
            await asyncio.gather(*asking)
        finally:
            for task in asking:
                task.cancel()
            await asyncio.gather(*asking, return_exceptions=True)

    async def _subscribe(self, uri: str, subscription: _Subscription, timeout: float) -> None:
        link = self._link
        session = link.generation
        if subscription.began != session:
            subscription.asked = session
            try:
                await link.exchange("resources/subscribe", {"uri": uri}, None, timeout)
            except ProtocolError:
                subscription.asked = _NEVER
                raise
            subscription.began = session

    def release(self, uris: Iterable[str]) -> None:
        """Want to hear of resources no more; whoever was the last of them has the server told so."""
        for uri in uris:
            subscription = self._all[uri]
            subscription.count -= 1
            if subscription.count == 0:
                task = asyncio.get_running_loop().create_task(self._leave(uri, subscription))
                self._leaving.add(task)
                task.add_done_callback(self._leaving.discard)

    async def _leave(self, uri: str, subscription: _Subscription) -> None:
        async with subscription.turn:
            link = self._link
            is_known = link.is_open and subscription.asked == link.generation
            subscription.began = subscription.asked = _NEVER
            if is_known:
                with suppress(ProtocolError, ConnectionError, TimeoutError):
                    await link.exchange("resources/unsubscribe", {"uri": uri}, None, _FAREWELL)
            if not subscription.count:
                self._all.pop(uri, None)
