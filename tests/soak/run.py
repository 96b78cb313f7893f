"""A soak test: clients call a server for some minutes; each result is checked, and in the end the server holds nothing.

    python tests/soak/run.py [seconds] [seed]    600 seconds by default, half over stdio and half over HTTP

Some calls are cancelled, and some fail. In the end, the server must hold no more memory, files, tasks, threads and
processes than before.
"""

import asyncio
import os
import random
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[2])]

from mcpkit import Client, ProtocolError  # noqa: E402 - found by the path above
from mcpkit.exceptions import TransportError  # noqa: E402 - found by the path above
from tests.helpers.processes import DEFAULT_TIMEOUT, free_port  # noqa: E402

SERVER = Path(__file__).with_name("server.py")
REVISIONS = ("2025-11-25", "2026-07-28")
CALLERS = 12
WORKERS = os.cpu_count() or 1
SLACK = {"memory": 4_000_000, "descriptors": 3 * WORKERS + 2, "tasks": 1, "threads": 2, "processes": WORKERS}
"""What the server may hold beyond what it held before: caches, and worker processes for later calls."""
WEIGHTS = {
    "echo": 20, "in_thread": 20, "waits": 10, "late": 2, "reports": 6, "reports_from_thread": 6, "large": 2,
    "fails": 6, "breaks": 6, "returns_nonsense": 4, "in_process": 6, "forks": 1, "dies": 1, "no_such_tool": 3,
}  # fmt: skip
FAILING = {"late", "fails", "breaks", "returns_nonsense", "in_process", "forks", "dies"}
"""Tools with results that may be errors: a worker process that dies ends other calls as well."""


class WrongResultError(Exception):
    """A result that does not belong to its call, or resources that are left."""


def arguments_of(tool: str, token: str, draw: random.Random) -> dict[str, Any]:
    more: dict[str, dict[str, Any]] = {
        "echo": {"value": "é" * draw.choice([0, 10, 70_000, 600_000])},
        "in_thread": {"numbers": [1] * draw.choice([1, 100, 10_000])},
        "waits": {"seconds": draw.random() * 0.3},
        "reports": {"steps": draw.choice([1, 50, 2_000])},
        "reports_from_thread": {"steps": draw.choice([1, 50, 2_000])},
        "large": {"size": draw.choice([10, 100_000, 3_000_000])},
    }
    return {"token": token, **more.get(tool, {})}


async def call(client: Client, tool: str, arguments: dict[str, Any]) -> None:
    """Call a tool, and check that the result belongs to the call."""
    try:
        result = await client.call_tool(tool, arguments, timeout=DEFAULT_TIMEOUT, progress=lambda *_: None)
    except ProtocolError as error:
        if (
            tool != "no_such_tool"
            and "try again" not in str(error)
            and "requests are running" not in str(error)
        ):
            raise WrongResultError(f"{tool}: {error!r}") from error
        return
    expected = str(len(arguments["numbers"])) if tool == "in_thread" else arguments["token"]
    if not (result.is_error and tool in FAILING) and expected not in result.text:
        raise WrongResultError(f"{tool}: not the result of {expected}: {result.text[:300]}")


async def run_caller(client: Client, until: float, seed: int, counts: Counter[str]) -> None:
    draw, number = random.Random(seed), 0
    while time.monotonic() < until:
        number += 1
        (tool,) = draw.choices([*WEIGHTS], [*WEIGHTS.values()])
        running = asyncio.ensure_future(call(client, tool, arguments_of(tool, f"t{seed}-{number}-", draw)))
        if draw.random() < 0.08:
            await asyncio.wait([running], timeout=draw.random() * 0.2)
            running.cancel()
            counts["cancelled"] += 1
        with suppress(asyncio.CancelledError):
            await running
        counts["calls"] += 1


@asynccontextmanager
async def serve_http() -> AsyncIterator[str]:
    port = free_port()
    process = await asyncio.create_subprocess_exec(sys.executable, SERVER, str(port))
    url = f"http://127.0.0.1:{port}/mcp"
    try:
        for _ in range(200):
            with suppress(TransportError):
                async with Client(url):
                    break
            await asyncio.sleep(0.05)
        yield url
    finally:
        process.terminate()
        await process.wait()


async def measure(client: Client) -> dict[str, int]:
    return dict((await client.call_tool("state")).structured_content)


async def soak(transport: str, seconds: float, seed: int) -> None:
    async with AsyncExitStack() as stack:
        counts: Counter[str] = Counter()
        target: Any = [sys.executable, str(SERVER)]
        if transport == "http":
            target = await stack.enter_async_context(serve_http())
        clients = [
            await stack.enter_async_context(Client(target, protocol_version=revision))
            for revision in (REVISIONS if transport == "http" else REVISIONS[1:])
        ]

        async def run(length: float, seed: int) -> None:
            until = time.monotonic() + length
            callers = (
                run_caller(clients[number % len(clients)], until, seed + number, counts)
                for number in range(CALLERS)
            )
            await asyncio.gather(*callers)

        await run(min(10.0, seconds / 4), seed)  # fills caches and starts worker processes
        await asyncio.sleep(5)
        before = await measure(clients[0])
        await run(seconds, seed + 1000)
        deadline = time.monotonic() + DEFAULT_TIMEOUT
        after = await measure(clients[0])
        while any(after[key] > before[key] + SLACK[key] for key in before):
            if time.monotonic() > deadline:
                raise WrongResultError(f"the server holds {after}, before it held {before}")
            await asyncio.sleep(0.5)
            after = await measure(clients[0])
        print(f"{transport}: {dict(counts)}\n  before {before}\n  after  {after}", flush=True)


if __name__ == "__main__":
    arguments = [float(each) for each in sys.argv[1:]]
    seconds, seed = (*arguments, *(600.0, 1.0)[len(arguments) :])
    for transport in ("stdio", "http"):
        asyncio.run(soak(transport, seconds / 2, int(seed)))
    print("each call had its result, and nothing is left")
