"""Measures libraries in place of own code: worker processes, events and the errors of values.

    python bench/libraries.py

It needs anyio, sse-starlette, jsonschema-rs and uvicorn. Times are the least of several rounds. What a worker keeps to
is tried, one promise after the other. docs/project/decisions.md has what it prints.
"""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import anyio.to_process
from library_work import add, awaits, prints, raises, waits_for_a_child

from mcpkit.execution.worker_processes import Processes
from mcpkit.schema.validation_errors import problems
from mcpkit.transports.http.response import event

ROUNDS: Final = 7
CALLS: Final = 300
IMPORTS: Final = {
    "asyncio": "import asyncio",
    "anyio": "import asyncio, anyio.to_process",
    "starlette": "import starlette.responses, uvicorn",
    "sse-starlette": "import starlette.responses, uvicorn, sse_starlette",
    "pydantic-core": "import pydantic_core",
    "jsonschema-rs": "import pydantic_core, jsonschema_rs",
}
MESSAGE: Final = b'{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"good morning"}]}}'
EVENTS: Final = 100_000

Run = Callable[..., Awaitable[Any]]


async def with_anyio(function: Callable[..., Any], *arguments: Any) -> Any:
    return await anyio.to_process.run_sync(function, *arguments, cancellable=True)


def with_mcpkit() -> Run:
    processes = Processes(1)

    async def run(function: Callable[..., Any], *arguments: Any) -> Any:
        names = function.__code__.co_varnames
        return await processes.run(function, dict(zip(names, arguments, strict=False)))

    return run


async def outcome(run: Run, function: Callable[..., Any]) -> str:
    try:
        async with asyncio.timeout(20):
            return repr(await run(function))
    except BaseException as error:
        return f"{type(error).__name__}: {error}"[:90]


async def child_after_cancelling(run: Run) -> str:
    file = Path(f"/tmp/libraries-{os.getpid()}")
    file.unlink(missing_ok=True)
    task = asyncio.ensure_future(run(waits_for_a_child, str(file)))
    while not (file.exists() and file.read_text()):
        await asyncio.sleep(0.01)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    await asyncio.sleep(0.2)
    child = int(file.read_text())
    file.unlink()
    status = Path(f"/proc/{child}/stat")
    if not status.exists() or status.read_text().rpartition(")")[2].split()[0] == "Z":
        return "is gone"
    os.kill(child, signal.SIGKILL)
    return "runs on"


async def workers(name: str, run: Run) -> None:
    start = time.perf_counter()
    await run(add, 1, 2)
    first = time.perf_counter() - start
    calls: list[float] = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for _ in range(CALLS):
            await run(add, 1, 2)
        calls.append((time.perf_counter() - start) / CALLS)
    print(f"{name}: first call {first * 1000:.0f} ms, each {min(calls) * 1000:.2f} ms")
    print(f"  a child process prints in the worker: {await outcome(run, prints)}")
    print(f"  async def: {await outcome(run, awaits)}")
    print(f"  an exception with arguments of its own: {await outcome(run, raises)}")
    print(f"  a child process of the worker, after cancellation: {await child_after_cancelling(run)}")


def spent() -> float:
    """Return the processor time of all child processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def importing() -> None:
    """Print the processor time of a process that imports a library, each in its turn."""
    times: dict[str, list[float]] = {name: [] for name in IMPORTS}
    for _ in range(3 * ROUNDS):
        for name, statement in IMPORTS.items():
            before = spent()
            subprocess.run([sys.executable, "-c", statement], check=True)
            times[name].append(spent() - before)
    for name, taken in times.items():
        print(f"a process that imports {name}: {min(taken) * 1000:.0f} ms")


def framing() -> None:
    from sse_starlette import ServerSentEvent
    from uvicorn import Server

    text = MESSAGE.decode()

    def of_the_library() -> bytes:
        return ServerSentEvent(text, event="message", sep="\n").encode()

    def of_mcpkit() -> bytes:
        return event(MESSAGE)

    assert of_the_library() == of_mcpkit()
    for name, make in (("sse-starlette", of_the_library), ("mcpkit", of_mcpkit)):
        times: list[float] = []
        for _ in range(ROUNDS):
            start = time.perf_counter()
            for _ in range(EVENTS):
                make()
            times.append((time.perf_counter() - start) / EVENTS)
        print(f"an event of {name}: {min(times) * 1e9:.0f} ns")
    print(f"uvicorn's Server.handle_exit is that of {Server.handle_exit.__module__}")


async def streaming() -> None:
    """Print how many tasks one open stream has beside the one that the ASGI server has made for its request."""
    from sse_starlette import EventSourceResponse

    async def forever() -> Any:
        yield {"data": "x"}
        await asyncio.Event().wait()

    async def receive() -> Any:
        await asyncio.Event().wait()

    async def send(message: Any) -> None:
        pass

    before = len(asyncio.all_tasks())
    scope = {"type": "http", "method": "GET", "headers": []}
    request = asyncio.ensure_future(EventSourceResponse(forever())(scope, receive, send))
    await asyncio.sleep(0.1)
    print(
        f"tasks of an open EventSourceResponse beside its request's: {len(asyncio.all_tasks()) - before - 1}"
    )
    request.cancel()
    with suppress(asyncio.CancelledError):
        await request


def explaining() -> None:
    """Print how long it takes to report the errors of many values, none of which is valid."""
    import jsonschema_rs

    schema = {"type": "array", "items": {"type": "integer"}}
    value = ["x"] * EVENTS
    start = time.perf_counter()
    next(jsonschema_rs.validator_for(schema).iter_errors(value))
    theirs = time.perf_counter() - start
    start = time.perf_counter()
    problems(schema, value)
    ours = time.perf_counter() - start
    print(
        f"the first of {EVENTS:,} errors by jsonschema-rs: {theirs * 1e3:.0f} ms; all by mcpkit: {ours * 1e3:.0f} ms"
    )


async def main() -> None:
    importing()
    await workers("anyio", with_anyio)
    await workers("mcpkit", with_mcpkit())
    framing()
    await streaming()
    explaining()


if __name__ == "__main__":
    asyncio.run(main())
