"""How many calls of a component run at a time."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from mcpkit import RegistrationError, Server
from mcpkit.calls.turn import Slots
from mcpkit.testing import Client, connect
from tests.helpers.pipe import settle
from tests.helpers.waiting import over, until

pytestmark = pytest.mark.anyio

SOON = 0.02


class Visitors:
    """A tool whose calls wait until they are let go, one by one.

    Attributes:
        inside: The names of the calls that run, in order of arrival.
        most: How many ran at a time.
    """

    def __init__(self, server: Server, **options: Any) -> None:
        self.inside: list[str] = []
        self.most = 0
        self._gates: dict[str, asyncio.Event] = {}

        @server.tool(**options)
        async def visit(name: str) -> str:
            self._gates[name] = asyncio.Event()
            self.inside.append(name)
            self.most = max(self.most, len(self.inside))
            try:
                await self._gates[name].wait()
            finally:
                self.inside.remove(name)
            return name

    def come(self, client: Client, name: str) -> asyncio.Task[Any]:
        return asyncio.create_task(client.call("visit", {"name": name}))

    def let_go(self, name: str) -> None:
        self._gates[name].set()


@pytest.mark.parametrize("timeout", [None, 100])
async def test_calls_beyond_the_number_wait_in_order_of_arrival(timeout: float | None) -> None:
    server = Server("s", timeout=timeout)
    visitors = Visitors(server, concurrency=1)
    async with connect(server) as client:
        calls = []
        for name in "abcd":
            calls.append(visitors.come(client, name))
            await asyncio.sleep(0)
        for name in "abcd":
            await until(lambda name=name: visitors.inside == [name])
            visitors.let_go(name)
        assert [(await call).text for call in calls] == list("abcd")
    assert visitors.most == 1


async def test_as_many_run_as_there_are_places() -> None:
    server = Server("s")
    visitors = Visitors(server, concurrency=2)
    async with connect(server) as client:
        calls = [visitors.come(client, name) for name in "abc"]
        await until(lambda: len(visitors.inside) == 2)
        for name in "abc":
            await until(lambda name=name: name in visitors.inside)
            visitors.let_go(name)
        await asyncio.gather(*calls)
    assert visitors.most == 2


async def test_a_copy_under_another_name_shares_the_places() -> None:
    part, whole = Server("part"), Server("whole")
    visitors = Visitors(part, concurrency=1)
    whole.include(part)
    whole.include(part, prefix="other")
    async with connect(whole) as client:
        names = [each["name"] for each in await client.list_tools()]
        first = asyncio.create_task(client.call(names[0], {"name": "a"}))
        await until(lambda: visitors.inside == ["a"])
        second = asyncio.create_task(client.call(names[1], {"name": "b"}))
        await until(lambda: whole.engine.runtime.running.taken == 2)
        await settle()
        assert visitors.inside == ["a"]
        visitors.let_go("a")
        await until(lambda: visitors.inside == ["b"])
        visitors.let_go("b")
        await asyncio.gather(first, second)


async def test_a_call_that_waits_can_be_cancelled() -> None:
    server = Server("s")
    visitors = Visitors(server, concurrency=1)
    async with connect(server) as client:
        first = visitors.come(client, "a")
        await until(lambda: visitors.inside == ["a"])
        second, third = visitors.come(client, "b"), visitors.come(client, "c")
        await until(lambda: server.engine.runtime.running.taken == 3)
        await over(second)
        visitors.let_go("a")
        await until(lambda: visitors.inside == ["c"])
        visitors.let_go("c")
        await asyncio.gather(first, third)
        await until(lambda: server.engine.runtime.running.taken == 0)


async def test_the_time_of_a_call_that_waits_runs() -> None:
    server = Server("s")
    gate = asyncio.Event()

    @server.tool(concurrency=1, timeout=SOON)
    async def stubborn() -> None:
        while not gate.is_set():
            try:
                await gate.wait()
            except asyncio.CancelledError:
                continue

    async with connect(server) as client:
        assert (await client.call("stubborn")).text == "timed out after 0.02 s"
        # Its function still runs, and so has its place.
        waiting = await client.call("stubborn")
        assert waiting.text == "timed out after 0.02 s of waiting for earlier calls to end"
        gate.set()
        await until(lambda: server.engine.runtime.running.taken == 0)
        assert not (await client.call("stubborn")).is_error


async def test_a_thread_that_was_given_up_keeps_its_place_until_it_returns() -> None:
    server = Server("s")
    started, gate = threading.Event(), threading.Event()

    @server.tool(concurrency=1)
    def block() -> str:
        started.set()
        gate.wait(10)
        return "done"

    async with connect(server) as client:
        first = asyncio.create_task(client.call("block"))
        await asyncio.to_thread(started.wait, 10)
        await over(first)
        started.clear()
        second = asyncio.create_task(client.call("block"))
        await until(lambda: server.engine.runtime.running.taken == 1)
        await asyncio.sleep(SOON)
        assert not started.is_set()
        gate.set()
        assert (await second).text == "done"


@pytest.mark.parametrize("number", [0, -1, 1.5, "1", True])
def test_the_number_of_places_is_at_least_one(number: Any) -> None:
    server = Server("s")
    with pytest.raises(RegistrationError, match="tool 'f': concurrency is the number of calls"):

        @server.tool(concurrency=number)
        def f() -> None: ...


async def test_a_place_that_was_handed_over_to_a_cancelled_call_goes_to_the_next() -> None:
    slots = Slots(1)
    await slots.take()
    second, third = asyncio.create_task(slots.take()), asyncio.create_task(slots.take())
    await asyncio.sleep(0)
    slots.give_back()  # to the second, which hears of it in the next turn of the loop
    second.cancel()
    await asyncio.wait([second])
    await asyncio.wait_for(third, 10)


def test_places_are_shared_between_event_loops() -> None:
    slots = Slots(1)
    running, most = 0, 0
    lock = threading.Lock()

    async def work() -> None:
        nonlocal running, most
        for _ in range(50):
            await slots.take()
            with lock:
                running += 1
                most = max(most, running)
            await asyncio.sleep(0)
            with lock:
                running -= 1
            slots.give_back()

    threads = [threading.Thread(target=asyncio.run, args=(work(),)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not any(thread.is_alive() for thread in threads)
    assert most == 1


def test_nobody_waits_in_a_loop_that_is_closed() -> None:
    slots = Slots(1)

    async def take_and_leave() -> None:
        await slots.take()
        loop.stop()
        await slots.take()

    loop = asyncio.new_event_loop()
    left = loop.create_task(take_and_leave())
    loop.run_forever()
    loop.close()
    slots.give_back()
    asyncio.run(asyncio.wait_for(slots.take(), 10))
    left._log_destroy_pending = False  # type: ignore[attr-defined]  # this is what the test is about
