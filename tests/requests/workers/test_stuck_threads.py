"""Calls that wait for a thread, while those that have one are stuck."""

from __future__ import annotations

import asyncio
import threading

import pytest

from mcpkit.calls.workers.threads import Threads
from mcpkit.common.errors import BusyError
from tests.helpers.waiting import until

pytestmark = pytest.mark.anyio


async def test_calls_that_wait_for_a_thread_cannot_get_stuck_beyond_the_limit() -> None:
    threads, gate = Threads(2, stuck=1), threading.Event()
    blocked: list[threading.Thread] = []

    def block() -> None:
        blocked.append(threading.current_thread())
        gate.wait(10)

    calls = [asyncio.create_task(threads.run(block, {})) for _ in range(20)]
    try:
        for call in calls:
            await until(lambda: len(blocked) >= threads.given_up + 1 or threads.given_up > 1)
            call.cancel()
            await asyncio.wait((call,))
        assert len(blocked) <= 4
        assert sum(isinstance(call.exception(), BusyError) for call in calls if not call.cancelled()) > 10
    finally:
        gate.set()
    await until(lambda: not threads.given_up)
    assert await threads.run(lambda: "served", {}) == "served"
