"""How a server's process ends: by the end of its input, then by signals, with all that it has started."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from mcpkit.client.transports.processes.stdio import StdioTransport
from tests.helpers.child import ECHO, Received, ask, children, descriptors, is_alive, script, send
from tests.helpers.waiting import until

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc"),
    pytest.mark.slow,
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


async def test_a_good_server_ends_with_its_input(tmp_path: Path) -> None:
    note = tmp_path / "note"
    transport, received = await opened(f"{TELL_PID}{ECHO}\nopen({str(note)!r}, 'w').write('in order')")
    pid = await pid_of(received)
    await transport.close()
    assert not is_alive(pid)
    assert note.read_text() == "in order"
    assert received.error is None


async def test_one_that_goes_on_is_ended_by_sigterm(tmp_path: Path) -> None:
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


async def test_one_that_ignores_sigterm_is_killed() -> None:
    transport, received = await opened(STUBBORN + TELL_PID + LIVE_ON, grace=0.1)
    pid = await pid_of(received)
    await transport.close()
    assert not is_alive(pid)


async def test_without_grace_it_is_killed_at_once() -> None:
    transport, received = await opened(STUBBORN + TELL_PID + LIVE_ON, grace=0)
    pid = await pid_of(received)
    await transport.close()
    assert not is_alive(pid)


async def test_what_it_has_started_ends_with_it() -> None:
    inner = STUBBORN + TELL_PID + LIVE_ON
    transport, received = await opened(WITH_GRANDCHILD % inner + STUBBORN + LIVE_ON, grace=0.1)
    pid = await pid_of(received)
    await transport.close()
    await until(lambda: not is_alive(pid))


async def test_what_it_leaves_behind_is_asked_to_end_and_then_killed(tmp_path: Path) -> None:
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


@pytest.mark.slow
async def test_a_process_that_was_left_behind_does_not_hide_the_exit() -> None:
    inner = TELL_PID + LIVE_ON
    transport, received = await opened(
        WITH_GRANDCHILD % inner + "sys.stdin.readline()\nsys.exit(4)", grace=0.1
    )
    pid = await pid_of(received)
    await send(transport, 1)
    assert "has ended with exit code 4" in str(await received.end())
    await transport.close()
    await until(lambda: not is_alive(pid))


async def test_it_may_be_closed_twice_and_at_the_same_time() -> None:
    transport, received = await opened(TELL_PID + LIVE_ON, grace=0.1)
    pid = await pid_of(received)
    await asyncio.gather(transport.close(), transport.close())
    assert not is_alive(pid)
    await transport.close()


async def test_it_may_be_closed_as_soon_as_it_is_open() -> None:
    before = children()
    transport, received = await opened(ECHO)
    await transport.close()
    assert children() <= before
    assert received.error is None


async def test_it_may_be_closed_in_another_task() -> None:
    opening = asyncio.create_task(opened(TELL_PID + ECHO))
    transport, received = await opening
    pid = await pid_of(received)
    await asyncio.create_task(transport.close())
    assert not is_alive(pid)


async def test_closing_that_is_cancelled_still_ends_it_and_sooner() -> None:
    transport, received = await opened(TELL_PID + LIVE_ON)  # which has an hour
    pid = await pid_of(received)
    closing = asyncio.create_task(transport.close())
    await asyncio.sleep(0)
    closing.cancel()
    await asyncio.wait([closing])
    assert closing.cancelled()
    assert not is_alive(pid)


async def test_closing_ends_it_under_a_time_out_too() -> None:
    transport, received = await opened(TELL_PID + LIVE_ON)
    pid = await pid_of(received)
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(transport.close(), 0.01)
    assert not is_alive(pid)


@pytest.mark.slow
async def test_it_ends_with_the_scope_of_anyio_that_is_cancelled() -> None:
    import anyio

    transport, received = await opened(STUBBORN + TELL_PID + LIVE_ON, grace=0.1)
    pid = await pid_of(received)
    with anyio.CancelScope() as scope:
        scope.cancel()
        await transport.close()
    assert not is_alive(pid)


async def test_a_server_that_reads_nothing_any_more_is_ended() -> None:
    transport, received = await opened(TELL_PID + LIVE_ON, grace=0.1)
    pid = await pid_of(received)
    await send(transport, 1, text="x" * 3_000_000)
    waiting = asyncio.create_task(send(transport, 2))
    await asyncio.sleep(0)
    await transport.close()
    assert not is_alive(pid)
    with pytest.raises(ConnectionError, match="has ended"):
        await waiting


@pytest.mark.slow
async def test_a_server_that_writes_without_end_is_ended() -> None:
    before = descriptors()
    code = TELL_PID + "while True: print('{}\\n' * 10000, flush=True)"
    transport, received = await opened(code, grace=0.1)
    pid = await pid_of(received)
    await transport.close()
    assert not is_alive(pid)
    assert descriptors() <= before


async def test_what_was_sent_last_is_read_before_the_input_ends(tmp_path: Path) -> None:
    note = tmp_path / "note"
    code = f"import sys, time\ntime.sleep(0.2)\nopen({str(note)!r}, 'w').write(str(len(sys.stdin.read())))"
    transport, _ = await opened(code)
    await send(transport, 1, text="x" * 3_000_000)
    await transport.close()
    assert int(note.read_text()) > 3_000_000


async def test_its_last_words_do_not_block_it_in_the_end() -> None:
    transport, received = await opened(TELL_PID + ECHO + "\nprint('{}' * 2_000_000, flush=True)")
    pid = await pid_of(received)
    assert await ask(transport, received, 1) == {}
    await transport.close()
    assert not is_alive(pid)


def test_the_end_of_the_loop_ends_it_in_order(tmp_path: Path) -> None:
    note = tmp_path / "note"

    async def forget_to_close() -> int:
        _, received = await opened(f"{TELL_PID}{ECHO}\nopen({str(note)!r}, 'w').write('in order')")
        return await pid_of(received)

    before = descriptors()
    pid = asyncio.run(forget_to_close())
    assert not is_alive(pid)
    assert note.read_text() == "in order"
    assert descriptors() <= before
