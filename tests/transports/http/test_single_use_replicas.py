"""A `requestState` at three replicas: each of its rounds may be at another one, and for one use there is one winner."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mcpkit import Context, Redis, Server
from tests.helpers.engines import ENGINES, Engine
from tests.helpers.redis_server import RedisServer
from tests.helpers.replicated import REPLICAS, engines, replicas

pytestmark = pytest.mark.anyio

SECRET = "a secret of some length"
CAN_ANSWER = {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}}}
USED = "requestState cannot be taken: it has been used already. Make the request again without it"


@pytest.fixture(params=ENGINES)
def shares(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[list[Engine]]:
    """One engine, as each replica has it."""
    with engines(request.param, tmp_path) as made:
        yield made


def make(shared: Any, sold: list[int]) -> Server:
    server = Server("shop", secret=SECRET, shared=shared)

    @server.tool(single_use=True)
    async def order(ctx: Context) -> str:
        total = 0
        for number in range(3):
            total += (await ctx.elicit(f"How many of {number}?", int, key=str(number))).value
        sold.append(total)
        return str(total)

    return server


async def ask(client: Any, state: str | None = None, answers: dict[str, int] | None = None) -> Any:
    params: dict[str, Any] = {"name": "order", "arguments": {}}
    if state is not None:
        params["requestState"] = state
    if answers is not None:
        params["inputResponses"] = {
            key: {"action": "accept", "content": {"value": value}} for key, value in answers.items()
        }
    return json.loads((await client.ask("tools/call", params, meta=CAN_ANSWER).whole()).body)


async def test_each_round_may_be_at_another_replica(shares: list[Any], schema_dir: Path) -> None:
    sold: list[int] = []
    async with replicas([make(each, sold) for each in shares], schema_dir) as clients:
        for first in range(REPLICAS):
            state = (await ask(clients[first]))["result"]["requestState"]
            for number in range(3):
                there = clients[(first + number + 1) % REPLICAS]
                answer = await ask(there, state, {str(number): 10**number})
                state = answer["result"].get("requestState", "")
            assert answer["result"]["content"][0]["text"] == "111"
    assert sold == [111] * REPLICAS


@pytest.mark.slow
async def test_of_a_thousand_who_bring_one_state_one_goes_on(shares: list[Any], schema_dir: Path) -> None:
    sold: list[int] = []
    async with replicas([make(each, sold) for each in shares], schema_dir) as clients:
        state = (await ask(clients[0]))["result"]["requestState"]
        answers = await asyncio.gather(
            *(ask(clients[turn % REPLICAS], state, {"0": 1, "1": 2, "2": 3}) for turn in range(1000))
        )
    outcomes = Counter("result" if "result" in each else each["error"]["message"] for each in answers)
    assert outcomes == {"result": 1, USED: 999}
    assert sold == [6]


LOST = (
    "requestState cannot be taken: this process cannot tell whether it has been used. Make the request again "
    "without it"
)


async def test_what_redis_has_lost_is_not_used_again_and_later_states_are(
    tmp_path: Path, schema_dir: Path
) -> None:
    sold: list[int] = []
    answers = {"0": 1, "1": 2, "2": 3}
    with RedisServer(tmp_path) as redis, closing(Redis(redis.url)) as one, closing(Redis(redis.url)) as other:
        async with replicas([make(one, sold), make(other, sold)], schema_dir) as (here, there):
            used, unused = [(await ask(here))["result"]["requestState"] for _ in range(2)]
            assert "result" in await ask(here, used, answers)
            redis.ask("FLUSHALL")
            for client in (here, there):
                for state in (used, unused):
                    assert (await ask(client, state, answers))["error"]["message"] == LOST
            assert sold == [6]
            for client in (here, there):
                state = (await ask(client))["result"]["requestState"]
                assert "result" in await ask(here, state, answers)
                assert (await ask(there, state, answers))["error"]["message"] == USED
    assert sold == [6] * 3


async def test_a_use_is_known_after_redis_was_killed_and_started_again(
    tmp_path: Path, schema_dir: Path
) -> None:
    sold: list[int] = []
    with RedisServer(tmp_path, "--appendfsync", "always") as redis, closing(Redis(redis.url)) as shared:
        async with replicas([make(shared, sold)], schema_dir) as (client,):
            state = (await ask(client))["result"]["requestState"]
            assert "result" in await ask(client, state, {"0": 1, "1": 2, "2": 3})
            redis.kill()
            redis.start()
            again = await ask(client, state, {"0": 1, "1": 2, "2": 3})
    assert again["error"]["message"] == USED
    assert sold == [6]
