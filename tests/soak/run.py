"""A soak: clients of all kinds, polite and rude, for some minutes; every request is answered once, and nothing is left.

python tests/soak/run.py [seconds]    600 seconds when none are given, shared by the ways to reach the server

It counts at the clients. A request that nobody gave up has one answer, and it is that request's: every tool says the
token that it was called with. One that was cancelled, or whose connection was cut, has one at most. When the clients
have gone, the server is asked what it holds, until that is what it held before.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import socket
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx2

SERVER = Path(__file__).with_name("server.py")
STATELESS, HANDSHAKE = "2026-07-28", "2025-11-25"
WAYS = ("stdio", "h11", "httptools")
CLIENTS = 12
PATIENCE = 60.0
"""Seconds within which a request must be answered, and the server must be at rest again."""
WORKERS = os.cpu_count() or 1
SLACK = {"memory": 4_000_000, "descriptors": 3 * WORKERS + 2, "tasks": 1, "threads": 2, "processes": WORKERS}
"""What may be there beyond what was: bytes of caches, and worker processes, which are kept for later calls."""
BOTH = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
GARBAGE = (
    b"{",
    b"[]",
    b"\xff\xfe",
    b"[" * 5000,
    b'{"jsonrpc":"2.0","id":',
    b'"' + b"x" * 100_000 + b'"',
    b"1e999",
)

Send = Callable[[dict[str, Any], bool], Awaitable[list[dict[str, Any]] | None]]
"""Sends a request and returns the responses to it; None where it was given up, which the flag asks for."""

counts: Counter[str] = Counter()


class WrongError(Exception):
    """A promise is broken."""


def arguments_of(tool: str, token: str, draw: random.Random) -> dict[str, Any]:
    given: dict[str, Any] = {"token": token}
    if tool == "echo":
        given["value"] = "é" * draw.choice([0, 10, 70_000, 600_000])
    elif tool == "in_thread":
        given["numbers"] = [1] * draw.choice([1, 100, 10_000])
    elif tool == "waits":
        given["seconds"] = draw.random() * 0.3
    elif tool in {"reports", "reports_from_thread"}:
        given["steps"] = draw.choice([1, 50, 2_000])
    elif tool == "large":
        given["size"] = draw.choice([10, 100_000, 3_000_000, 20_000_000])
    return given


TOOLS = {
    "echo": 20, "in_thread": 20, "waits": 10, "late": 2, "reports": 6, "reports_from_thread": 6, "large": 2,
    "fails": 6, "breaks": 6, "returns_nonsense": 4, "in_process": 6, "forks": 1, "dies": 1, "no_such_tool": 3,
}  # fmt: skip


def check(tool: str, arguments: dict[str, Any], answer: dict[str, Any]) -> None:
    """Hold an answer against the request that it belongs to."""
    token = arguments["token"]
    text = json.dumps(answer)
    if tool == "no_such_tool":
        fits = answer.get("error", {}).get("code") == -32602
    elif "result" not in answer:
        # What a full server says, and no more.
        fits = "try again" in text or "requests are running" in text
        counts["refused"] += 1
    elif answer["result"].get("isError"):
        fits = tool in {"fails", "breaks", "late", "returns_nonsense", "dies", "forks", "in_process"}
        fits = fits or "wrong" in arguments
    elif tool == "in_thread":
        fits = answer["result"]["structuredContent"] in (
            {"result": len(arguments["numbers"])},
            len(arguments["numbers"]),
        )
    else:
        fits = token in text[:400] or token in text[-400:]
    if not fits:
        raise WrongError(f"{tool}: not the answer to {token}: {text[:300]}")


async def client(send: Send, garbage: Callable[[bytes], Awaitable[None]], until: float, seed: int) -> None:
    """Send requests until the time is over, and hold each answer against its request."""
    draw = random.Random(seed)
    number = 0
    while time.monotonic() < until:
        number += 1
        if draw.random() < 0.03:
            counts["garbage"] += 1
            await garbage(draw.choice(GARBAGE))
            continue
        (tool,) = draw.choices([*TOOLS], [*TOOLS.values()])
        arguments = arguments_of(tool, f"t{seed}-{number}-", draw)
        if draw.random() < 0.03:
            arguments["wrong"] = [{}] * 1000
        gives_up = draw.random() < 0.08
        request = {"method": "tools/call", "params": {"name": tool, "arguments": arguments}}
        answers = await asyncio.wait_for(send(request, gives_up), PATIENCE)
        counts["requests"] += 1
        if answers is None:
            counts["given up"] += 1
            continue
        if len(answers) != 1:
            raise WrongError(f"{tool}: {len(answers)} answers")
        check(tool, arguments, answers[0])
        counts["answers"] += 1


# Over pipes


class Pipes:
    """One server over pipes, and those who share it."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.number = 0
        self.open: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self.ended: set[int] = set()
        self.reading = asyncio.create_task(self.read())

    async def read(self) -> None:
        assert self.process.stdout is not None
        while line := await self.process.stdout.readline():
            message = json.loads(line)
            if "method" in message or message.get("id") is None:
                continue  # reports, and what is said of garbage
            future = self.open.pop(message["id"], None)
            if future is None:
                raise WrongError(f"an answer to nothing that is open: {line[:200]!r}")
            if not future.done():
                future.set_result(message)

    async def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        await self.process.stdin.drain()

    def sender(self, revision: str) -> Send:
        async def send(request: dict[str, Any], gives_up: bool) -> list[dict[str, Any]] | None:
            self.number += 1
            id_, future = self.number, asyncio.get_running_loop().create_future()
            self.open[id_] = future
            message = {"jsonrpc": "2.0", "id": id_, **enveloped(request, revision, f"p{id_}")}
            await self.write(json.dumps(message).encode() + b"\n")
            if gives_up:
                cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id_}}
                await self.write(json.dumps(cancel).encode() + b"\n")
                with suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(asyncio.shield(future), 0.05)
                return None
            done = await next_of(future, self.reading)
            return [done]

        return send

    async def garbage(self, data: bytes) -> None:
        await self.write(data + b"\n")


