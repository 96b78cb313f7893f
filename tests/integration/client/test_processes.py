"""Ends of server processes: by closed input, signals, the death of the client, and what is left over."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mcpkit.client.transports.processes.stdio import StdioTransport
from tests.helpers.processes import CHILD_TIMEOUT, ECHO, Received, is_alive, script
from tests.helpers.waiting import until

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc"),
]

STUBBORN = """
import signal, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
"""


WITH_GRANDCHILD = """
import subprocess, sys
inner = subprocess.Popen([sys.executable, "-c", %r])
"""


TELL_PID = """
import json, os
print(json.dumps({"pid": os.getpid()}), flush=True)
"""


LIVE_ON = """
import time
while True:
    time.sleep(3600)
"""


NEVER = 3600.0


async def opened(code: str, grace: float = NEVER) -> tuple[StdioTransport, Received]:
    transport, received = StdioTransport(script(code), grace=grace), Received()
    await transport.open(received)
    return transport, received


async def pid_of(received: Received) -> int:
    return (await received.next())["pid"]


async def test_close_ends_server_by_its_input(tmp_path: Path) -> None:
    note = tmp_path / "note"
    transport, received = await opened(f"{TELL_PID}{ECHO}\nopen({str(note)!r}, 'w').write('in order')")
    pid = await pid_of(received)
    await transport.close()
    assert not is_alive(pid)
    assert note.read_text() == "in order"
    assert received.error is None


async def test_close_kills_server_ignoring_sigterm() -> None:
    transport, received = await opened(STUBBORN + TELL_PID + LIVE_ON, grace=0.1)
    pid = await pid_of(received)
    await transport.close()
    assert not is_alive(pid)


async def test_close_asks_grandchildren_before_killing(tmp_path: Path) -> None:
    note = tmp_path / "note"
    inner = f"""
import signal
def note(number, frame):
    open({str(note)!r}, "w").write("asked")
signal.signal(signal.SIGTERM, note)
"""
    transport, received = await opened(WITH_GRANDCHILD % (inner + TELL_PID + LIVE_ON) + ECHO, grace=0.5)
    pid = await pid_of(received)
    await transport.close()
    assert note.read_text() == "asked"
    await until(lambda: not is_alive(pid))


CLIENT = """
import asyncio, json, signal, sys
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # it is ignored where the tests run without a terminal
from mcpkit.client.transports.processes.stdio import StdioTransport

class Receiver:
    def receive(self, line):
        print(json.loads(line)["pid"], flush=True)
    def is_pending(self, id_):
        return False
    def connection_lost(self, error):
        pass

async def main():
    await StdioTransport([sys.executable, "-c", sys.argv[1]], grace=0.1).open(Receiver())
    if sys.argv[2] == "run":
        await asyncio.Event().wait()
    await asyncio.sleep(1)

asyncio.run(main())
"""
"""A process with a client of a server, which prints the server's pid and does not close it."""


@pytest.mark.parametrize("number", [None, signal.SIGKILL, signal.SIGHUP])
async def test_server_ends_with_client_that_did_not_close_it(number: signal.Signals | None) -> None:
    command = [
        sys.executable,
        "-c",
        CLIENT,
        STUBBORN + TELL_PID + LIVE_ON,
        "end" if number is None else "run",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        if number is not None:
            process.send_signal(number)
        assert process.wait(CHILD_TIMEOUT) == (0 if number is None else -number)
    await until(lambda: not is_alive(pid))
