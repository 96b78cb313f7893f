"""The path of a tool call: the files and functions of mcpkit between a received message and its response."""

import asyncio
import json
import subprocess
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import mcpkit
from mcpkit import Context, Server, ToolError
from mcpkit.transports import Connection
from tests.helpers.pipe import HANDSHAKE, STATELESS, initialize, message, stateless_meta

PACKAGE = Path(mcpkit.__file__).parent

MAX_FILES = 12
MAX_CALLS = 40
MAX_STDIO_FILES = 3

COMPREHENSIONS = frozenset({"<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>"})
"""Functions of their own before Python 3.12, which runs most of them in the function around them."""


class CallPath:
    """Records the functions of mcpkit that are called in any thread. A coroutine that is resumed counts once.

    Attributes:
        functions: Files and names of the functions, in order.
    """

    def __init__(self) -> None:
        self.functions: list[tuple[str, str]] = []
        self._frames: set[FrameType] = set()  # keeps them, so that a resumed one is recognized

    def start(self) -> None:
        self.functions.clear()
        threading.setprofile(self._record)
        sys.setprofile(self._record)

    def stop(self) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def _record(self, frame: FrameType, event: str, _: Any) -> None:
        file = Path(frame.f_code.co_filename)
        if event == "call" and file.is_relative_to(PACKAGE) and frame not in self._frames:
            self._frames.add(frame)
            if frame.f_code.co_name not in COMPREHENSIONS:
                self.functions.append((file.relative_to(PACKAGE).as_posix(), frame.f_code.co_name))

    @property
    def files(self) -> set[str]:
        return {file for file, _ in self.functions}

    def __str__(self) -> str:
        lines = [f"{len(self.functions)} calls in {len(self.files)} files:"]
        return "\n".join([*lines, *(f"  {file} {name}" for file, name in self.functions)])


def make_server() -> Server:
    server = Server("path")

    @server.tool(name="async")
    async def add_async(x: int) -> int:
        return x + 1

    @server.tool(name="sync")
    def add_sync(x: int) -> int:
        return x + 1

    @server.tool(name="context")
    async def add_with_context(x: int, ctx: Context) -> int:
        return x + 1

    @server.tool(name="failing")
    async def fail(x: int) -> int:
        raise ToolError(f"no {x}")

    return server


def call_message(tool: str, revision: str, id_: int) -> bytes:
    params: dict[str, Any] = {"name": tool, "arguments": {"x": 1}}
    if revision in STATELESS:
        params["_meta"] = stateless_meta(revision)
    return json.dumps(message("tools/call", params, id_)).encode()


async def path_of(tool: str, revision: str) -> CallPath:
    """Return the path of the second call of a tool, from `receive` to `send`."""
    path = CallPath()
    responses: list[Any] = []
    sent = asyncio.Event()

    def send(line: bytes) -> None:
        path.stop()
        responses.append(json.loads(line))
        sent.set()

    async def exchange(line: bytes) -> Any:
        sent.clear()
        path.start()  # for each, as a thread that runs already would not be recorded
        connection.receive(line)
        await asyncio.wait_for(sent.wait(), 10)
        return responses[-1]

    server = make_server()
    async with server.running():
        connection = Connection(server, send)
        if revision in HANDSHAKE:
            await exchange(json.dumps(initialize(revision)).encode())
            connection.receive(json.dumps(message("notifications/initialized", id_=None)).encode())
        await exchange(call_message(tool, revision, 1))
        response = await exchange(call_message(tool, revision, 2))
        await connection.aclose()
    assert response["result"].get("isError", False) is (tool == "failing"), response
    return path


@pytest.mark.parametrize("tool", ["async", "sync", "context", "failing"])
async def test_tool_call_passes_few_files_and_functions(tool: str, revision: str) -> None:
    path = await path_of(tool, revision)

    assert path.functions[0] == ("engine/message_dispatch.py", "receive")
    assert path.functions[-1] == ("engine/message_dispatch.py", "send")
    assert len(path.files) <= MAX_FILES, str(path)
    assert len(path.functions) <= MAX_CALLS, str(path)


STDIO_SERVER = """
import sys
from tests.engine.test_call_path import CallPath, make_server

path = CallPath()
server = make_server()

@server.tool
async def mark() -> int:
    path.functions.append(("", "mark"))
    return 1

sys.setprofile(path._record)
server.run()
sys.setprofile(None)
marks = [index for index, each in enumerate(path.functions) if each == ("", "mark")]
print(*sorted({file for file, _ in path.functions[marks[-2] : marks[-1]] if file}), file=sys.stderr)
"""


def test_stdio_adds_few_files() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", STDIO_SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=PACKAGE.parent,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    for id_ in range(3):
        params = {"name": "mark", "_meta": stateless_meta()}
        process.stdin.write(json.dumps(message("tools/call", params, id_)).encode() + b"\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["id"] == id_
    _, printed = process.communicate(timeout=30)

    files = printed.decode().splitlines()[-1].split()
    assert "engine/message_dispatch.py" in files, printed
    assert len([file for file in files if file.startswith("transports/")]) <= MAX_STDIO_FILES, files
    assert len(files) <= MAX_FILES + MAX_STDIO_FILES, files
