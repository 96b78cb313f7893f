"""How serving over the standard streams ends, whatever a tool is doing. Periods are upper limits only."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from typing import Any

import pytest

from tests.helpers.process_client import DEFAULT_TIMEOUT, SERVER, Host, call, environment, line
from tests.helpers.raw_client import text_of

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc"),
    pytest.mark.long,
]

CANCELLABLE: list[tuple[str, dict[str, Any]]] = [("sleep", {"seconds": 3600}), ("block", {"seconds": 3600})]
"""Tools that can be left alone: the server ends in order."""

STUBBORN: list[tuple[str, dict[str, Any]]] = [
    ("block_default_executor", {"seconds": 3600}),
    ("block_loop", {"seconds": 3600}),
    ("spin", {}),
    ("swallow_cancellation", {}),
]
"""Tools that only the end of the process ends."""

SIGNALS = [signal.SIGINT, signal.SIGTERM]


def has_died(process_descriptor: int) -> bool:
    """Tell whether the process of a pidfd dies, in time."""
    return bool(select.select([process_descriptor], [], [], DEFAULT_TIMEOUT)[0])


def interrupt(host: Host, tool: str, arguments: dict[str, Any], number: signal.Signals) -> None:
    """Send a signal while a tool runs: the process ends, and its status says by which."""
    host.send(call(1, tool, **arguments))
    host.wait_for_note("ing")
    host.signal(number)
    assert host.wait() == 128 + number


def check_end_error(host: Host) -> None:
    """Whoever has called with id 1 hears that the server has ended."""
    answer = host.receive()
    assert answer["id"] == 1
    assert answer["error"]["message"] == "The server stopped before the call finished"


def test_requests_before_end_of_input_are_answered() -> None:
    with Host(GRACE=3600) as host:
        host.send(
            call(1, "sleep", seconds=0.3), call(2, "block", seconds=0.3), call(3, "big", size=3_000_000)
        )
        host.close_input()
        answers = {answer["id"]: text_of(answer) for answer in (host.receive() for _ in range(3))}
        assert answers == {1: "slept", 2: "woke up", 3: "x" * 3_000_000}
        assert host.wait() == 0


@pytest.mark.parametrize(("tool", "arguments"), [*CANCELLABLE, *STUBBORN])
def test_end_of_input_ends_the_process(tool: str, arguments: dict[str, Any]) -> None:
    with Host(GRACE=0.5) as host:
        host.send(call(1, tool, **arguments))
        host.wait_for_note("ing")
        host.close_input()
        assert host.wait() == 0


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize(("tool", "arguments"), CANCELLABLE[1:])
def test_signal_cancels_calls_and_leaves_the_lifespan(
    tool: str, arguments: dict[str, Any], number: signal.Signals
) -> None:
    with Host(GRACE=3600) as host:
        interrupt(host, tool, arguments, number)
        assert "lifespan left" in host.read_notes()
        check_end_error(host)
        assert host.read_output() == b""


@pytest.mark.limit("time to finish at the end")
@pytest.mark.parametrize(
    ("tool", "arguments", "number"), [(*each, SIGNALS[index % 2]) for index, each in enumerate(STUBBORN)]
)
def test_signal_ends_the_process_after_grace(
    tool: str, arguments: dict[str, Any], number: signal.Signals
) -> None:
    with Host(GRACE=0.5) as host:
        interrupt(host, tool, arguments, number)
        assert f"{number.name}; the process is terminated" in host.read_notes()


def test_second_sigint_ends_the_process_at_once() -> None:
    with Host(GRACE=3600) as host:
        host.send(call(1, "swallow_cancellation"))
        host.wait_for_note("blocking")
        host.signal(signal.SIGINT)
        host.wait_for_note("cancellation swallowed")
        host.signal(signal.SIGINT)
        assert host.wait() == 128 + signal.SIGINT


@pytest.mark.parametrize("number", [None, signal.SIGTERM])
def test_thread_does_not_delay_the_end(number: signal.Signals | None) -> None:
    with Host(GRACE=0.5) as host:
        host.ask(call(1, "leave_thread", seconds=3600))
        if number is None:
            host.close_input()
        else:
            host.signal(number)
        assert host.wait() == (0 if number is None else 128 + number)


def test_closed_output_ends_the_server() -> None:
    with Host(GRACE=3600) as host:
        host.ask(call(1, "add", a=1, b=2))
        host.process.stdout.close()
        host.send(call(2, "add", a=1, b=2), call(3, "sleep", seconds=3600))
        host.wait_for_note("lifespan left")


@pytest.mark.parametrize(("tool", "arguments"), [("add", {"a": 1, "b": 2}), CANCELLABLE[1], *STUBBORN[1:]])
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
    host = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, env=environment(GRACE=0.5)
    )
    with host:
        assert host.stdout is not None
        process_descriptor = os.pidfd_open(int(host.stdout.readline()))
        try:
            host.kill()
            assert has_died(process_descriptor)
        finally:
            os.close(process_descriptor)
