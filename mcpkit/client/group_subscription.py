"""Watches of several servers, heard as one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from .changes.changes import Pending, Subscription, Wanted
from .changes.listening import declared, untold

if TYPE_CHECKING:
    from .client import Client

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Part:
    """The watch of one server.

    Attributes:
        server: Its name.
        watch: What hears of its changes; nothing has been entered yet.
        is_needed: Whether it hears of what no other server has: a resource.
    """

    server: str
    watch: Subscription
    is_needed: bool


class GroupSubscription:
    """Listens to the watches of several servers. One that fails is left out, unless it is needed or the last.

    Args:
        begin: Makes the watches.
    """

    def __init__(self, begin: Callable[[], Awaitable[Sequence[Part]]]) -> None:
        self._begin = begin

    async def listen(self, pending: Pending, joined: asyncio.Future[None]) -> None:
        """Listen until all of them have ended.

        Args:
            pending: Takes the changes.
            joined: Is set once changes of all are heard.

        Raises:
            Exception: What one that is needed has failed with, or the first where all have failed.
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
    """Do something with all parts at the same time, and return those with which it has not failed.

    Raises:
        Exception: It has failed with one that is needed, or with all.
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
    clients: Mapping[str, Client], wanted: Wanted, having: Callable[[str], Awaitable[list[str]]]
) -> list[Part]:
    """Return what hears of changes at each server, as far as it tells of them.

    Args:
        clients: The clients of the servers, by name.
        wanted: What is to be heard of.
        having: Returns the names of the servers that may have a resource.

    Raises:
        ProtocolError: No server tells of something that is wanted.
    """
    told = {name: declared(client.server_capabilities, wanted.lists) for name, client in clients.items()}
    uris: dict[str, list[str]] = {name: [] for name in clients}
    missing: list[str] = []
    for uri in wanted.uris:
        tell = [name for name in await having(uri) if name in told and told[name][1]]
        for name in tell:
            uris[name].append(uri)
        missing += [] if tell else [uri]
    lists = {each for tells, _ in told.values() for each in tells}
    if not wanted.is_whatever_there_is:
        missing += [f"the list of {name}" for name in wanted.lists if name not in lists]
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
