"""One client cannot take all places for tasks, whether it says who it is or not."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from mcpkit import Server, Tasks
from tests.helpers.engines import ENGINES, close, make_engine
from tests.helpers.pipe import stateless_meta
from tests.helpers.raw_client import Client, serving
from tests.helpers.task_client import KNOWS_TASKS
from tests.helpers.waiting import until

pytestmark = pytest.mark.anyio


async def begin(client: Client, host: str, **meta: Any) -> tuple[int | None, Any]:
    meta |= {**stateless_meta(), "io.modelcontextprotocol/clientCapabilities": KNOWS_TASKS}
    params = {"name": "work", "arguments": {}, "_meta": meta}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "work"}
    answer = await client.post(message, headers, client=(host, 50000)).whole()
    return answer.status, json.loads(answer.body)


@pytest.mark.parametrize("name", ENGINES)
async def test_strangers_at_one_address_leave_places_for_others(
    name: str, tmp_path: Path, schema_dir: Path
) -> None:
    engine = make_engine(name, tmp_path)
    if not hasattr(engine, "take"):
        pytest.skip("it has no jobs yet")
    server = Server(
        "lab", secret="a secret of sixteen and more", shared=engine, tasks=Tasks(per_owner=3, most=8)
    )
    gate, worked = asyncio.Event(), []

    @server.tool(task=True)
    async def work() -> None:
        await gate.wait()
        worked.append(True)

    async with serving(server, schema_dir, grace=10) as client:
        eve = [await begin(client, "203.0.113.7") for _ in range(5)]
        ada = [await begin(client, "203.0.113.8") for _ in range(2)]
        here = [await begin(client, "127.0.0.1") for _ in range(4)]  # a proxy may stand for any number
        gate.set()
        await until(lambda: len(worked) == 8 and not server.engine.runtime.running.taken)
    assert [status for status, _ in eve] == [200] * 3 + [503] * 2
    assert "You have 3 tasks open" in eve[-1][1]["error"]["message"]
    assert [status for status, _ in ada] == [200] * 2
    assert [status for status, _ in here] == [200] * 3 + [503]
    close(engine)


async def test_a_stranger_at_another_address_does_not_get_the_task_of_an_idempotency_key(
    schema_dir: Path,
) -> None:
    server = Server("lab")

    @server.tool(task=True)
    async def work() -> None: ...

    key = {"mcpkit/idempotencyKey": "1"}
    async with serving(server, schema_dir, grace=10) as client:
        hosts = ["203.0.113.7", "203.0.113.7", "203.0.113.8"]
        ids = [(await begin(client, host, **key))[1]["result"]["taskId"] for host in hosts]
    assert ids[0] == ids[1] != ids[2]
