"""A server that has ended is started again, any number of times; nothing is left over."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from mcpkit.client.transports.processes.stdio import StdioTransport
from tests.helpers.child import ECHO, Received, ask, children, held, script, send

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc"),
    pytest.mark.slow,
]

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


@pytest.mark.parametrize("end", [closed, closed_twice, lost, killed, cancelled])
async def test_nothing_is_left_over(end: Callable[[StdioTransport], Any]) -> None:
    transport = StdioTransport(script(MORTAL))
    before = left()
    for _ in range(8):
        await end(transport)
    await transport.close()
    assert left() <= before


async def test_one_that_was_lost_has_ended_before_the_next_is_started() -> None:
    """Or the next would find its port or its files in use."""
    transport = StdioTransport(script("import os\nos.close(1)\nwhile True: pass"), grace=0.1)
    received = Received()
    before = children()
    await transport.open(received)
    await received.end()
    first = children() - before
    await transport.open(Received())
    assert not first & children()
    await transport.close()


async def test_many_live_at_once() -> None:
    before = left()
    transports = [StdioTransport(script(ECHO)) for _ in range(10)]
    await asyncio.gather(*map(closed, transports))
    assert left() <= before


async def test_a_kernel_without_pidfd_does_it_by_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(pid: int) -> int:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(os, "pidfd_open", refuse)
    before = left()
    for end in (closed, lost, cancelled):
        transport = StdioTransport(script(MORTAL))
        await end(transport)
        await transport.close()
    for thread in threading.enumerate():
        if thread.name == "mcpkit-child":
            thread.join(30)
    assert left() <= before


async def test_a_system_without_a_shell_does_it_without_a_guard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcpkit.client.transports.processes.orphans._SHELL", "/no/such/shell")
    before = left()
    transport = StdioTransport(script(MORTAL))
    for end in (closed, lost, cancelled):
        await end(transport)
    await transport.close()
    assert left() <= before


def test_it_lives_in_uvloop_too() -> None:
    import uvloop

    async def main() -> None:
        transport = StdioTransport(script(MORTAL))
        before = left()
        for end in (closed, lost, killed, cancelled):
            await end(transport)
        await transport.close()
        assert left() <= before

    loop = uvloop.new_event_loop()
    try:
        loop.run_until_complete(main())
    finally:
        loop.close()


def test_one_transport_lives_in_one_loop_after_another() -> None:
    transport = StdioTransport(script(MORTAL))
    before = held()
    for end in (closed, lost, live):
        asyncio.run(end(transport))
    assert held() <= before
