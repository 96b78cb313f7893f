"""The client for code without an event loop."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from mcpkit import Client, Context, ProtocolError, Server, SyncClient

server = Server("bakery", version="1", instructions="Ask for bread.")


@server.tool(annotations={"readOnlyHint": True})
async def bake(number: int, ctx: Context) -> int:
    """Bake."""
    await ctx.progress(1, 2)
    return number


@server.resource("bread://rye")
def rye() -> str:
    return "rye"


@server.prompt
def toast(name: str) -> str:
    return f"A toast to {name}."


@pytest.mark.parametrize("revision", ["2024-11-05", "2026-07-28"])
def test_it_does_what_the_other_one_does(revision: str) -> None:
    steps: list[float] = []
    with SyncClient(server, revision=revision) as client:
        assert client.revision == revision
        assert client.revision_reason == "as asked for"
        assert client.server_info["name"] == "bakery"
        assert "tools" in client.server_capabilities
        assert client.instructions == "Ask for bread."
        assert client.call("bake", {"number": 3}, progress=lambda *step: steps.append(step[0])).text == "3"
        assert [tool["name"] for tool in client.list_tools()] == ["bake"]
        assert [each["uri"] for each in client.list_resources()] == ["bread://rye"]
        assert client.list_resource_templates() == []
        assert [each["name"] for each in client.list_prompts()] == ["toast"]
        assert client.read("bread://rye")[0]["text"] == "rye"
        assert client.get_prompt("toast", {"name": "Ada"})[0]["content"]["text"] == "A toast to Ada."
        assert client.request("tools/list")["tools"]
        client.set_log_level("error")
        with pytest.raises(ProtocolError):
            client.call("unknown")
    assert steps == [1]


def test_every_method_that_is_awaited_there_waits_here() -> None:
    names = {
        name
        for name, value in vars(Client).items()
        if asyncio.iscoroutinefunction(value) and not name.startswith("_")
    }
    assert {name for name in names if not hasattr(SyncClient, name)} == set()


def test_many_threads_use_it() -> None:
    with SyncClient(server) as client, ThreadPoolExecutor(8) as threads:
        numbers = list(
            threads.map(lambda number: client.call("bake", {"number": number}).structured, range(100))
        )
    assert numbers == list(range(100))


def loops() -> int:
    """Count the threads of clients."""
    return sum(thread.name == "mcpkit-client" for thread in threading.enumerate())


def test_its_thread_ends_with_it() -> None:
    before = loops()
    client = SyncClient(server)
    for _ in range(3):
        with client:
            client.call("bake", {"number": 1})
            assert loops() == before + 1
        client.close()
        assert loops() == before
    with pytest.raises(ConnectionError, match="not open"):
        client.call("bake", {"number": 1})


def test_where_it_cannot_be_opened_nothing_is_left() -> None:
    before = loops()
    with pytest.raises(ProtocolError), SyncClient(Failing()):
        pass
    assert loops() == before


class Failing:
    async def open(self, receiver: object) -> None:
        raise ProtocolError(-1, "no")

    def send(self, message: object) -> None:
        raise AssertionError

    async def close(self) -> None:
        pass


def test_a_callback_cannot_wait_for_it() -> None:
    with SyncClient(server) as client:
        with pytest.raises(RuntimeError, match="would stand still"):
            client.call("bake", {"number": 3}, progress=lambda *step: client.list_tools())
        assert client.call("bake", {"number": 3}).text == "3"


def test_in_an_event_loop_the_other_one_is_to_be_used() -> None:
    async def scenario() -> None:
        with pytest.raises(RuntimeError, match="async with Client"), SyncClient(server):
            pass

    asyncio.run(scenario())


def test_its_parameters_are_those_of_the_other_one() -> None:
    import inspect

    assert inspect.signature(SyncClient) == inspect.signature(Client)
    assert inspect.signature(SyncClient.call) == inspect.signature(Client.call)


INTERRUPTED = """
import asyncio, os, signal, threading
from mcpkit import Server, SyncClient
server = Server("bakery")
@server.tool
async def bake() -> None:
    os.kill(os.getpid(), signal.SIGINT)
    try:
        await asyncio.Event().wait()
    finally:
        print("cancelled", flush=True)
try:
    with SyncClient(server) as client:
        client.call("bake")
except KeyboardInterrupt:
    print("interrupted", threading.active_count())
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_it_can_be_interrupted() -> None:
    assert signal.SIGINT
    told = subprocess.run(
        [sys.executable, "-W", "error", "-c", INTERRUPTED],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert told.stdout.split("\n")[:2] == ["cancelled", "interrupted 1"]
    assert told.stderr == ""
