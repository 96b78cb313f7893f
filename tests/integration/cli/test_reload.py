"""Reloading of servers, and what their clients receive."""

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
from mcpkit.cli.reload import supervisor
from mcpkit.cli.reload.supervisor import Supervisor, child_environment
from mcpkit.execution.safe_stdout import SafeOutput
from mcpkit.transports.standard_streams import StandardStreams
from tests.helpers.process_client import Host, call
from tests.helpers.processes import is_alive
from tests.helpers.raw_client import text_of
from tests.helpers.serving import Served
from tests.helpers.waiting import until

TIMEOUT = 60.0

HEAD = """
import asyncio, os
from pathlib import Path
from mcpkit import Context, Server
shop = Server("shop", secret_key=None)
"""

ONE = """
@shop.tool
def one() -> str:
    return "first"

@shop.tool
def process() -> int:
    return os.getpid()

@shop.tool
def end() -> None:
    os._exit(3)
"""


def run_command(file: Path, *options: str) -> list[str]:
    return [sys.executable, "-m", "mcpkit", "run", str(file), *options]


class EditedServer:
    """A client of a supervisor in this process, and the file of the server that the supervisor runs.

    Attributes:
        messages: Notifications and requests that have come, in order.
        last_id: The id of the latest request.
    """

    def __init__(self, file: Path, to_server: int) -> None:
        self.file = file
        self.messages: list[dict[str, Any]] = []
        self.last_id = 0
        self._to_server = to_server
        self._answers: dict[object, asyncio.Future[dict[str, Any]]] = {}
        self._edits: asyncio.Queue[list[str]] = asyncio.Queue()
        self._ids = count(1)

    async def edit(self, body: str) -> None:
        """Edit the file, and return when the supervisor has seen that."""
        self.file.write_text(HEAD + body)
        self._edits.put_nowait([str(self.file)])
        await self._edits.join()

    async def edits(self) -> AsyncGenerator[list[str]]:
        """Yield the edited files to the supervisor."""
        yield []
        while True:
            yield await self._edits.get()
            self._edits.task_done()

    def send(self, **message: Any) -> None:
        os.write(self._to_server, json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def begin(self, method: str, **params: Any) -> asyncio.Future[dict[str, Any]]:
        """Send a request, and return the future of its response."""
        id_ = self.last_id = next(self._ids)
        answer = self._answers[id_] = asyncio.get_running_loop().create_future()
        self.send(id=id_, method=method, params=params)
        return answer

    async def request(self, method: str, **params: Any) -> dict[str, Any]:
        answer = await asyncio.wait_for(self.begin(method, **params), TIMEOUT)
        result: dict[str, Any] = answer["result"]
        return result

    async def call(self, tool: str) -> str:
        result = await self.request("tools/call", name=tool, arguments={})
        return "".join(each["text"] for each in result["content"])

    async def receive(self, method: str) -> dict[str, Any]:
        """Wait for a notification or request of a method, and drop those before it."""
        await until(lambda: method in [each["method"] for each in self.messages])
        while (message := self.messages.pop(0))["method"] != method:
            pass
        return message

    async def initialize(self) -> None:
        params = {"capabilities": {"elicitation": {}}, "clientInfo": {"name": "host", "version": "1"}}
        await self.request("initialize", protocolVersion="2025-06-18", **params)
        self.send(method="notifications/initialized")

    async def read(self, reader: asyncio.StreamReader) -> None:
        """Take the messages of the server."""
        while line := await reader.readline():
            message = json.loads(line)
            if "method" in message:
                self.messages.append(message)
            else:
                self._answers.pop(message["id"]).set_result(message)


@asynccontextmanager
async def edited(folder: Path, body: str) -> AsyncIterator[EditedServer]:
    """Serve a file to a client, and start the server again when the file is edited."""
    from_host, to_server = os.pipe()
    from_server, to_host = os.pipe()
    host = EditedServer(folder / "server.py", to_server)
    host.file.write_text(HEAD + body)
    reader = asyncio.StreamReader(limit=2**24)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(from_server, "rb", buffering=0)
    )
    streams = StandardStreams(from_host, to_host, SafeOutput())
    supervisor = Supervisor(run_command(host.file), child_environment(), host.edits(), streams)
    tasks = [asyncio.ensure_future(each) for each in (supervisor.serve(), host.read(reader))]
    try:
        yield host
        os.close(to_server)
        await asyncio.wait_for(tasks[0], TIMEOUT)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        transport.close()
        for descriptor in (from_host, to_host):
            os.close(descriptor)


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


