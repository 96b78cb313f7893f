"""Serving over the standard streams of a real process. Its end is in test_stdio_shutdown.py."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.helpers.process_client import DEFAULT_TIMEOUT, Host, call, environment, line, without
from tests.helpers.raw_client import text_of

pytestmark = [pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc"), pytest.mark.slow]


def test_printed_output_goes_to_standard_error() -> None:
    with Host() as host:
        assert text_of(host.ask(call(1, "print_everywhere"))) == "done"
        host.close_input()
        assert host.read_output() == b"standard output is back\n"
        notes = host.read_notes()
        for text in (
            "printed before run",
            "printed by Python",
            "written to descriptor 1",
            "printed by C",
            "printed by a child",
            "left in a buffer",
        ):
            assert notes.count(text) == 1


def test_streams_can_be_sockets() -> None:
    """As those of a host written for Node.js are."""
    ours, theirs = socket.socketpair()
    with ours, theirs, Host(stdin=theirs, stdout=theirs) as host:
        theirs.close()
        ours.settimeout(DEFAULT_TIMEOUT)
        with ours.makefile("rb") as answers:
            ours.sendall(line(call(1, "add", a=1, b=2)))
            assert text_of(json.loads(answers.readline())) == "3"
            ours.sendall(line(call(2, "big", size=3_000_000)))
            assert len(text_of(json.loads(answers.readline()))) == 3_000_000
            ours.shutdown(socket.SHUT_WR)
            assert answers.read() == b"standard output is back\n"
        assert host.wait() == 0


def test_pipes_can_be_non_blocking() -> None:
    their_input, our_output = os.pipe()
    our_input, their_output = os.pipe()
    os.set_blocking(their_input, False)
    os.set_blocking(their_output, False)
    with Host(stdin=their_input, stdout=their_output) as host:
        os.close(their_input)
        os.close(their_output)
        with open(our_input, "rb") as answers:
            with open(our_output, "wb", buffering=0) as requests:
                requests.write(line(call(1, "big", size=3_000_000)))
                assert len(text_of(json.loads(answers.readline()))) == 3_000_000
                requests.write(line(call(2, "add", a=1, b=2)))
                assert text_of(json.loads(answers.readline())) == "3"
            assert host.wait() == 0


@pytest.mark.parametrize(("descriptor", "name"), [(0, "input"), (1, "output")])
def test_closed_standard_input_or_output_raises(descriptor: int, name: str) -> None:
    with Host(prefix=without(descriptor)) as host:
        assert f"RuntimeError: standard {name} is closed" in host.read_notes()
        assert host.wait() == 1


def test_too_long_message_gets_error_and_is_not_buffered() -> None:
    with Host(MAX_LINE=1_000_000) as host:
        host.send(call(1, "echo", text="x" * 20_000_000), call(2, "peak_memory"))
        error = host.receive()
        assert error["error"]["code"] == -32600
        assert "1000000 bytes" in error["error"]["message"]
        assert error["id"] == 1
        assert host.receive()["result"]["structuredContent"] < 100_000


@pytest.mark.long
def test_flooding_tool_waits_for_a_slow_host() -> None:
    meta = {"io.modelcontextprotocol/logLevel": "debug"}
    with Host() as host:
        host.send(call(1, "flood", meta=meta, messages=100, size=2_000_000))
        host.receive()  # it has begun, and we do not read on
        assert not host.has_noted("flooded", within=0.5)
        for _ in range(99):
            assert host.receive()["method"] == "notifications/message"
        assert text_of(host.receive()) == "done"
        assert host.ask(call(2, "peak_memory"))["result"]["structuredContent"] < 100_000


def test_serve_stdio_in_a_running_loop() -> None:
    script = """
import asyncio
from mcpkit import Server
from mcpkit.transports.stdio import serve_stdio

server = Server("inside", version="1")

@server.tool
async def double(n: int) -> int:
    print("doubling")
    return 2 * n

async def main() -> None:
    await serve_stdio(server)
    print("served")

