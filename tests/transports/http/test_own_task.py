"""A call that ends with its connection runs in the task of its request, which is the ASGI server's."""

from __future__ import annotations

import asyncio
import sys

import pytest

import mcpkit
from mcpkit import Server
from tests.helpers.asgi_client import Client, Serve
from tests.helpers.work import Work

pytestmark = pytest.mark.anyio


async def told(client: Client, tool: str) -> str:
    text: str = (await client.call(tool).whole()).json()["result"]["content"][0]["text"]
    return text


async def test_a_server_that_cancels_the_request_stops_the_call(
    server: Server, serve: Serve, work: Work
) -> None:
    async with serve(server) as client:
        answer = client.call("wait")
        await work.started.wait()
        answer.task.cancel()
        await asyncio.wait({answer.task}, timeout=10)
        assert work.cancelled.is_set()
        if sys.version_info >= (
            3,
            11,
        ):  # before, nothing tells this from a CancelledError of the function's own
            assert answer.task.cancelled()
        assert server.engine.runtime.running.taken == 0
        client.opened.remove(answer)


async def test_a_cancellation_that_is_the_function_s_own_is_an_error_like_any_other(serve: Serve) -> None:
    server = Server("s")

    @server.tool
    async def first() -> None:
        raise asyncio.CancelledError

    @server.tool
    async def later() -> None:
        await asyncio.sleep(0)
        raise asyncio.CancelledError

    async with serve(server) as client:
        for name in ("first", "later"):
            assert "Internal error (ref " in await told(client, name)


@pytest.mark.parametrize("is_waiting", [False, True])
async def test_a_function_that_cancels_its_own_task_ends_its_call_and_nothing_else(
    serve: Serve, is_waiting: bool
) -> None:
    server = Server("s")

    @server.tool
    async def give_up() -> None:
        if is_waiting:
            await asyncio.sleep(0)
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.Event().wait()

    async with serve(server) as client:
        answer = client.call("give_up")
        task = answer.task
        assert "Internal error (ref " in (await answer.whole()).json()["result"]["content"][0]["text"]
        assert not task.cancelled()
        if sys.version_info >= (3, 11):
            assert task.cancelling() == 0
        session = await client.initialize()
        assert "Internal error (ref " in await session.text("give_up")


async def test_a_request_that_was_dropped_leaves_nothing_on_the_task(serve: Serve, work: Work) -> None:
    server = Server("s")

    @server.tool
    async def wait() -> None:
        await work.wait()

    async with serve(server) as client:
        answer = client.call("wait")
        task = answer.task
        await work.started.wait()
        answer.disconnect()
        await answer.whole()
        if sys.version_info >= (3, 11):
            assert task.cancelling() == 0
        assert not task.cancelled()


async def test_what_a_function_returns_that_ignores_its_cancellation_is_dropped(serve: Serve) -> None:
    server = Server("s")
    begun, gate, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @server.tool
    async def stubborn() -> str:
        begun.set()
        while not gate.is_set():
            try:
                await gate.wait()
            except asyncio.CancelledError:
                continue
        ended.set()
        return "late"

    async with serve(server) as client:
        answer = client.call("stubborn")
        await begun.wait()
        answer.disconnect()
        assert not ended.is_set()
        gate.set()
        await answer.whole()
        assert ended.is_set()
        assert [message.get("status") for message in answer.late] == [499, None]
        assert server.engine.runtime.running.taken == 0


@pytest.mark.parametrize("is_waiting", [False, True])
async def test_the_current_request_is_known_in_it_and_not_after_it(serve: Serve, is_waiting: bool) -> None:
    server = Server("s")

    @server.tool
    async def whose() -> str:
        before = mcpkit.current_context()
        if is_waiting:
            await asyncio.sleep(0)
        assert mcpkit.current_context() == before
        return str(before.request_id)

    async with serve(server) as client:
        app = client.app

        async def wrapped(*channel: object) -> None:
            await app(*channel)
            with pytest.raises(RuntimeError, match="no request"):
                mcpkit.current_context()

        client.app = wrapped
        assert await told(client, "whose") == "1"


@pytest.mark.skipif(sys.version_info < (3, 11), reason="asyncio.timeout came with Python 3.11")
async def test_a_timeout_in_the_function_is_the_function_s(serve: Serve) -> None:
    server = Server("s")

    @server.tool
    async def hurried() -> str:
        try:
            async with asyncio.timeout(0.001):  # type: ignore[attr-defined, unused-ignore]  # Python 3.11
                await asyncio.Event().wait()
        except TimeoutError:
            return "late"
        return "never"

    async with serve(server) as client:
        assert await told(client, "hurried") == "late"


async def test_requests_that_wait_are_counted_and_those_that_do_not_are_not(serve: Serve, work: Work) -> None:
    server = Server("s", max_running=1)

    @server.tool
    async def wait() -> str:
        await work.wait()
        return "waited"

    @server.tool
    async def count() -> str:
        return str(server.engine.runtime.running.taken)

    async with serve(server) as client:
        assert await told(client, "count") == "0"
        waiting = client.call("wait")
        await work.started.wait()
        assert (await client.call("count").whole()).status == 503
        work.gate.set()
        assert (await waiting.whole()).json()["result"]["content"][0]["text"] == "waited"
        assert await told(client, "count") == "0"
