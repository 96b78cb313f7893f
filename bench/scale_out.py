"""Measures the cost of a shared Redis: round trips, processor time of plain calls, and notifications to many clients.

    make bench-scale-out
    make bench-scale-out ARGS="--only costs"

It needs redis-server. Round trips are what Redis has seen (MONITOR), commands within scripts left out.
Processor time is that of the replica, from the kernel, in pairs of rounds of which each goes first in turn.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import socket
import statistics
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

from tests.chaos.cluster import Cluster
from tests.chaos.raw_client import ENDED, Client, Session, end
from tests.helpers.processes import Process

_LINE = re.compile(rb'^\+[\d.]+ \[\d+ (\S+)\] "([^"]+)"')
_IDLE = {"XREAD", "PING", "INFO", "HELLO", "CLIENT", "SELECT", "AUTH", "CONFIG", "SCRIPT"}
"""What connections do by themselves: wait for messages, and look whether Redis is still the same."""


class Monitor:
    """Counts the commands that a Redis receives.

    Args:
        port: Where it is.

    Attributes:
        commands: How often each command came since `begin`.
    """

    def __init__(self, port: int) -> None:
        self.commands: Counter[str] = Counter()
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.sendall(b"MONITOR\r\n")
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Count no more."""
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()

    def begin(self) -> None:
        """Forget what was counted."""
        self.commands = Counter()

    def _read(self) -> None:
        with self._socket.makefile("rb") as lines:
            for line in lines:
                found = _LINE.match(line)
                if found and found[1] != b"lua" and (name := found[2].decode().upper()) not in _IDLE:
                    self.commands[name] += 1


async def costs(times: int) -> None:
    """Print the round trips of each operation."""
    print("| operation | round trips | commands |\n| --- | ---: | --- |")
    async with Cluster("costs", replicas=1, workers=0) as cluster:
        monitor = Monitor(cluster.redis.port)
        client, session = Client(cluster.replicas[0].url), Session(cluster.replicas[0].url)
        await session.initialize()

        async def count(name: str, each: Callable[[int], Awaitable[object]]) -> None:
            await each(-1)  # what is done the first time
            await asyncio.sleep(0.3)
            monitor.begin()
            for number in range(times):
                await each(number)
            await asyncio.sleep(0.3)
            shown = ", ".join(f"{how / times:.2f} {what}" for what, how in monitor.commands.most_common())
            print(f"| {name} | {monitor.commands.total() / times:.2f} | {shown} |", flush=True)

        ids: list[str] = []

        async def create(number: int) -> None:
            ids.append((await client.call_tool("works", key=f"k{number}", seconds=0))["taskId"])

        async def cancel(number: int) -> None:
            await client.ask("tasks/cancel", {"taskId": ids[number]})

        await count("plain call, stateless", lambda _: client.text("echo", value="x"))
        await count("plain call, session", lambda _: session.text("echo", value="x"))
        await count("tools/list, session", lambda _: session.ask("tools/list"))
        await count("a change notified", lambda _: client.text("touch", name="x"))
        await count("task, made", create)
        await count("task, looked at", lambda number: client.ask("tasks/get", {"taskId": ids[number]}))
        await count("task, cancelled", cancel)
        monitor.close()
    async with Cluster("costs", replicas=1, workers=1) as cluster:
        monitor = Monitor(cluster.redis.port)
        client = Client(cluster.replicas[0].url)
        monitor.begin()
        await asyncio.sleep(10)
        print(f"| worker without work, in 10 s | {monitor.commands.total()} | {dict(monitor.commands)} |")
        for tool, seconds in (("works", 0.0), ("works", 3.0), ("steps", 0.0)):
            monitor.begin()
            for number in range(10):
                id_ = (await client.call_tool(tool, key=f"{tool}{seconds}{number}", seconds=seconds))[
                    "taskId"
                ]
                while (task := await client.ask("tasks/get", {"taskId": id_}))["status"] not in ENDED:
                    if task["status"] == "input_required":
                        yes = {"action": "accept", "content": {"value": True}}
                        answers = dict.fromkeys(task["inputRequests"], yes)
                        await client.ask("tasks/update", {"taskId": id_, "inputResponses": answers})
                    await asyncio.sleep(0.1)
            shown = ", ".join(f"{how / 10:.1f} {what}" for what, how in monitor.commands.most_common())
            print(
                f"| task, whole, {tool} of {seconds:g} s, with polls | {monitor.commands.total() / 10:.1f} | {shown} |"
            )
        monitor.close()


