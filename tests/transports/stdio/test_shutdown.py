"""How serving over the standard streams ends, whatever a tool is doing. Periods are upper limits only."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
from typing import Any

import pytest

from tests.helpers.process_client import PATIENCE, SERVER, Host, call, environment, line
from tests.helpers.raw_client import text_of

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc"),
    pytest.mark.usefixtures("hear_interrupts"),
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


def has_died(life: int) -> bool:
    """Tell whether the process of a pidfd dies, in time."""
    return bool(select.select([life], [], [], PATIENCE)[0])


def interrupt(host: Host, tool: str, arguments: dict[str, Any], number: signal.Signals) -> None:
    """Send a signal while a tool runs: the process ends, and its status says by which."""
    host.send(call(1, tool, **arguments))
    host.wait_for_note("ing")
    host.signal(number)
    assert host.wait() == 128 + number


def assert_told_of_the_end(host: Host) -> None:
    """Whoever has called with id 1 hears that the server has ended."""
    answer = host.receive()
    assert answer["id"] == 1
    assert answer["error"]["message"] == "The server has ended before the call was finished"


def test_the_end_of_input_ends_an_idle_server_in_order() -> None:
    with Host(GRACE=3600) as host:
        host.ask(call(1, "add", a=1, b=2))
        host.close_input()
        assert host.wait() == 0
        assert "lifespan left" in host.read_notes()


def test_what_was_asked_before_the_end_of_input_is_answered() -> None:
    with Host(GRACE=3600) as host:
        host.send(
            call(1, "sleep", seconds=0.3), call(2, "block", seconds=0.3), call(3, "big", size=3_000_000)
        )
        host.close_input()
        answers = {answer["id"]: text_of(answer) for answer in (host.receive() for _ in range(3))}
        assert answers == {1: "slept", 2: "woke up", 3: "x" * 3_000_000}
        assert host.wait() == 0


def test_a_last_message_without_a_newline_is_answered() -> None:
    with Host() as host:
        host.send_bytes(line(call(1, "add", a=1, b=2))[:-1])
        host.close_input()
        assert text_of(host.receive()) == "3"


def test_much_input_before_its_end_is_answered() -> None:
    with Host() as host:

        def send() -> None:
            host.send(*(call(n, "echo", text="x" * 1000) for n in range(3000)))
            host.close_input()

        sending = threading.Thread(target=send, daemon=True)
        sending.start()
        assert {host.receive()["id"] for _ in range(3000)} == set(range(3000))
        sending.join()
        assert host.wait() == 0


@pytest.mark.parametrize(("tool", "arguments"), [*CANCELLABLE, *STUBBORN])
def test_the_end_of_input_ends_the_process_whatever_runs(tool: str, arguments: dict[str, Any]) -> None:
    with Host(GRACE=0.5) as host:
        host.send(call(1, tool, **arguments))
        host.wait_for_note("ing")
        host.close_input()
        assert host.wait() == 0


def test_after_the_end_of_input_the_lifespan_is_left_although_a_tool_runs_on() -> None:
    with Host(GRACE=5) as host:
        host.send(call(1, "sleep", seconds=3600))
        host.wait_for_note("sleeping")
        host.close_input()
        host.wait_for_note("lifespan left")
        assert_told_of_the_end(host)


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize(("tool", "arguments"), CANCELLABLE)
def test_a_signal_cancels_what_runs_and_leaves_the_lifespan(
    tool: str, arguments: dict[str, Any], number: signal.Signals
) -> None:
    with Host(GRACE=3600) as host:
        interrupt(host, tool, arguments, number)
        assert "lifespan left" in host.read_notes()
        assert_told_of_the_end(host)
        assert host.read_output() == b""


def test_who_waits_for_a_call_is_told_of_the_end_before_the_work_stops() -> None:
    with Host(GRACE=3600) as host:
        host.send(call(1, "swallow_cancellation"))
        host.wait_for_note("blocking")
        host.signal(signal.SIGTERM)
        assert_told_of_the_end(host)
        assert host.process.poll() is None


@pytest.mark.limit("time to finish at the end")
@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize(("tool", "arguments"), STUBBORN)
def test_a_signal_ends_the_process_whatever_runs(
    tool: str, arguments: dict[str, Any], number: signal.Signals
) -> None:
    with Host(GRACE=0.5) as host:
        interrupt(host, tool, arguments, number)
        assert f"{number.name}, so the process is ended" in host.read_notes()


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_ends_an_idle_server_in_order(number: signal.Signals) -> None:
    with Host(GRACE=3600) as host:
        host.ask(call(1, "add", a=1, b=2))
        host.signal(number)
        assert host.wait() == 128 + number
        assert host.read_notes().splitlines()[-1] == "lifespan left"
        assert host.read_output() == b""


def test_a_second_sigint_ends_the_process_at_once() -> None:
    with Host(GRACE=3600) as host:
        host.send(call(1, "swallow_cancellation"))
        host.wait_for_note("blocking")
        host.signal(signal.SIGINT)
        host.wait_for_note("cancellation swallowed")
        host.signal(signal.SIGINT)
        assert host.wait() == 128 + signal.SIGINT


def test_a_signal_is_heard_when_the_wake_up_descriptor_is_taken() -> None:
    with Host(GRACE=3600) as host:
        host.ask(call(1, "take_wake_up_descriptor"))
        host.signal(signal.SIGTERM)
        assert host.wait() == 128 + signal.SIGTERM


def test_an_ignored_signal_stays_ignored() -> None:
    script = 'trap "" INT; exec "$0" "$@"'
    with Host(prefix=["sh", "-c", script]) as host:
        host.ask(call(1, "add", a=1, b=2))
        host.signal(signal.SIGINT)
        assert text_of(host.ask(call(2, "add", a=1, b=2))) == "3"


@pytest.mark.parametrize("number", [None, *SIGNALS])
def test_a_thread_that_python_waits_for_does_not_keep_the_process(number: signal.Signals | None) -> None:
    with Host(GRACE=0.5) as host:
        host.ask(call(1, "leave_thread", seconds=3600))
        if number is None:
            host.close_input()
        else:
            host.signal(number)
        assert host.wait() == (0 if number is None else 128 + number)


def test_a_host_that_stops_reading_ends_the_server() -> None:
    with Host(GRACE=3600) as host:
        host.ask(call(1, "add", a=1, b=2))
        host.process.stdout.close()
        host.send(call(2, "add", a=1, b=2), call(3, "sleep", seconds=3600))
        host.wait_for_note("lifespan left")


def test_a_host_that_closes_its_pipes_without_reading_ends_the_server() -> None:
    with Host(GRACE=0.5) as host:
        host.send(call(1, "sleep", seconds=3600), call(2, "big", size=10_000_000))
        host.wait_for_note("sleeping")
        host.close_input()
        assert host.wait() == 0


@pytest.mark.parametrize(("tool", "arguments"), [("add", {"a": 1, "b": 2}), *CANCELLABLE, *STUBBORN])
def test_the_death_of_the_host_is_noticed(tool: str, arguments: dict[str, Any]) -> None:
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
        life = os.pidfd_open(int(host.stdout.readline()))
        try:
            host.kill()
            assert has_died(life)
        finally:
            os.close(life)


def test_a_terminal_that_is_closed_is_the_end_of_input() -> None:
    ours, theirs = os.openpty()
    with Host(stdin=theirs) as host:
        os.close(theirs)
        os.write(ours, line(call(1, "add", a=1, b=2)))
        assert text_of(host.receive()) == "3"
        os.close(ours)
        assert host.wait() == 0
