"""A client of servers that are child processes: in each revision, of another make, and when they die."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from mcpkit import Client, OutcomeUnknownError, TransportError
from mcpkit.client.transports.processes.stdio import StdioTransport
from mcpkit.protocol.revisions import ALL, LATEST_HANDSHAKE
from tests.helpers.child import held
from tests.helpers.node import node_search_path

ROOT = Path(__file__).parents[3]

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc"),
    pytest.mark.slow,
]

SERVER = """
import os, sys
from pathlib import Path
from mcpkit import Context, Server

server = Server("child")

@server.tool
async def add(a: int, b: int) -> int:
    return a + b

@server.tool
def die(note: str) -> str:
    with open(note, "a") as file:
        file.write("x")
    print("goodbye", file=sys.stderr, flush=True)
    os._exit(7)

@server.tool(annotations={"readOnlyHint": True})
def die_once(note: str) -> str:
    if not Path(note).exists():
        die(note)
    return "alive"

@server.tool
async def wait(ctx: Context, note: str) -> None:
    try:
        await ctx.progress(1)
        import asyncio
        await asyncio.Event().wait()
    finally:
        Path(note).write_text("cancelled")

server.run("stdio")
"""

OLD = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if message["method"] == "server/discover":
        sys.exit("I know nothing of this")
    if message["method"] == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "old", "version": "1"}}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""

DEAF = """
import json, sys, time
id_ = json.loads(sys.stdin.readline())["id"]
result = {"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {}}
print(json.dumps({"jsonrpc": "2.0", "id": id_, "result": result}), flush=True)
time.sleep(3600)
"""

NODE = """
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
const server = new McpServer({ name: "node", version: "1.0.0" });
server.registerTool("big", {}, async () => ({ content: [{ type: "text", text: "x".repeat(300000) }] }));
server.registerTool("small", {}, async () => ({ content: [{ type: "text", text: "x" }] }));
setInterval(() => {}, 1000);  // it does not end with its input
await server.connect(new StdioServerTransport());
"""


def transport(code: str = SERVER, **options: Any) -> StdioTransport:
    return StdioTransport([sys.executable, "-c", code], env={"PYTHONPATH": str(ROOT)}, **options)


@pytest.mark.parametrize("revision", [None, *ALL])
async def test_it_is_asked_in_each_revision(revision: str | None) -> None:
    before = held()
    async with Client(transport(), revision=revision) as client:
        result = await client.call("add", {"a": 1, "b": 2})
        assert result.text == "3"
        results = await asyncio.gather(*(client.call("add", {"a": n, "b": 0}) for n in range(200)))
        assert [result.text for result in results] == [str(n) for n in range(200)]
    assert held() <= before


@pytest.mark.slow
@pytest.mark.parametrize("revision", [None, LATEST_HANDSHAKE])
async def test_a_server_that_dies_in_a_call_is_started_for_the_next(
    revision: str | None, tmp_path: Path
) -> None:
    note = tmp_path / "note"
    async with Client(transport(stderr=lambda line: None), revision=revision) as client:
        with pytest.raises(
            OutcomeUnknownError, match="exit code 7; its last words on standard error:\ngoodbye"
        ):
            await client.call("die", {"note": str(note)})
        assert (await client.call("add", {"a": 1, "b": 2})).text == "3"
    assert note.read_text() == "x", "it has not been called twice"


@pytest.mark.slow
async def test_what_is_read_only_is_asked_again_of_the_next(tmp_path: Path) -> None:
    async with Client(transport(stderr=lambda line: None)) as client:
        await client.list_tools()
        assert (await client.call("die_once", {"note": str(tmp_path / "note")})).text == "alive"


@pytest.mark.parametrize("revision", [None, LATEST_HANDSHAKE])
async def test_a_call_that_is_given_up_is_cancelled_there(revision: str | None, tmp_path: Path) -> None:
    note = tmp_path / "note"
    has_begun = asyncio.Event()
    async with Client(transport(), revision=revision) as client:
        arguments = {"note": str(note)}
        call = asyncio.ensure_future(client.call("wait", arguments, progress=lambda *_: has_begun.set()))
        await has_begun.wait()
        call.cancel()
        await asyncio.wait([call])
        await client.call("add", {"a": 1, "b": 2})
    assert note.read_text() == "cancelled"


async def test_a_server_that_ends_when_it_is_asked_in_a_new_way_is_started_again() -> None:
    async with Client(transport(OLD, stderr=lambda line: None)) as client:
        assert client.revision == "2025-06-18"
        assert "I know nothing of this" in client.revision_reason


async def test_a_server_that_does_not_start_says_why() -> None:
    before = held()
    with pytest.raises(TransportError, match="No module named 'no_such_module'"):
        async with Client(transport("import no_such_module", stderr=lambda line: None)):
            pass
    assert held() <= before


async def test_a_command_that_is_not_found_says_so() -> None:
    with pytest.raises(TransportError, match="'no-such-command': it is not on PATH"):
        async with Client(["no-such-command"]):
            pass


@pytest.mark.slow
async def test_what_a_server_of_node_answers_may_be_too_long() -> None:
    path = node_search_path()
    command = ["node", "--input-type=module", "-e", NODE]
    node = StdioTransport(command, env={"PATH": path}, cwd=ROOT, max_answer=100_000, grace=0.1)
    async with Client(node) as client:
        assert client.server_info["name"] == "node"
        with pytest.raises(TransportError, match="more than 100,000 bytes, the most that is read"):
            await client.call("big", {})
        assert (await client.call("small", {})).text == "x"


@pytest.mark.slow
async def test_a_client_is_left_in_another_task_and_after_an_error() -> None:
    before = held()
    client = Client(transport())
    await asyncio.create_task(client.__aenter__())
    assert (await client.call("add", {"a": 1, "b": 2})).text == "3"
    await asyncio.create_task(client.close())
    with pytest.raises(ZeroDivisionError):
        async with client:
            raise ZeroDivisionError
    assert held() <= before


async def test_what_a_server_does_not_read_is_given_up_in_time() -> None:
    before = held()
    async with Client(transport(DEAF, grace=0.1)) as client:
        for _ in range(3):  # of which the first fills the pipe
            with pytest.raises(TimeoutError):
                await client.request("resources/read", {"uri": "x" * 3_000_000}, timeout=0.1)
    assert held() <= before
