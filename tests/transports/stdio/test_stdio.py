"""Serving over the standard streams of a real process. How it ends is in test_shutdown.py."""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from mcpkit import Server
from mcpkit.transports.stdio import run_stdio
from tests.helpers.process_client import PATIENCE, Host, call, environment, line, without
from tests.helpers.raw_client import text_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")


def test_requests_are_answered_as_they_finish() -> None:
    with Host() as host:
        host.send(call(1, "sleep", seconds=60), call(2, "add", a=1, b=2))
        assert text_of(host.receive()) == "3"
        assert text_of(host.ask(call(3, "add", a=3, b=4))) == "7"


def test_what_is_yielded_slowly_keeps_nobody_waiting() -> None:
    with Host() as host:
        host.send(call(1, "drip"), call(2, "release"))
        answers = {answer["id"]: answer for answer in (host.receive(), host.receive())}
        assert text_of(answers[1]) == '["first","last"]'
        assert not text_of(answers[2])


def test_whatever_is_printed_comes_out_of_standard_error() -> None:
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


def test_what_a_tool_prints_is_seen_while_it_runs() -> None:
    with Host() as host:
        host.ask(call(1, "print_everywhere"))
        host.wait_for_note("printed by Python")


def test_a_tool_that_closes_sys_stdout_does_no_harm() -> None:
    with Host() as host:
        host.ask(call(1, "close_stdout"))
        assert text_of(host.ask(call(2, "add", a=1, b=2))) == "3"


def test_everything_is_restored_when_run_returns() -> None:
    with Host() as host:
        host.ask(call(1, "add", a=1, b=2))
        host.close_input()
        assert host.wait() == 0
        assert "all is restored" in host.read_notes()
        assert host.read_output() == b"standard output is back\n"


def test_children_inherit_nothing_and_read_nothing() -> None:
    with Host() as host:
        assert host.ask(call(1, "child_descriptors"))["result"]["structuredContent"] == ["/dev/null"]
        assert text_of(host.ask(call(2, "child_input"))) == ""
        assert text_of(host.ask(call(3, "own_input"))) == ""


def test_a_forked_child_that_lives_on_delays_neither_the_end_nor_its_own() -> None:
    with Host(stderr=subprocess.DEVNULL) as host:
        child = int(text_of(host.ask(call(1, "fork"))))
        life = os.pidfd_open(child)
        try:
            host.close_input()
            assert host.read_output() == b"standard output is back\n"
            assert host.wait() == 0
            assert not select.select([life], [], [], 0)[0], "the child was to live on"
            os.kill(child, signal.SIGTERM)
            assert select.select([life], [], [], PATIENCE)[0], "the child ignores SIGTERM"
        finally:
            signal.pidfd_send_signal(life, signal.SIGKILL)
            os.close(life)


def test_standard_input_may_be_a_file(tmp_path: Path) -> None:
    requests = tmp_path / "requests"
    requests.write_bytes(b"".join(line(call(n, "echo", text="x" * 1000)) for n in range(300)))
    with requests.open("rb") as file, Host(stdin=file) as host:
        assert {host.receive()["id"] for _ in range(300)} == set(range(300))
        assert host.wait() == 0


def test_standard_output_may_be_a_file(tmp_path: Path) -> None:
    with (tmp_path / "answers").open("wb") as file, Host(stdout=file) as host:
        host.send(call(1, "big", size=1000), call(2, "big", size=1_000_000))
        host.close_input()
        assert host.wait() == 0
    *answers, _ = (tmp_path / "answers").read_bytes().splitlines()
    assert {json.loads(answer)["id"] for answer in answers} == {1, 2}


def test_the_streams_may_be_sockets() -> None:
    """As those of a host written for Node.js are."""
    ours, theirs = socket.socketpair()
    with ours, theirs, Host(stdin=theirs, stdout=theirs) as host:
        theirs.close()
        ours.settimeout(PATIENCE)
        with ours.makefile("rb") as answers:
            ours.sendall(line(call(1, "add", a=1, b=2)))
            assert text_of(json.loads(answers.readline())) == "3"
            ours.sendall(line(call(2, "big", size=3_000_000)))
            assert len(text_of(json.loads(answers.readline()))) == 3_000_000
            ours.shutdown(socket.SHUT_WR)
            assert answers.read() == b"standard output is back\n"
        assert host.wait() == 0


def test_the_pipes_may_be_non_blocking() -> None:
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


def test_standard_error_may_be_closed() -> None:
    with Host(stderr=None, prefix=without(2)) as host:
        assert text_of(host.ask(call(1, "print_everywhere"))) == "done"
        host.close_input()
        assert host.read_output() == b"standard output is back\n"
        assert host.wait() == 0


