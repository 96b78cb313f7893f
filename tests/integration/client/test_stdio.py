"""Servers as child processes over stdio: messages, limits, start, environment, standard error."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mcpkit import Client
from mcpkit.client.transports.processes.standard_error import Stderr
from mcpkit.client.transports.processes.stdio import StdioTransport
from mcpkit.exceptions import OutcomeUnknownError, TransportError
from mcpkit.protocol.revisions import LATEST_HANDSHAKE
from tests.helpers.processes import ECHO, Received, ask, held, script, send

pytestmark = pytest.mark.anyio


BIG = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    order, size = message["params"]["order"], message["params"]["size"]
    members = {"jsonrpc": '"2.0"', "id": str(message["id"]), "result": '{"id": 9, "text": "'}
    print("{", end="")
    for n, name in enumerate(order.split()):
        print(", " * (n > 0) + f'"{name}": {members[name]}', end="")
        if name == "result":
            for _ in range(size // 1000):
                sys.stdout.write('\\\\"' * 500)
            print('"}', end="")
    print("}", flush=True)
"""
"""Answers with its members in the order that is asked for, and a text of so many bytes."""


ORDERS = [
    "jsonrpc id result", "id jsonrpc result", "result jsonrpc id", "result id jsonrpc", "jsonrpc result id",
]  # fmt: skip


@pytest.mark.parametrize("order", ORDERS[::2])
async def test_stdio_answer_too_long_fails_its_request_only(order: str) -> None:
    transport, received = StdioTransport(script(BIG), max_answer=100_000), Received()
    await transport.open(received)
    for size in (100_000, 300_000, 1_000_000):
        await send(transport, size, order=order, size=size)
        id_, error = await received.next()
        assert id_ == size
        assert isinstance(error, TransportError)
        assert error.may_have_begun
        assert not error.may_pass
        assert "sent a message of more than 100,000 bytes, the limit" in str(error)
        assert (await ask(transport, received, 1, order=order, size=50_000))["id"] == 9
    await transport.close()
    assert received.error is None


ROOT = Path(__file__).parents[3]


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
        await ctx.report_progress(1)
        import asyncio
        await asyncio.Event().wait()
    finally:
        Path(note).write_text("cancelled")

server.run("stdio")
"""


def stdio_transport(code: str = SERVER, **options: Any) -> StdioTransport:
    return StdioTransport([sys.executable, "-c", code], env={"PYTHONPATH": str(ROOT)}, **options)


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
@pytest.mark.slow
@pytest.mark.parametrize("revision", [None, LATEST_HANDSHAKE])
async def test_stdio_client_calls_in_each_era(revision: str | None) -> None:
    before = held()
    async with Client(stdio_transport(), protocol_version=revision) as client:
        result = await client.call_tool("add", {"a": 1, "b": 2})
        assert result.text == "3"
        results = await asyncio.gather(*(client.call_tool("add", {"a": n, "b": 0}) for n in range(200)))
        assert [result.text for result in results] == [str(n) for n in range(200)]
    assert held() <= before


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
@pytest.mark.slow
@pytest.mark.parametrize("revision", [None])
async def test_stdio_client_restarts_server_after_death(revision: str | None, tmp_path: Path) -> None:
    note = tmp_path / "note"
    async with Client(stdio_transport(stderr=lambda line: None), protocol_version=revision) as client:
        with pytest.raises(
            OutcomeUnknownError, match="exit code 7; the last lines on standard error:\ngoodbye"
        ):
            await client.call_tool("die", {"note": str(note)})
        assert (await client.call_tool("add", {"a": 1, "b": 2})).text == "3"
    assert note.read_text() == "x", "it has not been called twice"


TELL_PLACE = """
import json, os
print(json.dumps({"environment": dict(os.environ), "cwd": os.getcwd()}), flush=True)
"""


async def environment_of(**options: Any) -> Any:
    transport, received = StdioTransport(script(TELL_PLACE), **options), Received()
    await transport.open(received)
    try:
        return await received.next()
    finally:
        await transport.close()


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
async def test_stdio_environment_has_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "hidden")
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("USER", "() { echo a function of the shell; }")
    environment = (await environment_of(env={"API_KEY": "k", "TERM": "dumb"}))["environment"]
    assert environment["PATH"] == os.environ["PATH"]
    assert environment["HOME"] == "/home/me"
    assert environment["API_KEY"] == "k"
    assert environment["TERM"] == "dumb"
    assert environment.keys() <= {"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "API_KEY", "LC_CTYPE"}


async def refused(command: list[str], **options: Any) -> str:
    before = held()
    with pytest.raises(TransportError) as raised:
        await StdioTransport(command, **options).open(Received())
    assert not raised.value.may_have_begun
    assert not raised.value.may_pass
    assert isinstance(raised.value.__cause__, OSError)
    assert held() <= before
    return str(raised.value)


SAY = """
import sys
sys.stderr.reconfigure(encoding="utf-8")
print("  indented", "\\n", "caf\\xe9\\r", file=sys.stderr)
sys.stderr.buffer.write(b"\\xff half")
sys.stderr.flush()
"""


async def run(code: str, stderr: Stderr = None, grace: float = 2.0) -> TransportError:
    """Run a script to its own end, and return what is said of it."""
    transport, received = StdioTransport(script(code), stderr=stderr, grace=grace), Received()
    await transport.open(received)
    error = await received.end()
    await transport.close()
    assert isinstance(error, TransportError)
    assert error.may_have_begun
    return error


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
async def test_stderr_last_lines_are_in_error(capfd: pytest.CaptureFixture[str]) -> None:
    assert str(await run(SAY + "sys.exit(1)", subprocess.DEVNULL)) == (
        f"The server ({Path(sys.executable).name}) ended with exit code 1;"
        " the last lines on standard error:\nindented \n café\n\ufffd half"
    )
    assert capfd.readouterr().err == ""


@pytest.mark.slow
async def test_stdio_large_messages_go_both_ways_in_order() -> None:
    transport, received = StdioTransport(script(ECHO)), Received()
    await transport.open(received)
    sizes = [0, 1, 4095, 4096, 4097, 65_535, 65_536, 70_000, 1_000_000, 3_000_000, 10] * 3
    await asyncio.gather(*(send(transport, n, text="é" * (size // 2)) for n, size in enumerate(sizes)))
    for n, size in enumerate(sizes):
        answer = await received.next()
        assert (answer["id"], len(answer["result"]["text"])) == (n, size // 2)
    await transport.close()
