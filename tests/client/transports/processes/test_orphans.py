"""No server outlives the process that has started it, however that ends."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.helpers.child import ECHO, PATIENCE, is_alive

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="waits for processes that are not its children"),
    pytest.mark.usefixtures("hear_interrupts"),
    pytest.mark.long,
]

PARENT = """
import asyncio, json, os, signal, sys, threading, time

signal.signal(signal.SIGHUP, signal.SIG_DFL)  # which is ignored where the tests run without a terminal
from mcpkit.client.transports.processes.stdio import StdioTransport

class Receiver:
    def __init__(self):
        self.has_received = asyncio.Event()
    def receive(self, line):
        print(json.loads(line)["pid"], flush=True)
        self.has_received.set()
    def is_pending(self, id_):
        return False
    def lost(self, error):
        pass

async def start(grace=0.1):
    transport, receiver = StdioTransport([sys.executable, "-c", sys.argv[1]], grace=grace), Receiver()
    await transport.open(receiver)
    await receiver.has_received.wait()
    return transport
"""

TELL_PID = """
import json, os
print(json.dumps({"pid": os.getpid()}), flush=True)
"""

STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
"""

LIVE_ON = """
while True:
    time.sleep(3600)
"""

WITH_GRANDCHILD = """
import subprocess, sys, time
inner = subprocess.Popen([sys.executable, "-c", %r])
""" % (STUBBORN + TELL_PID + LIVE_ON)

IN_DAEMON = """
is_ready = threading.Event()
async def live():
    transport = await start()
    is_ready.set()
    await asyncio.Event().wait()
threading.Thread(target=lambda: asyncio.run(live()), daemon=True).start()
is_ready.wait()
"""

SERVERS = [ECHO, STUBBORN + TELL_PID + LIVE_ON, WITH_GRANDCHILD + LIVE_ON]


class Started:
    """A process with a client, and the server that it has started."""

    def __init__(self, process: subprocess.Popen[str], server: int) -> None:
        self.process = process
        self.server = server
        try:
            self._life = os.pidfd_open(server)
        except ProcessLookupError:  # it has ended
            self._life = os.open(os.devnull, os.O_RDONLY)

    def server_ends(self) -> bool:
        return bool(select.select([self._life], [], [], PATIENCE)[0])

    def close(self) -> None:
        os.close(self._life)


@contextmanager
def started(main: str, server: str, terminal: str = "") -> Iterator[Started]:
    process = subprocess.Popen(
        [sys.executable, "-c", PARENT + main, server if server != ECHO else TELL_PID + ECHO, terminal],
        start_new_session=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3]), "PYTHONWARNINGS": "error"},
    )
    with process:
        try:
            assert process.stdout is not None
            pid = process.stdout.readline()
            assert pid, process.communicate()
            begun = Started(process, int(pid))
            yield begun
            begun.close()
        finally:
            process.kill()


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize(
    "end",
    [
        "asyncio.run(start())",
        "loop = asyncio.new_event_loop(); transport = loop.run_until_complete(start()); loop.close()",
        "loop = asyncio.new_event_loop(); loop.run_until_complete(start())",
        "threading.Thread(target=lambda: asyncio.run(start())).start()",
        IN_DAEMON,
    ],
    ids=["asyncio.run", "closed loop", "open loop", "thread", "daemon thread"],
)
def test_it_ends_with_an_interpreter_that_did_not_close_it(end: str, server: str) -> None:
    with started(end, server) as parent:
        assert parent.process.wait(PATIENCE) == 0
        assert parent.process.stderr is not None
        noise = parent.process.stderr.read()
        assert noise == "" or "new_event_loop" in end, "asyncio says so of a loop that is not run to its end"
        assert "subprocess" not in noise
        assert "Event loop is closed" not in noise
        assert parent.server_ends()


@pytest.mark.parametrize("server", SERVERS)
def test_it_ends_with_an_exception(server: str) -> None:
    main = """
async def main():
    transport = await start()
    raise SystemExit(3)
asyncio.run(main())
"""
    with started(main, server) as parent:
        assert parent.process.wait(PATIENCE) == 3
        assert parent.server_ends()


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_it_ends_with_a_process_that_is_killed(server: str, number: signal.Signals) -> None:
    with started(RUN_ON, server) as parent:
        parent.process.send_signal(number)
        assert parent.process.wait(PATIENCE) == -number
        assert parent.server_ends()


RUN_ON = """
async def main():
    transport = await start()
    try:
        await asyncio.Event().wait()
    finally:
        await transport.close()
asyncio.run(main())
"""


@pytest.mark.parametrize("server", SERVERS)
def test_it_is_ended_in_order_at_ctrl_c(server: str) -> None:
    with started(RUN_ON, server) as parent:
        parent.process.send_signal(signal.SIGINT)
        assert parent.process.wait(PATIENCE) == -signal.SIGINT
        assert parent.process.stderr is not None
        assert parent.process.stderr.read().count("Traceback") <= 2
        assert parent.server_ends()


def test_ctrl_c_in_a_terminal_reaches_the_client_alone_which_ends_the_server_in_order(tmp_path: Path) -> None:
    note = tmp_path / "note"
    server = f"""
import signal
def interrupted(number, frame):
    open({str(note)!r}, "a").write("interrupted")
signal.signal(signal.SIGINT, interrupted)
{TELL_PID}{ECHO}
open({str(note)!r}, "a").write("in order")
"""
    controlling, terminal = os.openpty()
    main = "os.open(sys.argv[2], os.O_RDWR)\n" + RUN_ON.replace("start()", "start(3600)")
    try:
        # The leader of a session that opens a terminal is controlled by it from then on.
        with started(main, server, os.ttyname(terminal)) as parent:
            os.write(controlling, b"\x03")
            assert parent.process.wait(PATIENCE) == -signal.SIGINT
            assert parent.server_ends()
    finally:
        os.close(controlling)
        os.close(terminal)
    assert note.read_text() == "in order"


def test_impatience_kills_it_at_once() -> None:
    with started(RUN_ON.replace("start()", "start(3600)"), STUBBORN + TELL_PID + LIVE_ON) as parent:
        for _ in range(round(PATIENCE / 0.1)):
            parent.process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                parent.process.wait(0.1)
                break
        assert parent.server_ends()


def test_a_forked_child_leaves_the_server_alone() -> None:
    main = """
async def main():
    transport = await start()
    pid = os.fork()
    if not pid:
        sys.exit()
    os.waitpid(pid, 0)
    print(flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""
    with started(main, ECHO) as parent:
        assert parent.process.stdout is not None
        assert parent.process.stdout.readline() == "\n"
        assert is_alive(parent.server)


def test_a_forked_child_does_not_keep_the_server_alive() -> None:
    main = """
async def main():
    transport = await start(3600)
    if not os.fork():
        os._exit(len(os.read(0, 1)))
    await transport.close()
    print(flush=True)
asyncio.run(main())
"""
    with started(main, ECHO) as parent:
        assert parent.process.stdout is not None
        assert parent.process.stdout.readline() == "\n"
        assert parent.server_ends()