def test_standard_error_may_have_no_reader() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with Host(stderr=writer) as host:
        os.close(writer)
        assert text_of(host.ask(call(1, "print_everywhere"))) == "done"
        host.close_input()
        assert host.read_output() == b"standard output is back\n"
        assert host.wait() == 0


def test_standard_error_may_lose_its_reader() -> None:
    with Host() as host:
        host.ask(call(1, "add", a=1, b=2))
        host.process.stderr.close()
        deadline = time.monotonic() + PATIENCE
        while os.readlink(f"/proc/{host.process.pid}/fd/2") != "/dev/null":
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert text_of(host.ask(call(2, "print_everywhere"))) == "done"
        host.close_input()
        assert host.read_output() == b"standard output is back\n"
        assert host.wait() == 0


@pytest.mark.parametrize(("descriptor", "name"), [(0, "input"), (1, "output")])
def test_without_standard_input_or_output_there_is_a_clear_error(descriptor: int, name: str) -> None:
    with Host(prefix=without(descriptor)) as host:
        assert f"RuntimeError: standard {name} is closed" in host.read_notes()
        assert host.wait() == 1


def test_messages_arrive_in_any_chunks() -> None:
    with Host() as host:
        for byte in line(call(1, "add", a=1, b=2)) + line(call(2, "add", a=3, b=4))[:-1] + b"\r\n":
            host.send_bytes(bytes([byte]))
        assert {host.receive()["id"] for _ in range(2)} == {1, 2}


def test_separators_inside_strings_do_not_end_a_message() -> None:
    text = "\u2028\u2029\x85\x0b\x0c\x1c"
    message = json.dumps(call(1, "echo", text="TEXT")).replace(
        "TEXT", "\u2028\u2029\x85\\u000b\\u000c\\u001c"
    )
    with Host() as host:
        host.send_bytes(message.encode() + b"\n")
        assert text_of(host.receive()) == text


def test_a_message_that_is_too_long_gets_an_error_and_the_stream_goes_on() -> None:
    with Host(MAX_LINE=1_000_000) as host:
        host.send(call(1, "echo", text="x" * 20_000_000), call(2, "peak_memory"))
        error = host.receive()
        assert error["error"]["code"] == -32600
        assert "1000000 bytes" in error["error"]["message"]
        assert error["id"] == 1
        assert host.receive()["result"]["structuredContent"] < 100_000


@pytest.mark.long
def test_a_message_of_64_mib_is_taken() -> None:
    with Host() as host:
        message = line(call(1, "echo", text="x" * (64 * 1024 * 1024 - 1000)))
        host.send_bytes(message)
        assert len(text_of(host.receive())) == 64 * 1024 * 1024 - 1000


@pytest.mark.parametrize(
    "junk", [b"\n", b"\xff\xfe\n", b"{\n", b"[]\n", b"null\n", b"\0\n", b'"\n', b"[" * 100_000 + b"\n"]
)
def test_no_line_silences_the_server(junk: bytes) -> None:
    with Host() as host:
        host.send_bytes(junk)
        host.send(call(1, "add", a=1, b=2))
        while host.receive().get("id") != 1:
            pass


def test_many_requests_in_one_write_are_all_answered() -> None:
    with Host() as host:
        host.send(*(call(n, "add", a=n, b=n) for n in range(500)))
        assert {host.receive()["id"] for _ in range(500)} == set(range(500))


@pytest.mark.long
def test_a_tool_that_floods_waits_for_a_slow_host() -> None:
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
def test_requests_are_not_read_while_the_host_does_not_read_answers() -> None:
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


def test_an_answer_does_not_wait_for_a_tool_that_blocks_the_loop_after_it() -> None:
    with Host() as host:
        host.send(
            *(call(n, "block_loop", seconds=seconds) for n, seconds in ((1, 0.01), (2, 0.01), (3, 3600)))
        )
        assert {host.receive()["id"] for _ in range(2)} == {1, 2}


def test_run_inside_a_running_loop_says_what_to_do() -> None:
    async def main() -> None:
        run_stdio(Server("inside", version="1"))

    with pytest.raises(RuntimeError, match="await serve_stdio"):
        asyncio.run(main())


def test_serve_stdio_serves_in_a_running_loop() -> None:
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
        timeout=PATIENCE,
        check=True,
    )
    answer, served = process.stdout.splitlines()
    assert text_of(json.loads(answer)) == "42"
    assert served == b"served"
    assert process.stderr == b"doubling\n"
