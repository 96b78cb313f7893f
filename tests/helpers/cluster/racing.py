"""Many who want what there is once, or a few times, at all replicas at once."""

from __future__ import annotations

import asyncio

from tests.helpers.cluster.clients import UNKNOWN, Client, Error
from tests.helpers.cluster.cluster import Cluster
from tests.helpers.cluster.elsewhere import ACCEPTED

AT_A_TIME = 60


async def race_for_one_use(cluster: Cluster, racers: int, key: str) -> list[str]:
    """Redeem one state so many times at once; return what each was told."""
    client = Client(cluster.replicas[0].url)
    asked = await client.call("draws", key=key)
    params = {
        "name": "draws",
        "arguments": {"key": key},
        "requestState": asked["requestState"],
        "inputResponses": dict.fromkeys(asked["inputRequests"], ACCEPTED),
    }

    async def redeem(number: int) -> str:
        try:
            await client.ask("tools/call", params, cluster.replicas[number % 3].url)
        except Error as error:
            return "used" if error.code == UNKNOWN else f"error: {error}"
        return "won"

    return await asyncio.gather(*map(redeem, range(racers)))


async def race_for_a_limit(cluster: Cluster, racers: int) -> list[str]:
    """Call what is limited so many times, some dozens at once; return what each was told."""
    client = Client(cluster.url)
    room = asyncio.Semaphore(AT_A_TIME)

    async def call(number: int) -> str:
        try:
            async with room:
                await client.text("limited", cluster.replicas[number % 3].url, key=str(number))
        except Error as error:
            return "refused" if error.status in {429, 503} else f"error: {error}"
        return "let in"

    return await asyncio.gather(*map(call, range(racers)))
