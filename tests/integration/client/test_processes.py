"""Ends of server processes: by closed input, signals, the death of the client, and what is left over."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mcpkit.client.transports.processes.stdio import StdioTransport
from tests.helpers.child import (
    ECHO,
    PATIENCE,
    Received,
    ask,
    children,
    descriptors,
    held,
    is_alive,
    script,
    send,
)
from tests.helpers.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

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


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
async def test_close_ends_server_by_its_input(tmp_path: Path) -> None:
    note = tmp_path / "note"
    transport, received = await opened(f"{TELL_PID}{ECHO}\nopen({str(note)!r}, 'w').write('in order')")
    pid = await pid_of(received)
    await transport.close()
    assert not is_alive(pid)
    assert note.read_text() == "in order"
    assert received.error is None


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
async def test_close_sends_sigterm(tmp_path: Path) -> None:
    note = tmp_path / "note"
    code = f"""
import signal, sys
def end(number, frame):
    open({str(note)!r}, "w").write("asked")
    sys.exit()
signal.signal(signal.SIGTERM, end)
"""
    transport, received = await opened(code + TELL_PID + LIVE_ON)
    pid = await pid_of(received)
    closing = asyncio.create_task(transport.close())
    await asyncio.sleep(0)
    closing.cancel()  # so that the first step takes no time
    await asyncio.wait([closing])
    assert not is_alive(pid)
    assert note.read_text() == "asked"


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
async def test_close_kills_server_ignoring_sigterm() -> None:
    transport, received = await opened(STUBBORN + TELL_PID + LIVE_ON, grace=0.1)
    pid = await pid_of(received)
    await transport.close()
    assert not is_alive(pid)


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
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


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
async def test_close_lets_server_read_last_message(tmp_path: Path) -> None:
    note = tmp_path / "note"
    code = f"import sys, time\ntime.sleep(0.2)\nopen({str(note)!r}, 'w').write(str(len(sys.stdin.read())))"
    transport, _ = await opened(code)
    await send(transport, 1, text="x" * 3_000_000)
    await transport.close()
    assert int(note.read_text()) > 3_000_000


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_event_loop_end_ends_server(tmp_path: Path) -> None:
    note = tmp_path / "note"

    async def forget_to_close() -> int:
        _, received = await opened(f"{TELL_PID}{ECHO}\nopen({str(note)!r}, 'w').write('in order')")
        return await pid_of(received)

    before = descriptors()
    pid = asyncio.run(forget_to_close())
    assert not is_alive(pid)
    assert note.read_text() == "in order"
    assert descriptors() <= before


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


STUBBORN_SERVER = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
"""


RUN_FOREVER = """
while True:
    time.sleep(3600)
"""


GRANDCHILD_SERVER = """
import subprocess, sys, time
inner = subprocess.Popen([sys.executable, "-c", %r])
""" % (STUBBORN_SERVER + TELL_PID + RUN_FOREVER)


IN_DAEMON = """
is_ready = threading.Event()
async def live():
    transport = await start()
    is_ready.set()
    await asyncio.Event().wait()
threading.Thread(target=lambda: asyncio.run(live()), daemon=True).start()
is_ready.wait()
"""


SERVERS = [ECHO, STUBBORN_SERVER + TELL_PID + RUN_FOREVER, GRANDCHILD_SERVER + RUN_FOREVER]


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


@pytest.mark.skipif(sys.platform != "linux", reason="waits for processes that are not its children")
@pytest.mark.usefixtures("hear_interrupts")
@pytest.mark.long
@pytest.mark.parametrize("server", SERVERS[2:])
@pytest.mark.parametrize("end", [
    "asyncio.run(start())",
    "loop = asyncio.new_event_loop(); loop.run_until_complete(start())",
    "threading.Thread(target=lambda: asyncio.run(start())).start()",
    IN_DAEMON,
], ids=["asyncio.run", "open loop", "thread", "daemon thread"])  # fmt: skip
def test_server_ends_with_interpreter(end: str, server: str) -> None:
    with started(end, server) as parent:
        assert parent.process.wait(PATIENCE) == 0
        assert parent.process.stderr is not None
        noise = parent.process.stderr.read()
        assert noise == "" or "new_event_loop" in end, "asyncio says so of a loop that is not run to its end"
        assert "subprocess" not in noise
        assert "Event loop is closed" not in noise
        assert parent.server_ends()


@pytest.mark.skipif(sys.platform != "linux", reason="waits for processes that are not its children")
@pytest.mark.usefixtures("hear_interrupts")
@pytest.mark.long
@pytest.mark.parametrize(
    ("server", "number"), [*zip(SERVERS, (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP), strict=True)]
)
def test_server_ends_with_killed_client(server: str, number: signal.Signals) -> None:
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


@pytest.mark.skipif(sys.platform != "linux", reason="waits for processes that are not its children")
@pytest.mark.usefixtures("hear_interrupts")
@pytest.mark.long
def test_forked_child_does_not_keep_server_alive() -> None:
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


MORTAL = ECHO.replace("    if", "    if message.get('params', {}).get('die'): sys.exit(1)\n    if")


def left() -> set[str]:
    """What this process holds, and what runs in its event loop."""
    return held() | {task.get_name() for task in asyncio.all_tasks()}


async def live(transport: StdioTransport) -> None:
    received = Received()
    await transport.open(received)
    assert await ask(transport, received, 1, text="x" * 200_000) == {"text": "x" * 200_000}
    assert received.error is None


async def closed(transport: StdioTransport) -> None:
    await live(transport)
    await transport.close()


async def closed_twice(transport: StdioTransport) -> None:
    await closed(transport)
    await transport.close()


async def lost(transport: StdioTransport) -> None:
    received = Received()
    await transport.open(received)
    await send(transport, 1, die=True)
    await received.end()


async def killed(transport: StdioTransport) -> None:
    received = Received()
    before = children()
    await transport.open(received)
    assert await ask(transport, received, 1) == {}
    guards = {pid for pid in children() - before if is_guard(pid)}
    [pid] = children() - before - guards
    os.kill(pid, 9)
    assert "SIGKILL" in str(await received.end())


def is_guard(pid: int) -> bool:
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        return b"mcpkit-guard" in file.read()


async def cancelled(transport: StdioTransport) -> None:
    await live(transport)
    closing = asyncio.create_task(transport.close())
    await asyncio.sleep(0)
    closing.cancel()
    await asyncio.wait([closing])


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
@pytest.mark.parametrize("end", [closed_twice, lost, killed, cancelled])
async def test_stdio_reopened_leaves_nothing(end: Callable[[StdioTransport], Any]) -> None:
    transport = StdioTransport(script(MORTAL))
    before = left()
    for _ in range(8):
        await end(transport)
    await transport.close()
    assert left() <= before
