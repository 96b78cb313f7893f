"""mcpkit run --reload with clients of other SDKs, over HTTP, and at its end."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mcpkit import Client
from tests.helpers.process_client import Host, call
from tests.helpers.raw_client import text_of
from tests.helpers.serving import Served
from tests.helpers.waiting import until

MORE = "\n@shop.tool\ndef stock() -> str:\n    return 'none'\n"

pytestmark = pytest.mark.anyio


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
