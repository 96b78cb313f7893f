"""Serving over the standard streams of a real process. Its end is in test_stdio_shutdown.py."""

import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.process_client import DEFAULT_TIMEOUT, Host, call, line, without
from tests.helpers.raw_client import PING, text_of

pytestmark = [pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc"), pytest.mark.slow]


def test_printed_output_goes_to_standard_error() -> None:
    with Host() as host:
        assert text_of(host.ask(call(1, "print_everywhere"))) == "done"
        host.close_input()
        assert host.read_output() == b"standard output is back\n"
        notes = host.read_notes()
        for text in (
            "printed before run", "printed by Python", "written to descriptor 1", "printed by C",
            "printed by a child", "left in a buffer",
        ):  # fmt: skip
            assert notes.count(text) == 1, text


def exchange(requests: Any, answers: Any) -> None:
    """Send two requests over binary files."""
    requests.write(line(call(1, "add", a=1, b=2)))
    assert text_of(json.loads(answers.readline())) == "3"
    requests.write(line(call(2, "big", size=3_000_000)))
    assert len(text_of(json.loads(answers.readline()))) == 3_000_000


def test_streams_can_be_sockets() -> None:
    """As those of a host written for Node.js are."""
    ours, theirs = socket.socketpair()
    with ours, theirs, Host(stdin=theirs, stdout=theirs) as host:
        theirs.close()
        ours.settimeout(DEFAULT_TIMEOUT)
        with ours.makefile("rwb", buffering=0) as stream, ours.makefile("rb") as answers:
            exchange(stream, answers)
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
                exchange(requests, answers)
            assert host.wait() == 0


@pytest.mark.parametrize(("descriptor", "name"), [(0, "input"), (1, "output")])
def test_closed_standard_input_or_output_raises(descriptor: int, name: str) -> None:
    with Host(prefix=without(descriptor)) as host:
        assert f"RuntimeError: standard {name} is closed" in host.read_notes()
        assert host.wait() == 1


@pytest.mark.long
@pytest.mark.limit("line")
def test_large_messages_are_not_buffered() -> None:
    meta = {"io.modelcontextprotocol/logLevel": "debug"}
    with Host(MAX_LINE=1_000_000) as host:
        error = host.ask(call(1, "echo", text="x" * 20_000_000))["error"]
        assert (error["code"], "1000000 bytes" in error["message"]) == (-32600, True)
        host.send(call(2, "flood", meta=meta, messages=100, size=2_000_000))
        host.receive()  # it has begun, and the client does not read on
        assert not host.has_noted("flooded", within=0.5)
        for _ in range(99):
            assert host.receive()["method"] == "notifications/message"
        assert text_of(host.receive()) == "done"
        assert host.ask(call(3, "peak_memory"))["result"]["structuredContent"] < 100_000


def test_malformed_lines_do_not_stop_the_server() -> None:
    with Host() as host:
        for junk in (b"", b"\xff\xfe", b"{", b"[]", b"null", b"\0", b'"', b"[" * 100_000):
            host.send_bytes(junk + b"\n")
        host.send(*(call(n, "add", a=n, b=n) for n in range(500)))
        ids = {host.receive().get("id") for _ in range(500 + 7)}
        assert ids >= set(range(500))


RUNNING_LOOP = """
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


def test_serve_stdio_in_a_running_loop() -> None:
    with Host(command=[sys.executable, "-c", RUNNING_LOOP]) as host:
        assert text_of(host.ask(call(1, "double", n=21))) == "42"
        host.close_input()
        assert (host.read_output(), host.read_notes()) == (b"served\n", "doubling\n")


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
signal.signal(signal.SIGINT, signal.SIG_DFL)  # the test run may have been started with it ignored
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


def test_terminal_shows_server_and_how_to_use_it(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(PROGRAM)
    keyboard, terminal = os.openpty()
    command = [sys.executable, "-c", IN_THE_FOREGROUND, "server.py", "--verbose"]
    with Host(stdin=terminal, prefix=["env", "-C", str(tmp_path)], command=command) as host:
        os.close(terminal)
        host.wait_for_note("Ctrl+C")
        printed = host.notes.decode()
        assert "weather station 1.2.3, an MCP server" in printed
        assert "1 tool: forecast\n1 resource: data://a/{b}\n\n" in printed
        assert "prompt" not in printed
        entry = json.loads(printed[printed.index("  {\n") : printed.index("\n  }\n") + 5])
        command = [sys.executable, str(tmp_path / "server.py"), "--verbose"]
        assert entry == {"mcpServers": {"weather station": {"command": command[0], "args": command[1:]}}}
        assert f"npx @modelcontextprotocol/inspector {' '.join(command)}\n" in printed
        os.write(keyboard, line(PING))
        assert host.receive() == {"jsonrpc": "2.0", "id": 1, "result": {}}
        os.write(keyboard, b"\x03")
        assert host.wait() == 130
        assert host.read_output() == b""
        assert host.read_notes().partition("Ctrl+C")[2].split() == ["to", "stop."]
    os.close(keyboard)
