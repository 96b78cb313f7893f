"""Running requests: what remains of them."""

import asyncio
import gc

from mcpkit import Server, ToolError
from mcpkit.requests.request_record import Call
from mcpkit.testing import connect
from tests.helpers.tables import each_row
from tests.helpers.waiting import until


async def returns() -> str:
    return "done"


async def waits() -> str:
    await asyncio.sleep(0)
    return "done"


def runs_in_a_thread() -> str:
    return "done"


async def fails() -> None:
    raise ToolError("failed")


def living_calls() -> list[Call]:
    return [each for each in gc.get_objects() if type(each) is Call]


@each_row("tool", [returns, waits, runs_in_a_thread, fails])
async def test_answered_call_is_freed_without_garbage_collection(tool) -> None:
    server = Server("s")
    server.tool(tool, name="tool")
    async with connect(server) as client:
        await client.call_tool("tool")
        gc.collect()
        before = living_calls()  # other tests may have left some
        gc.disable()
        try:
            await client.call_tool("tool")
            # A worker thread releases its call shortly after the response.
            await until(lambda: all(each in before for each in living_calls()))
        finally:
            gc.enable()
