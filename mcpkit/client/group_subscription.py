"""A subscription to changes at several servers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from .changes.changes import Pending, Subscription, SubscriptionFilter
from .changes.listening import declared, untold

if TYPE_CHECKING:
    from .client import Client

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Part:
    """The subscription to changes at one server.

    Attributes:
        server: The name of the server.
        watch: The subscription, not entered yet.
        is_needed: Whether it covers a resource, which no other server has.
    """

    server: str
    watch: Subscription
    is_needed: bool


class GroupSubscription:
    """Merges subscriptions at several servers. One that fails is left out, unless it is needed or the last one.

    Args:
        begin: Makes the subscriptions.
    """

    def __init__(self, begin: Callable[[], Awaitable[Sequence[Part]]]) -> None:
        self._begin = begin

    async def listen(self, pending: Pending, joined: asyncio.Future[None]) -> None:
        """Receive changes until all subscriptions have ended.

        Args:
            pending: The queue that takes the changes.
            joined: Set once all servers have acknowledged their subscriptions.

        Raises:
            Exception: The error of a needed subscription, or the first error if all failed.
        """
        parts = await self._begin()
        async with AsyncExitStack() as stack:
            for part in parts:
                stack.push_async_callback(part.watch.aclose)
            heard = await _those_that_last(parts, lambda part: part.watch.__aenter__())
            if not joined.done():
                joined.set_result(None)
            await _those_that_last(heard, partial(_pass_on, pending))


async def _those_that_last(parts: Sequence[Part], do: Callable[[Part], Awaitable[object]]) -> list[Part]:
    """Run a function for all parts concurrently and return the parts for which it succeeded.

    Raises:
        Exception: It failed for a needed part, or for all parts.
    """
    failed: dict[str, Exception] = {}

    async def tried(part: Part) -> None:
        try:
            await do(part)
        except Exception as error:
            failed[part.server] = error
            if part.is_needed or len(failed) == len(parts):
                raise
            logger.warning(
                "change notifications of the server %s cannot be received: %s. Those of the other servers are; "
                "call listen() again to retry",
                part.server,
                error,
            )

    trying = [asyncio.ensure_future(tried(part)) for part in parts]
    try:
        await asyncio.gather(*trying)
    finally:
        for each in trying:
            each.cancel()
    return [part for part in parts if part.server not in failed]


async def watches_of(
    clients: Mapping[str, Client],
    requested: SubscriptionFilter,
    having: Callable[[str], Awaitable[list[str]]],
) -> list[Part]:
    """Return the subscriptions for each server, limited to the changes that the server announces.

    Args:
        clients: The clients of the servers, by name.
        requested: The changes to subscribe to.
        having: Returns the names of the servers that may have a resource.

    Raises:
        ProtocolError: No server announces some of the requested changes.
    """
    told = {name: declared(client.server_capabilities, requested.lists) for name, client in clients.items()}
    uris: dict[str, list[str]] = {name: [] for name in clients}
    missing: list[str] = []
    for uri in requested.uris:
        tell = [name for name in await having(uri) if name in told and told[name][1]]
        for name in tell:
            uris[name].append(uri)
        missing += [] if tell else [uri]
    lists = {each for tells, _ in told.values() for each in tells}
    if not requested.allows_missing_lists:
        missing += [f"the list of {name}" for name in requested.lists if name not in lists]
    elif not lists:
        missing.append("any list")
    if missing:
        raise untold(missing)
    return [
        Part(
            name,
            clients[name].listen(
                tools_list_changed="tools" in tells,
                prompts_list_changed="prompts" in tells,
                resources_list_changed="resources" in tells,
                resource_subscriptions=uris[name],
            ),
            is_needed=bool(uris[name]),
        )
        for name, (tells, _) in told.items()
        if tells or uris[name]
    ]


async def _pass_on(pending: Pending, part: Part) -> None:
    async for change in part.watch:
        pending.add(change)
