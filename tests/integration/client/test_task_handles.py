"""Task handles over a real HTTP socket, and picked up by their id in a second process, in both generations."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator

import pytest

from mcpkit import Client, Server
from mcpkit.exceptions import ProtocolError
from tests.helpers.serving import app_of, environment, in_thread
from tests.helpers.waiting import DEFAULT_TIMEOUT

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])]

SECOND_PROCESS = """
import asyncio, sys
from mcpkit import Client

async def main(url, version, task_id):
    async with Client(url, protocol_version=version) as client:
        handle = client.task(task_id, result_type=str)
        print((await handle.status()).state, flush=True)
        print(await handle.result())

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.fixture
def url() -> Iterator[str]:
    server, may_end = Server("work"), asyncio.Event()

    @server.tool(task=True)
    async def work() -> str:
        await may_end.wait()
        return "done"

    @server.tool
    async def finish() -> None:
        may_end.set()

    with in_thread(app_of(server)) as origin:
        yield f"{origin}/mcp"


async def test_events_and_result_of_task_over_http(url: str, version: str) -> None:
    async with Client(url, protocol_version=version) as client:
        handle = await client.call_tool("work", task=True, result_type=str)
        events = handle.events()
        seen = [(await anext(events)).state]
        await client.call_tool("finish")
        seen += [status.state async for status in events]
        assert (seen, await handle.result()) == (["working", "completed"], "done")


async def test_cancelled_task_over_http_has_no_result(url: str, version: str) -> None:
    async with Client(url, protocol_version=version) as client:
        handle = await client.call_tool("work", task=True)
        await handle.cancel()
        assert [status.state async for status in handle.events()][-1] == "cancelled"
        with pytest.raises(ProtocolError):
            await handle.result()


async def test_second_process_picks_up_task_by_id(url: str, version: str) -> None:
    async with Client(url, protocol_version=version) as client:
        handle = await client.call_tool("work", task=True)
        command = [sys.executable, "-c", SECOND_PROCESS, url, version, str(handle.id)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment()) as process:
            assert process.stdout is not None
            assert await asyncio.to_thread(process.stdout.readline) == b"working\n"
            await client.call_tool("finish")
            output, _ = await asyncio.to_thread(process.communicate, timeout=DEFAULT_TIMEOUT)
        assert (process.returncode, output) == (0, b"done\n")
        assert (await handle.result()).text == "done"
