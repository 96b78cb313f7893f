"""Resource subscriptions of a session, counted: releasing the last use of a URI unsubscribes.

server/resources, "Subscriptions", up to 2025-11-25.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from ..._utils.exceptions import ProtocolError
from ..client_session import ClientSession
from .changes import stems

_AT_ONCE: Final = 16
"""The most `resources/subscribe` requests that are pending at a time."""

_FAREWELL: Final = 10.0
"""Seconds that the server has to end a subscription. After that the client ignores the subscription."""

_NEVER: Final = -1


class _Subscription:
    """The subscription to one resource, shared by its users.

    Attributes:
        count: The number of its users.
        began: The session in which the server accepted it, as the link counts sessions.
        asked: The session in which it was requested.
        turn: The lock for requests about it.
    """

    __slots__ = ("asked", "began", "count", "turn")

    def __init__(self) -> None:
        self.count = 0
        self.began = self.asked = _NEVER
        self.turn = asyncio.Lock()


class Subscribed:
    """The resource subscriptions of a link's session.

    Args:
        link: The link.
    """

    def __init__(self, link: ClientSession) -> None:
        self._link = link
        self._all: dict[str, _Subscription] = {}
        self._leaving: set[asyncio.Task[None]] = set()

    def are_about(self, uri: str) -> bool:
        """Return whether a URI is subscribed to, matches a subscribed template or lies below a subscribed URI."""
        return uri in self._all or uri.startswith(stems(self._all))

    async def hold(self, uris: Iterable[str], timeout: float) -> None:
        """Subscribe to resources that are not subscribed to yet. `release` ends it, also if this fails.

        Args:
            uris: The URIs, without duplicates.
            timeout: Seconds that the server has for each of them.

        Raises:
            ProtocolError: The server refuses.
            TimeoutError: The server did not respond in time.
            ConnectionError: The server cannot be reached.
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
        """Release resources, and unsubscribe in the background from those without another user."""
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