asyncio.run(main())
"""
    process = subprocess.run(
        [sys.executable, "-c", script],
        input=line(call(1, "double", n=21)),
        capture_output=True,
        env=environment(),
        timeout=DEFAULT_TIMEOUT,
        check=True,
    )
    answer, served = process.stdout.splitlines()
    assert text_of(json.loads(answer)) == "42"
    assert served == b"served"
    assert process.stderr == b"doubling\n"


def test_malformed_lines_do_not_stop_the_server() -> None:
    with Host() as host:
        for junk in (b"", b"\xff\xfe", b"{", b"[]", b"null", b"\0", b'"', b"[" * 100_000):
            host.send_bytes(junk + b"\n")
        host.send(*(call(n, "add", a=n, b=n) for n in range(500)))
        ids = {host.receive().get("id") for _ in range(500 + 7)}
        assert ids >= set(range(500))


def test_lifespan_error_while_entering_ends_the_process() -> None:
    script = """
import asyncio
from contextlib import asynccontextmanager
from mcpkit import Server

@asynccontextmanager
async def lifespan(server):
    await asyncio.sleep(0.05)
    raise OSError("no database")
    yield

Server("failing", lifespan=lifespan).run()
"""
    with Host(command=[sys.executable, "-c", script]) as host:
        assert host.wait() == 1
        assert "OSError: no database" in host.read_notes()


PROGRAM = """
from mcpkit import Server

server = Server("weather station", version="1.2.3")

@server.tool
def forecast() -> str:
    return "rain"

@server.tool
def hidden() -> str:
    return "nothing"

@server.resource("data://a/{b}")
def station(b: str) -> str:
    return b

server.catalog.tools.disable("hidden")
server.run()
"""
IN_THE_FOREGROUND = """
import fcntl, os, signal, sys, termios
signal.signal(signal.SIGINT, signal.SIG_DFL)  # whoever runs the tests may have been started with it ignored
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""
PING = b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n'


@contextmanager
def run_in_terminal(*arguments: str, folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Run Python with a terminal for standard input, in its foreground; give the process and what is typed into."""
    keyboard, terminal = os.openpty()
    command = [sys.executable, "-c", IN_THE_FOREGROUND, *arguments]
    with subprocess.Popen(
        command,
        stdin=terminal,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        cwd=folder,
        env=environment(),
    ) as process:
        os.close(terminal)
        try:
            yield process, keyboard
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            os.close(keyboard)


def read_greeting(process: subprocess.Popen[bytes]) -> str:
    assert process.stderr is not None
    lines = []
    while not lines or "Ctrl+C" not in lines[-1]:
        line = process.stderr.readline().decode()
        assert line, "".join(lines)
        lines.append(line)
    return "".join(lines)


def test_terminal_shows_server_and_how_to_use_it(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(PROGRAM)
    with run_in_terminal("server.py", "--verbose", folder=tmp_path) as (process, keyboard):
        printed = read_greeting(process)
        assert "weather station 1.2.3, an MCP server" in printed
        assert "1 tool: forecast\n1 resource: data://a/{b}\n\n" in printed
        assert "prompt" not in printed
        entry = json.loads(printed[printed.index("  {\n") : printed.index("\n  }\n") + 5])
        command = [sys.executable, str(tmp_path / "server.py"), "--verbose"]
        assert entry == {"mcpServers": {"weather station": {"command": command[0], "args": command[1:]}}}
        assert f"npx @modelcontextprotocol/inspector {' '.join(command)}\n" in printed

        os.write(keyboard, PING)
        assert process.stdout is not None
        assert json.loads(process.stdout.readline()) == {"jsonrpc": "2.0", "id": 1, "result": {}}

        os.write(keyboard, b"\x03")
        assert process.wait(30) == 130
        assert process.stdout.read() == b""
        assert process.stderr is not None
        assert process.stderr.read().strip() == b""


def test_output_without_terminal_input_is_empty(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(PROGRAM)
    screen, terminal = os.openpty()
    try:
        finished = subprocess.run(
            [sys.executable, "server.py"],
            input=PING,
            stdout=terminal,
            stderr=subprocess.PIPE,
            cwd=tmp_path,
            env=environment(),
            timeout=60,
        )
    finally:
        os.close(terminal)
        os.close(screen)
    assert (finished.returncode, finished.stderr) == (0, b"")
