"""Reloading of servers, and what their clients receive."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from mcpkit import Client
from mcpkit.cli.reloading import supervisor
from mcpkit.cli.reloading.stdio import environment
from mcpkit.cli.reloading.supervisor import Supervisor
from mcpkit.common.safe_output import SafeOutput
from mcpkit.protocol.eras import SUBSCRIPTION_ID
from mcpkit.transports.standard_streams import StandardStreams
from tests.helpers.process_client import Host, call
from tests.helpers.raw_client import text_of
from tests.helpers.serving import Served
from tests.helpers.waiting import until

pytestmark = pytest.mark.anyio

TALKING = """
@shop.tool
async def talk(ctx: Context) -> str:
    await ctx.debug("heard")
    shop.notify_resource_updated("data://stock")
    return "talked"

@shop.resource("data://stock")
def stock() -> str:
    return "none"
"""


DEFAULT_TIMEOUT = 60.0


HEAD = """
import asyncio, os
from pathlib import Path
from mcpkit import Context, Server
shop = Server("shop", secret_key=None)
"""


class Edited:
    """A host, and the file of its server.

    Attributes:
        heard: Notifications and questions that have come, in order.
        file: The file.
        serving: The supervisor at work.
        last: The id of the latest request.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self.heard: list[dict[str, Any]] = []
        self.serving: asyncio.Task[None]
        self.last = 0
        self._answers: dict[object, asyncio.Future[dict[str, Any]]] = {}
        self._edits: asyncio.Queue[list[str]] = asyncio.Queue()
        self._ids = count(1)
        self._news = asyncio.Event()
        self._to_server = -1

    def write(self, body: str, head: str = HEAD) -> None:
        """Write the file, and say nothing of it."""
        self.file.write_text(head + body)

    async def edit(self, body: str, head: str = HEAD) -> None:
        """Edit the file, and return when that has been seen."""
        self.write(body, head)
        self._edits.put_nowait([str(self.file)])
        await self._edits.join()

    def send(self, **message: Any) -> None:
        """Send a message to the server."""
        os.write(self._to_server, json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def begin(self, method: str, **params: Any) -> asyncio.Future[dict[str, Any]]:
        """Send a request, and return what will be its answer."""
        id_ = self.last = next(self._ids)
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._answers[id_] = answer
        self.send(id=id_, method=method, params=params)
        return answer

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a request, and return its result."""
        answer = await asyncio.wait_for(self.begin(method, **params), DEFAULT_TIMEOUT)
        assert "result" in answer, answer
        return answer["result"]  # type: ignore[no-any-return]

    async def call(self, tool: str, **rest: Any) -> str:
        """Call a tool, and return the text of its result; that of an error begins with `error: `."""
        result = await self.ask("tools/call", name=tool, arguments={}, **rest)
        return ("error: " if result.get("isError") else "") + "".join(
            each["text"] for each in result["content"]
        )

    async def names(self, **rest: Any) -> list[str]:
        """Return the names of the tools."""
        return [tool["name"] for tool in (await self.ask("tools/list", **rest))["tools"]]

    async def hear(self, is_wanted: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
        """Wait for a notification or question, and return it; it, and all that came before it, is heard no more."""
        while True:
            for number, message in enumerate(self.heard):
                if is_wanted(message):
                    del self.heard[: number + 1]
                    return message
            self._news.clear()
            await asyncio.wait_for(self._news.wait(), DEFAULT_TIMEOUT)

    async def hear_of(self, method: str) -> dict[str, Any]:
        """Wait for a notification or question of a method."""
        return await self.hear(lambda message: message["method"] == method)

    async def initialize(self, revision: str = "2025-06-18") -> dict[str, Any]:
        """Open a session."""
        client = {"name": "host", "version": "1"}
        result = await self.ask(
            "initialize", protocolVersion=revision, capabilities={"elicitation": {}}, clientInfo=client
        )
        self.send(method="notifications/initialized")
        return result

    async def told(self) -> AsyncGenerator[list[str]]:
        """Yield what `edit` has said."""
        yield []
        while True:
            yield await self._edits.get()
            self._edits.task_done()

    async def read(self, reader: asyncio.StreamReader) -> None:
        """Take what comes from the server."""
        while line := await reader.readline():
            message = json.loads(line)
            if "method" in message:
                self.heard.append(message)
                self._news.set()
            else:
                self._answers.pop(message["id"]).set_result(message)

    def at(self, descriptor: int) -> None:
        """Say where the server reads."""
        self._to_server = descriptor

    def hang_up(self) -> None:
        """End the input of the server."""
        os.close(self._to_server)
        self._to_server = -1


@asynccontextmanager
async def edited(folder: Path, body: str, head: str = HEAD) -> AsyncIterator[Edited]:
    """Serve a file to a host, and start it anew when it is edited."""
    host = Edited(folder / "server.py")
    host.write(body, head)
    from_host, to_server = os.pipe()
    from_server, to_host = os.pipe()
    host.at(to_server)
    reader = asyncio.StreamReader(limit=2**24)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(from_server, "rb", buffering=0)
    )
    command = [sys.executable, "-m", "mcpkit", "run", str(host.file)]
    supervisor = Supervisor(
        command, environment(), host.told(), StandardStreams(from_host, to_host, SafeOutput())
    )
    host.serving = asyncio.ensure_future(supervisor.serve())
    reading = asyncio.ensure_future(host.read(reader))
    try:
        yield host
        if not host.serving.done():
            host.hang_up()
        await asyncio.wait_for(host.serving, DEFAULT_TIMEOUT)
    finally:
        for task in (host.serving, reading):
            task.cancel()
        await asyncio.gather(host.serving, reading, return_exceptions=True)
        transport.close()
        for descriptor in (from_host, to_host):
            os.close(descriptor)


ONE = """
@shop.tool
def one() -> str:
    return "first"
"""


SLOW = """
@shop.tool
async def slow(ctx: Context) -> str:
    await ctx.info("begun")
    await asyncio.sleep(3600)

@shop.resource("data://slow")
async def read(ctx: Context) -> str:
    await ctx.info("begun")
    await asyncio.sleep(3600)

@shop.tool
async def ask(ctx: Context) -> str:
    return str(await ctx.elicit("How many?", int))

@shop.tool
async def held(ctx: Context) -> str:
    await ctx.info("begun")
    while not Path(__file__).with_name("go").exists():
        await asyncio.sleep(0.01)
    return "held"
"""


async def test_reload_drains_running_requests_and_never_repeats_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "DRAIN", 60)
    async with edited(tmp_path, SLOW) as host:
        await host.initialize()
        held = host.begin("tools/call", name="held", arguments={})
        await host.hear_of("notifications/message")
        await host.edit(SLOW)
        later = host.begin("tools/list")
        assert await host.ask("ping") == {}
        (tmp_path / "go").touch()
        assert (await held)["result"]["content"][0]["text"] == "held"
        assert len((await later)["result"]["tools"]) == 3

        monkeypatch.setattr(supervisor, "DRAIN", 0.1)
        tool = host.begin("tools/call", name="slow", arguments={})
        read = host.begin("resources/read", uri="data://slow")
        asking = host.begin("tools/call", name="ask", arguments={})
        methods = ["elicitation/create", *["notifications/message"] * 2]  # what has begun, and the question
        await until(lambda: sorted(each["method"] for each in host.heard) == methods)
        question = await host.hear_of("elicitation/create")
        await host.edit(SLOW)
        for answer in (await tool, await asking):
            assert answer["result"]["isError"] is True
            assert "may or may not have been executed" in answer["result"]["content"][0]["text"]
        assert (await read)["error"]["code"] == -32603
        cancelled = await host.hear_of("notifications/cancelled")
        assert cancelled["params"]["requestId"] == question["id"]

        again = host.begin("tools/call", name="ask", arguments={})
        another = await host.hear_of("elicitation/create")
        assert another["id"] != question["id"]
        host.send(
            id=question["id"], result={"action": "accept", "content": {"value": 1}}
        )  # nobody waits for it
        host.send(id=another["id"], result={"action": "accept", "content": {"value": 2}})
        assert "2" in (await again)["result"]["content"][0]["text"]


async def test_reload_requests_wait_for_starting_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with edited(tmp_path, ONE) as host:
        await host.initialize()
        assert await host.names() == ["one"]
        await host.edit(
            "import time\nPath(__file__).with_name('begun').touch()\n"
            "while not Path(__file__).with_name('go').exists():\n    time.sleep(0.01)\n"
            + ONE.replace("first", "second")
        )
        await until((tmp_path / "begun").exists)
        monkeypatch.setattr(supervisor, "WAIT", 0.05)
        assert "did not start within 0.05 s" in await host.call("one")
        assert await host.names() == ["one"]
        monkeypatch.undo()
        waiting = host.begin("tools/call", name="one", arguments={})
        given_up = host.begin("tools/call", name="one", arguments={})
        host.send(method="notifications/cancelled", params={"requestId": host.last})
        assert await host.ask("ping") == {}
        (tmp_path / "go").touch()
        assert (await waiting)["result"]["content"][0]["text"] == "second"
        assert await host.call("one") == "second"
        assert not given_up.done()


def told(kind: str, id_: int, **params: Any) -> dict[str, Any]:
    return {
        "jsonrpc": "2.0",
        "method": f"notifications/{kind}",
        "params": {**params, "_meta": {SUBSCRIPTION_ID: id_}},
    }


async def test_reload_client_connects_to_broken_server(tmp_path: Path) -> None:
    async with edited(tmp_path, "def broken(:\n") as host:
        opened = await host.initialize("2025-03-26")
        assert opened["protocolVersion"] == "2025-03-26"
        assert await host.names() == []
        assert "server.py:6: SyntaxError" in await host.call("one")
        await host.ask("logging/setLevel", level="debug")
        await host.edit(ONE + TALKING)
        await host.hear_of("notifications/tools/list_changed")
        await host.call("talk")
        assert (await host.hear_of("notifications/message"))["params"]["level"] == "debug"


MORE = "\n@shop.tool\ndef stock() -> str:\n    return 'none'\n"


SOURCE = """
import os
from mcpkit import Server
shop = Server("shop")

@shop.tool
def process() -> int:
    return os.getpid()
"""


def command(file: Path) -> list[str]:
    return [sys.executable, "-m", "mcpkit", "run", str(file), "--reload"]


def is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
@pytest.mark.parametrize(
    ("end", "status"),
    [
        (lambda host: host.close_input(), 0),
        (lambda host: host.process.terminate(), 128 + signal.SIGTERM),
        (lambda host: host.process.send_signal(signal.SIGINT), 128 + signal.SIGINT),
        (lambda host: host.process.kill(), -signal.SIGKILL),
    ],
    ids=["input", "SIGTERM", "SIGINT", "SIGKILL"],
)
async def test_reload_ends_child_process(tmp_path: Path, end: Callable[[Host], None], status: int) -> None:
    file = tmp_path / "server.py"
    file.write_text(SOURCE)
    with Host(command=command(file)) as host:
        host.send(call(1, "process"))
        process = int(text_of(host.receive()))
        end(host)
        assert await asyncio.to_thread(host.process.wait, 60) == status
        await until(lambda: not is_alive(process))


SOURCE_HTTP = """
import asyncio, os
from mcpkit import Server
shop = Server("shop")

@shop.tool
def one() -> str:
    return "first"

@shop.tool
def end() -> None:
    os._exit(3)
"""


def command_http(file: Path) -> list[str]:
    return [sys.executable, "-m", "mcpkit", "run", str(file), "--http", "--port", "0", "--reload"]


async def test_reload_http_session_continues_and_requests_wait(tmp_path: Path) -> None:
    file = tmp_path / "server.py"
    file.write_text(SOURCE_HTTP)
    with Served(command_http(file)) as served:
        async with (
            Client(f"{served.origin}/mcp", protocol_version="2025-11-25") as client,
            Client(f"{served.origin}/mcp") as stateless,
        ):
            both = (client, stateless)
            async with client.listen(tools_list_changed=True) as changes:
                assert [await each.call_tool("one", result_type=str) for each in both] == ["first", "first"]
                file.write_text(SOURCE_HTTP.replace("first", "second").replace("def end", "def finish"))
                served.wait_for("changed: server.py")
                changed = await anext(aiter(changes))
            assert "tools" in repr(changed)
            assert [each["name"] for each in await client.list_tools()] == ["one", "finish"]
            served.wait_for("restarted after")
            assert [await each.call_tool("one", result_type=str) for each in both] == ["second", "second"]

            file.write_text("def broken(:\n")
            served.wait_for("restarted after", times=2)
            for each in both:
                result = await each.call_tool("one")
                assert result.is_error
                assert "server.py:1: SyntaxError: invalid syntax" in result.text
            file.write_text(SOURCE_HTTP)
            served.wait_for("restarted after", times=3)
            assert [await each.call_tool("one", result_type=str) for each in both] == ["first", "first"]

            with pytest.raises(ConnectionError):
                await client.call_tool("end")
            served.wait_for("the process exited with status 3")
            assert "the process exited with status 3" in (await client.call_tool("one")).text
            file.write_text(SOURCE_HTTP.replace("first", "third"))
            served.wait_for("restarted after", times=4)
            assert [await each.call_tool("one", result_type=str) for each in both] == ["third", "third"]
        served.stop()


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_reload_client_receives_list_changed(tmp_path: Path, revision: str) -> None:
    file = tmp_path / "server.py"
    file.write_text(SOURCE)
    async with (
        Client(command(file), protocol_version=revision) as client,
        client.listen(tools_list_changed=True) as changes,
    ):
        before = await client.call_tool("process", result_type=int)
        file.write_text(SOURCE + MORE)
        assert (await anext(aiter(changes))).kind == "tools"
        assert await client.call_tool("stock", result_type=str) == "none"
        assert await client.call_tool("process", result_type=int) != before