async def test_reload_drains_running_requests_and_never_repeats_them(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(supervisor, "DRAIN", 60)
    async with edited(tmp_path, SLOW) as host:
        await host.initialize()
        held = host.begin("tools/call", name="held", arguments={})
        await host.receive("notifications/message")
        await host.edit(SLOW)
        later = host.begin("tools/list")
        assert await host.request("ping") == {}
        (tmp_path / "go").touch()
        assert (await held)["result"]["content"][0]["text"] == "held"
        assert len((await later)["result"]["tools"]) == 3

        monkeypatch.setattr(supervisor, "DRAIN", 0.1)
        tool = host.begin("tools/call", name="slow", arguments={})
        read = host.begin("resources/read", uri="data://slow")
        asking = host.begin("tools/call", name="ask", arguments={})
        methods = ["elicitation/create", *["notifications/message"] * 2]  # what has begun, and the question
        await until(lambda: sorted(each["method"] for each in host.messages) == methods)
        question = await host.receive("elicitation/create")
        await host.edit(SLOW)
        for answer in (await tool, await asking):
            assert answer["result"]["isError"] is True
            assert "may or may not have been executed" in answer["result"]["content"][0]["text"]
        assert (await read)["error"]["code"] == -32603
        cancelled = await host.receive("notifications/cancelled")
        assert cancelled["params"]["requestId"] == question["id"]

        again = host.begin("tools/call", name="ask", arguments={})
        another = await host.receive("elicitation/create")
        assert another["id"] != question["id"]
        host.send(id=question["id"], result={"action": "accept", "content": {"value": 1}})  # ignored
        host.send(id=another["id"], result={"action": "accept", "content": {"value": 2}})
        assert "2" in (await again)["result"]["content"][0]["text"]


async def test_reload_requests_wait_for_starting_process(tmp_path: Path, monkeypatch) -> None:
    async with edited(tmp_path, ONE) as host:
        await host.initialize()
        assert await host.call("one") == "first"
        await host.edit(
            "import time\nPath(__file__).with_name('begun').touch()\n"
            "while not Path(__file__).with_name('go').exists():\n    time.sleep(0.01)\n"
            + ONE.replace("first", "second")
        )
        await until((tmp_path / "begun").exists)
        monkeypatch.setattr(supervisor, "WAIT", 0.05)
        assert "did not start within 0.05 s" in await host.call("one")
        assert len((await host.request("tools/list"))["tools"]) == 3
        monkeypatch.undo()
        waiting = host.begin("tools/call", name="one", arguments={})
        cancelled_call = host.begin("tools/call", name="one", arguments={})
        host.send(method="notifications/cancelled", params={"requestId": host.last_id})
        assert await host.request("ping") == {}
        (tmp_path / "go").touch()
        assert (await waiting)["result"]["content"][0]["text"] == "second"
        assert await host.call("one") == "second"
        assert not cancelled_call.done()


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
    file.write_text(HEAD + ONE)
    with Host(command=run_command(file, "--reload")) as host:
        host.send(call(1, "process"))
        process = int(text_of(host.receive()))
        end(host)
        assert await asyncio.to_thread(host.process.wait, 60) == status
        await until(lambda: not is_alive(process))


async def test_reload_http_session_continues_and_requests_wait(tmp_path: Path) -> None:
    file = tmp_path / "server.py"
    file.write_text(HEAD + ONE)
    with Served(run_command(file, "--http", "--port", "0", "--reload")) as served:
        async with (
            Client(f"{served.origin}/mcp", protocol_version="2025-11-25") as client,
            Client(f"{served.origin}/mcp") as stateless,
        ):
            both = (client, stateless)
            async with client.listen(tools_list_changed=True) as changes:
                assert [await each.call_tool("one", result_type=str) for each in both] == ["first", "first"]
                file.write_text(HEAD + ONE.replace("first", "second").replace("def end", "def finish"))
                served.wait_for("changed: server.py")
                changed = await anext(aiter(changes))
            assert "tools" in repr(changed)
            assert [each["name"] for each in await client.list_tools()] == ["one", "process", "finish"]
            served.wait_for("restarted after")
            assert [await each.call_tool("one", result_type=str) for each in both] == ["second", "second"]

            file.write_text("def broken(:\n")
            served.wait_for("restarted after", times=2)
            for each in both:
                result = await each.call_tool("one")
                assert result.is_error
                assert "server.py:1: SyntaxError: invalid syntax" in result.text
            file.write_text(HEAD + ONE)
            served.wait_for("restarted after", times=3)
            assert [await each.call_tool("one", result_type=str) for each in both] == ["first", "first"]

            with pytest.raises(ConnectionError):
                await client.call_tool("end")
            served.wait_for("the process exited with status 3")
            assert "the process exited with status 3" in (await client.call_tool("one")).text
            file.write_text(HEAD + ONE.replace("first", "third"))
            served.wait_for("restarted after", times=4)
            assert [await each.call_tool("one", result_type=str) for each in both] == ["third", "third"]
        served.stop()


async def test_reload_client_connects_to_broken_server_and_receives_list_changed(tmp_path, revision) -> None:
    file = tmp_path / "server.py"
    file.write_text("x = 1\ndef broken(:\n")
    async with (
        Client(run_command(file, "--reload"), protocol_version=revision) as client,
        client.listen(tools_list_changed=True) as changes,
    ):
        assert "server.py:2: SyntaxError" in (await client.call_tool("one")).text
        processes = set()
        for name in ("one", "other"):
            file.write_text(HEAD + ONE.replace("def one", f"def {name}"))
            assert (await anext(aiter(changes))).kind == "tools"
            assert await client.call_tool(name, result_type=str) == "first"
            processes.add(await client.call_tool("process", result_type=int))
        assert len(processes) == 2
