"""Watches of several servers, heard as one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from .changes import Pending, Wanted, Watch
from .listening import declared, untold

if TYPE_CHECKING:
    from .client import Client


class Together:
    """Listens to several watches.

    Args:
        begin: Makes them; nothing has been entered yet.
    """

    def __init__(self, begin: Callable[[], Awaitable[Sequence[Watch]]]) -> None:
        self._begin = begin

    async def listen(self, pending: Pending, joined: asyncio.Future[None]) -> None:
        """Listen until all of them have ended, or one has failed.

        Args:
            pending: Takes the changes.
            joined: Is set once changes of all are heard.

        Raises:
            Exception: What one of them has failed with.
        """
        watches = await self._begin()
        async with AsyncExitStack() as stack:
            for watch in watches:
                stack.push_async_callback(watch.aclose)
            await asyncio.gather(*(watch.__aenter__() for watch in watches))
            if not joined.done():
                joined.set_result(None)
            passing = [asyncio.ensure_future(_pass_on(watch, pending)) for watch in watches]
            try:
                await asyncio.gather(*passing)
            finally:
                for each in passing:
                    each.cancel()


async def watches_of(
    clients: Mapping[str, Client], wanted: Wanted, having: Callable[[str], Awaitable[list[str]]]
) -> list[Watch]:
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
        clients[name].watch(
            tools="tools" in tells,
            prompts="prompts" in tells,
            resources=uris[name] or False,
            resource_list="resources" in tells,
        )
        for name, (tells, _) in told.items()
        if tells or uris[name]
    ]


async def _pass_on(watch: Watch, pending: Pending) -> None:
    async for change in watch:
        pending.add(change)