async def next_of(future: asyncio.Future[Any], reading: asyncio.Task[None]) -> Any:
    await asyncio.wait({future, reading}, return_when=asyncio.FIRST_COMPLETED)
    if not future.done():
        reading.result()
        raise WrongError("the server has closed its output")
    return future.result()


def enveloped(request: dict[str, Any], revision: str, token: str) -> dict[str, Any]:
    meta: dict[str, Any] = {"progressToken": token}
    if revision == STATELESS:
        meta |= {
            "io.modelcontextprotocol/protocolVersion": STATELESS,
            "io.modelcontextprotocol/clientInfo": {"name": "soak", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }
    return {**request, "params": {**request["params"], "_meta": meta}}


INITIALIZE = {
    "jsonrpc": "2.0", "id": 0, "method": "initialize",
    "params": {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": {"name": "soak", "version": "1"}},
}  # fmt: skip


@asynccontextmanager
async def over_pipes() -> AsyncIterator[tuple[list[Send], Callable[[bytes], Awaitable[None]]]]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, SERVER, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        limit=64 * 2**20,
    )  # fmt: skip
    pipes = Pipes(process)
    opened = pipes.open[0] = asyncio.get_running_loop().create_future()
    await pipes.write(json.dumps(INITIALIZE).encode() + b"\n")
    await next_of(opened, pipes.reading)
    await pipes.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
    try:
        yield [pipes.sender(HANDSHAKE), pipes.sender(STATELESS)], pipes.garbage
    finally:
        assert process.stdin is not None
        process.stdin.close()
        if await asyncio.wait_for(process.wait(), 20) != 0:
            raise WrongError(f"the server has ended with {process.returncode}")
        await pipes.reading


# Over HTTP


class Web:
    """One server over HTTP."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.http = httpx2.AsyncClient(timeout=PATIENCE, limits=httpx2.Limits(max_connections=None))
        self.number = 0

    async def post(
        self, message: dict[str, Any], headers: dict[str, str], *, gives_up: bool
    ) -> list[dict[str, Any]] | None:
        async with self.http.stream("POST", self.url, json=message, headers=BOTH | headers) as response:
            if gives_up:
                return None  # and the connection is cut
            if response.headers.get("content-type", "").startswith("text/event-stream"):
                found = [
                    json.loads(line[6:])
                    async for line in response.aiter_lines()
                    if line[6:] and line.startswith("data: ")
                ]
                return [each for each in found if "id" in each and "method" not in each]
            return [json.loads(await response.aread())]

    async def stateless(self, request: dict[str, Any], gives_up: bool) -> list[dict[str, Any]] | None:
        self.number += 1
        headers = {
            "MCP-Protocol-Version": STATELESS,
            "Mcp-Method": "tools/call",
            "Mcp-Name": request["params"]["name"],
        }
        message = {"jsonrpc": "2.0", "id": self.number, **enveloped(request, STATELESS, f"w{self.number}")}
        if not gives_up:
            return await self.post(message, headers, gives_up=False)
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self.post(message, headers, gives_up=True), random.random() * 0.2)
        return None

    async def in_session(self, request: dict[str, Any], gives_up: bool) -> list[dict[str, Any]] | None:
        """Open a session for a few requests; some are ended, some abandoned."""
        headers = await self.session()
        answers: list[dict[str, Any]] | None = None
        for _ in range(3):
            self.number += 1
            id_ = self.number
            message = {"jsonrpc": "2.0", "id": id_, **enveloped(request, HANDSHAKE, f"w{id_}")}
            if gives_up:
                cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id_}}
                posted = asyncio.create_task(self.post(message, headers, gives_up=False))
                await asyncio.sleep(random.random() * 0.05)
                await self.http.post(self.url, json=cancel, headers=BOTH | headers)
                await asyncio.wait({posted}, timeout=0.1)
                posted.cancel()
                with suppress(asyncio.CancelledError, httpx2.HTTPError, json.JSONDecodeError):
                    await posted
                answers = None
            else:
                answers = await self.post(message, headers, gives_up=False)
        if random.random() < 0.7:
            await self.http.delete(self.url, headers=headers)
        return answers

    async def session(self) -> dict[str, str]:
        response = await self.http.post(self.url, json=INITIALIZE, headers=BOTH)
        headers = {"Mcp-Session-Id": response.headers["mcp-session-id"], "MCP-Protocol-Version": HANDSHAKE}
        await self.http.post(
            self.url, json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=BOTH | headers
        )
        return headers

    async def garbage(self, data: bytes) -> None:
        response = await self.http.post(self.url, content=data, headers=BOTH)
        if response.status_code != 400:
            raise WrongError(f"garbage is answered with {response.status_code}")


@asynccontextmanager
async def over_http(parser: str) -> AsyncIterator[tuple[list[Send], Callable[[bytes], Awaitable[None]]]]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = await asyncio.create_subprocess_exec(sys.executable, SERVER, str(port), parser)
    web = Web(f"http://127.0.0.1:{port}/mcp")
    try:
        for _ in range(200):
            with suppress(httpx2.HTTPError):
                await web.session()
                break
            await asyncio.sleep(0.05)
        yield [web.stateless, web.in_session], web.garbage
    finally:
        await web.http.aclose()
        process.terminate()
        await asyncio.wait_for(process.wait(), 20)


# The soak


async def held(send: Send) -> dict[str, int]:
    answers = await send({"method": "tools/call", "params": {"name": "state", "arguments": {}}}, False)
    assert answers is not None
    found: dict[str, int] = answers[0]["result"]["structuredContent"]
    return found


async def at_rest(send: Send, base: dict[str, int] | None) -> dict[str, int]:
    """Ask what the server holds until it is what it held before, or as little as it gets."""
    until = time.monotonic() + PATIENCE
    least: dict[str, int] = {}
    while time.monotonic() < until:
        now = await held(send)
        least = {key: min(value, least.get(key, value)) for key, value in now.items()}
        if base is None and time.monotonic() > until - PATIENCE + 15:
            return now
        if base is not None and all(now[key] <= base[key] + SLACK[key] for key in base):
            return now
        await asyncio.sleep(0.5)
    if base is None:
        return least
    raise WrongError(f"the server holds {await held(send)}, before it was {base}")


async def soak(way: str, seconds: float, seed: int) -> None:
    serve = over_pipes() if way == "stdio" else over_http(way)
    async with serve as (senders, garbage):

        async def run(length: float, seed: int) -> None:
            until = time.monotonic() + length
            tasks = [
                asyncio.create_task(client(senders[index % 2], garbage, until, seed + index))
                for index in range(CLIENTS)
            ]
            try:
                await asyncio.gather(*tasks)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

        await run(
            min(10.0, seconds / 4), seed
        )  # what is kept once, such as caches and worker processes, is there now
        base = await at_rest(senders[0], None)
        counts.clear()
        await run(seconds, seed + 1000)
        after = await at_rest(senders[0], base)
        print(f"{way}: {dict(counts)}\n  before {base}\n  after  {after}", flush=True)


def main(arguments: list[str]) -> None:
    seconds = float(arguments[0]) if arguments else 600.0
    seed = int(arguments[1]) if len(arguments) > 1 else 1
    for way in WAYS:
        asyncio.run(soak(way, seconds / len(WAYS), seed))
    print("every request has been answered once, and nothing is left")


if __name__ == "__main__":
    main(sys.argv[1:])