def processor_seconds(process: Process) -> float:
    """Return the processor time that the threads of a process have taken so far."""
    threads = Path(f"/proc/{process.pid}/task").glob("*/schedstat")
    return sum(int(each.read_text().split()[0]) for each in threads) / 1e9


async def processor_time(rounds: int, calls: int) -> None:
    """Print what plain calls cost with Redis beside what they cost without."""
    async with AsyncExitStack() as stack:
        shared = await stack.enter_async_context(Cluster("shared", replicas=1, workers=0))
        alone = await stack.enter_async_context(
            Cluster("alone", replicas=1, workers=0, settings={"ALONE": "1"})
        )
        for era in ("stateless", "session"):
            ratios = []
            for number in range(rounds):
                order = [shared, alone] if number % 2 else [alone, shared]
                took = {each: await _called(each.replicas[0], era, calls) for each in order}
                ratios.append(took[shared] / took[alone])
            print(
                f"plain calls, {era}: with Redis {statistics.median(ratios):.3f} of the processor time without, "
                f"median of {rounds} pairs of {calls} calls (from {min(ratios):.3f} to {max(ratios):.3f})",
                flush=True,
            )


async def _called(replica: Process, era: str, calls: int) -> float:
    """Return the processor time of a replica for so many calls on one connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", replica.port)
    client = Session(replica.url) if era == "session" else Client(replica.url)
    if isinstance(client, Session):
        await client.initialize()
    request = _request(client, replica)

    async def ask() -> None:
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head)
        assert length is not None, head
        body = await reader.readexactly(int(length[1]))
        assert b'"x by ' in body, body

    for _ in range(200):
        await ask()
    before = processor_seconds(replica)
    for _ in range(calls):
        await ask()
    took = processor_seconds(replica) - before
    writer.close()
    return took


def _request(client: Client, replica: Process) -> bytes:
    """Return a call of `echo` as bytes."""
    params = {"name": "echo", "arguments": {"value": "x"}}
    body = json.dumps(client._message("tools/call", params, 1)).encode()
    headers = {
        "Host": f"127.0.0.1:{replica.port}",
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        **client._headers("tools/call", params),
    }
    lines = [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join(["POST /mcp HTTP/1.1", *lines, "", ""]).encode() + body


async def fan_out(listeners: int, changes: int) -> None:
    """Print how long it takes until all listeners have the notification of a change, at one replica and at three."""
    for replicas in (1, 3):
        async with Cluster("fan-out", replicas=replicas, workers=0) as cluster:
            client = Client(cluster.url)
            received = [0] * listeners
            changed = asyncio.Event()
            is_up = asyncio.Semaphore(0)

            async def listen(
                number: int,
                urls: list[str],
                received: list[int],
                is_up: asyncio.Semaphore,
                changed: asyncio.Event,
            ) -> None:
                client = Client(urls[number % len(urls)])
                filters = {"notifications": {"resourceSubscriptions": ["thing://bench"]}}
                async with client.open("subscriptions/listen", filters) as (stream, _):
                    await stream.until("notifications/subscriptions/acknowledged")
                    is_up.release()
                    while True:
                        await stream.wait()
                        received[number] += 1
                        changed.set()

            urls = [each.url for each in cluster.replicas]
            running = [
                asyncio.ensure_future(listen(number, urls, received, is_up, changed))
                for number in range(listeners)
            ]
            for _ in range(listeners):
                await is_up.acquire()
            before, took = sum(map(processor_seconds, cluster.replicas)), []
            for change in range(1, changes + 1):
                begin = time.perf_counter()
                await client.text("touch", name="bench")
                while min(received) < change:
                    changed.clear()
                    await asyncio.wait_for(changed.wait(), 30)
                took.append(time.perf_counter() - begin)
            spent = sum(map(processor_seconds, cluster.replicas)) - before
            await end(running)
            print(
                f"{listeners} listeners at {replicas} replica{'s' if replicas > 1 else ''}: all are notified after "
                f"{statistics.median(took) * 1000:.0f} ms (median of {changes} changes; the longest "
                f"{max(took) * 1000:.0f} ms), {spent / changes * 1000:.0f} ms of processor time of the replicas each",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=["costs", "processor", "fan-out"])
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--calls", type=int, default=3000)
    parser.add_argument("--listeners", type=int, default=1000)
    options = parser.parse_args()
    if options.only in {None, "costs"}:
        asyncio.run(costs(50))
    if options.only in {None, "processor"}:
        asyncio.run(processor_time(options.rounds, options.calls))
    if options.only in {None, "fan-out"}:
        asyncio.run(fan_out(options.listeners, 20))


if __name__ == "__main__":
    main()
