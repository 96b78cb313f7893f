"""Serving over the standard streams of a real process. Its end is in test_stdio_shutdown.py."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
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


def test_forked_child_does_not_delay_the_end() -> None:
    with Host(stderr=subprocess.DEVNULL) as host:
        child = int(text_of(host.ask(call(1, "fork"))))
        life = os.pidfd_open(child)
        try:
            host.close_input()
            assert host.read_output() == b"standard output is back\n"
            assert host.wait() == 0
            assert not select.select([life], [], [], 0)[0], "the child was to live on"
            os.kill(child, signal.SIGTERM)
            assert select.select([life], [], [], DEFAULT_TIMEOUT)[0], "the child ignores SIGTERM"
        finally:
            signal.pidfd_send_signal(life, signal.SIGKILL)
            os.close(life)


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


@pytest.mark.long
def test_requests_are_not_read_while_responses_are_not() -> None:
    with Host() as host:
        assert host.process.stdin is not None
        requests = b"".join(
            line(call(n, "big", size=1_000_000))[:-1] + b" " * 30_000 + b"\n" for n in range(200)
        )
        os.set_blocking(host.process.stdin.fileno(), False)
        sent = 0
        while sent < len(requests) and select.select([], [host.process.stdin], [], 1)[1]:
            sent += os.write(host.process.stdin.fileno(), requests[sent : sent + 4096])
        os.set_blocking(host.process.stdin.fileno(), True)
        assert sent < len(requests) / 2, "it took requests whose answers nobody read"
        sending = threading.Thread(target=host.send_bytes, args=(requests[sent:],), daemon=True)
        sending.start()
        assert {host.receive()["id"] for _ in range(200)} == set(range(200))
        sending.join()
        assert host.ask(call(1000, "peak_memory"))["result"]["structuredContent"] < 150_000


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


"""A process between a client and a server that puts a byte order mark before each message of both."""


LIFESPAN_PROGRAM = """
import asyncio
from contextlib import asynccontextmanager
from mcpkit import Server

@asynccontextmanager
async def lifespan(server):
    {before}
    yield
    {after}

Server("failing", lifespan=lifespan).run()
"""


def run_server(
    tmp_path: Path, *, before: str = "pass", after: str = "pass", close_input: bool
) -> tuple[int, str]:
    program = tmp_path / "server.py"
    program.write_text(LIFESPAN_PROGRAM.format(before=before, after=after))
    process = subprocess.Popen(
        [sys.executable, str(program)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=environment(),
        text=True,
    )
    try:
        assert process.stdin is not None
        assert process.stderr is not None
        if close_input:
            process.stdin.close()
        return process.wait(DEFAULT_TIMEOUT), process.stderr.read()
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stderr):
            pipe.close()


def test_lifespan_error_while_entering_ends_the_process(tmp_path: Path) -> None:
    late = 'await asyncio.sleep(0.05); raise OSError("no database")'
    status, notes = run_server(tmp_path, before=late, close_input=False)
    assert status == 1
    assert "OSError: no database" in notes
