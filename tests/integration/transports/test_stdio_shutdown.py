"""End of serving over the standard streams: running tools, signals and worker processes."""

import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.process_client import DEFAULT_TIMEOUT, SERVER, Host, call, environment, line
from tests.helpers.raw_client import text_of

pytestmark = [pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc"), pytest.mark.long]

LONG = {"seconds": 3600}
STUBBORN: list[tuple[str, dict[str, Any]]] = [
    ("block_default_executor", LONG),
    ("block_loop", LONG),
    ("spin", {}),
    ("swallow_cancellation", {}),
]
"""Tools that only the end of the process ends."""
SIGNALS = [signal.SIGINT, signal.SIGTERM]


def has_died(process_descriptor: int) -> bool:
    return bool(select.select([process_descriptor], [], [], DEFAULT_TIMEOUT)[0])


def interrupt(host: Host, tool: str, arguments: dict[str, Any], number: signal.Signals) -> None:
    """Send a signal while a tool runs: the process ends, and its status names the signal."""
    host.send(call(1, tool, **arguments))
    host.wait_for_note("ing")
    host.signal(number)
    assert host.wait() == 128 + number


def test_requests_before_end_of_input_are_answered() -> None:
    with Host(GRACE=3600) as host:
        host.send(
            call(1, "sleep", seconds=0.3), call(2, "block", seconds=0.3), call(3, "big", size=3_000_000)
        )
        host.close_input()
        answers = {answer["id"]: text_of(answer) for answer in (host.receive() for _ in range(3))}
        assert answers == {1: "slept", 2: "woke up", 3: "x" * 3_000_000}
        assert host.wait() == 0


@pytest.mark.parametrize(("tool", "arguments"), [("sleep", LONG), *STUBBORN])
def test_end_of_input_ends_the_process(tool: str, arguments: dict[str, Any]) -> None:
    with Host(GRACE=0.5) as host:
        host.send(call(1, tool, **arguments))
        host.wait_for_note("ing")
        host.close_input()
        assert host.wait() == 0


@pytest.mark.parametrize("number", SIGNALS)
def test_signal_cancels_calls_and_leaves_the_lifespan(number: signal.Signals) -> None:
    with Host(GRACE=3600) as host:
        interrupt(host, "block", LONG, number)
        assert "lifespan left" in host.read_notes()
        answer = host.receive()
        assert (answer["id"], answer["error"]["message"]) == (
            1,
            "The server stopped before the call finished",
        )
        assert host.read_output() == b""


@pytest.mark.limit("time to finish at the end")
@pytest.mark.parametrize(
    ("tool", "arguments", "number"), [(*each, SIGNALS[index % 2]) for index, each in enumerate(STUBBORN)]
)
def test_signal_ends_the_process_after_grace(tool, arguments, number) -> None:
    with Host(GRACE=0.5) as host:
        interrupt(host, tool, arguments, number)
        assert f"{number.name}; the process is terminated" in host.read_notes()


def test_second_sigint_ends_the_process_at_once() -> None:
    with Host(GRACE=3600) as host:
        host.send(call(1, "swallow_cancellation"))
        for note in ("blocking", "cancellation swallowed"):
            host.wait_for_note(note)
            host.signal(signal.SIGINT)
        assert host.wait() == 128 + signal.SIGINT


def test_closed_output_ends_the_server() -> None:
    with Host(GRACE=3600) as host:
        host.ask(call(1, "add", a=1, b=2))
        host.process.stdout.close()
        host.send(call(2, "add", a=1, b=2), call(3, "sleep", seconds=3600))
        host.wait_for_note("lifespan left")


@pytest.mark.parametrize(("tool", "arguments"), [("block", LONG), *STUBBORN[1:3]])
def test_server_ends_with_its_host(tool: str, arguments: dict[str, Any]) -> None:
    script = f"""
import subprocess, sys
server = subprocess.Popen([sys.executable, {str(SERVER)!r}], stdin=-1, stdout=-1, stderr=subprocess.DEVNULL)
server.stdin.write({line(call(0, "add", a=1, b=2)) + line(call(1, tool, **arguments))!r})
server.stdin.flush()
server.stdout.readline()
print(server.pid, flush=True)
server.wait()
"""
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment(GRACE=0.5)) as host:
        assert host.stdout is not None
        server = os.pidfd_open(int(host.stdout.readline()))
        host.kill()
        assert has_died(server)
        os.close(server)


MODULE = """
import os

from mcpkit import Limits, Server

print("imported")
server = Server("worked", limits=Limits(worker_processes=1))


@server.tool(run_in="process")
def add(a: int, b: int) -> list[int]:
    print("adding")
    return [a + b, os.getpid()]


@server.tool(run_in="process")
def spin() -> None:
    print("spinning")
    while True:
        pass


if __name__ == "__main__":
    server.run()
"""


def start_module(folder: Path, *command: str, **settings: object) -> Host:
    (folder / "worked.py").write_text(MODULE)
    return Host(prefix=["env", "-C", str(folder)], command=[sys.executable, *command], **settings)


def call_add(host: Host, id_: int) -> list[int]:
    """Return the sum and the process of the worker."""
    return host.ask(call(id_, "add", a=id_, b=2))["result"]["structuredContent"]


@pytest.mark.parametrize("command", [("-m", "worked"), ("worked.py",)], ids=" ".join)
def test_worker_finds_functions_of_the_main_module(command: tuple[str, ...], tmp_path: Path) -> None:
    with start_module(tmp_path, *command) as host:
        (first, process), (second, same) = call_add(host, 1), call_add(host, 2)
        assert (first, second) == (3, 4)
        assert process == same != host.process.pid
        host.close_input()
        assert host.wait() == 0
        assert "adding" in host.read_notes()


@pytest.mark.parametrize(
    ("end", "is_busy"), [("end of input", True), ("SIGINT", False), ("SIGTERM", True), ("SIGKILL", True)]
)
def test_workers_end_with_the_server(end: str, is_busy: bool, tmp_path: Path) -> None:
    with start_module(tmp_path, "-m", "worked", GRACE=0.5) as host:
        worker = os.pidfd_open(call_add(host, 1)[1])
        if is_busy:
            host.send(call(2, "spin"))
            host.wait_for_note("spinning")
        if end == "end of input":
            host.close_input()
        else:
            host.signal(signal.Signals[end])
        host.wait()
        assert has_died(worker)
        os.close(worker)
