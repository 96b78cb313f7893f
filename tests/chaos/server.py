"""The server of the cluster: tools that write what they do to a ledger.

Environment variables:
    REDIS_URL: The Redis.
    FOLDER: The folder of the files that clients subscribe to.
    LEDGER: The ledger of the tools.
    LEASE: The lease of tasks in seconds.
"""

import asyncio
import os
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from mcpkit import Context, HttpOptions, Server, Task, TaskOptions
from mcpkit.storage import Redis
from tests.chaos.cluster import EventLog

FOLDER = Path(os.environ["FOLDER"])
effects = EventLog(Path(os.environ["LEDGER"]))


@asynccontextmanager
async def lifespan(_: Server) -> AsyncGenerator[None]:
    EventLog(FOLDER / "starts.jsonl").write("start", pid=os.getpid())
    yield


server = Server(
    "cluster",
    secret_key="a secret of the cluster",
    storage=Redis(os.environ["REDIS_URL"]),
    tasks=TaskOptions(
        by="workers",
        slots=8,
        lease=float(os.environ.get("LEASE", "2")),
        max_open_per_owner=100_000,
        max_open=100_000,
    ),
    lifespan=lifespan,
)


def write(what: str, ctx: Context, **more: object) -> None:
    effects.write(what, call=ctx.idempotency_key, attempt=ctx.task.attempt, pid=os.getpid(), **more)


def done(key: str, ctx: Context) -> dict[str, object]:
    return {"key": key, "attempt": ctx.task.attempt, "pid": os.getpid(), "unique": os.urandom(8).hex()}


# Long work


@server.tool(task=Task(rerun="safe", attempts=20))
async def works(key: str, seconds: float, ctx: Context) -> dict[str, object]:
    write("effect", ctx, key=key)
    await asyncio.sleep(seconds)
    return done(key, ctx)


@server.tool(task=Task(rerun="safe", attempts=20))
def works_in_thread(key: str, seconds: float, ctx: Context) -> dict[str, object]:
    write("effect", ctx, key=key)
    time.sleep(seconds)
    return done(key, ctx)


server.tool(works, name="risks", task=Task(rerun="never"))


@server.tool(task=Task(rerun="never"))
async def risks_and_asks(key: str, seconds: float, ctx: Context) -> dict[str, object]:
    write("effect", ctx, key=key)
    await asyncio.sleep(seconds)
    answer = await ctx.elicit("Go on?", bool)
    return {"key": key, "answer": answer.value}


@server.tool(task=Task(rerun="safe", attempts=20))
async def steps(key: str, seconds: float, ctx: Context) -> dict[str, object]:
    values = []
    for name in ("fit", "check", "publish"):
        value = await ctx.once(name, partial(step, name, key, ctx))
        write("once", ctx, key=key, name=name, value=value)
        values.append(value)
        await ctx.report_progress(len(values), 3, name)
        await asyncio.sleep(seconds / 3)
        if name == "fit":
            answer = await ctx.elicit("Go on?", bool)
            write("answered", ctx, key=key, value=answer.value)
    return {"key": key, "values": values}


def step(name: str, key: str, ctx: Context) -> str:
    value = os.urandom(8).hex()
    write("ran", ctx, key=key, name=name, value=value)
    return value


@server.tool(task=Task(rerun="safe", attempts=20))
async def waits(key: str, ctx: Context) -> dict[str, object]:
    write("effect", ctx, key=key)
    try:
        while not (FOLDER / f"go-{key}-{ctx.task.attempt}").exists():
            await asyncio.sleep(0.01)
    except asyncio.CancelledError:
        write("was cancelled", ctx, key=key)
        raise
    write("went on", ctx, key=key)
    return done(key, ctx)


# Plain calls


@server.tool(annotations={"readOnlyHint": True})
async def echo(value: str) -> str:
    return f"{value} by {os.getpid()}"


# Things that change


@server.tool
async def touch(name: str) -> int:
    with (FOLDER / f"thing-{name}").open("ab") as file:
        file.write(b".")
        file.flush()
        version = file.tell()
    server.notify_resource_updated(f"thing://{name}")
    return version


@server.resource("thing://{name}")
async def thing(name: str) -> str:
    file = FOLDER / f"thing-{name}"
    return str(file.stat().st_size if file.exists() else 0)


app = server.asgi(http=HttpOptions(readiness_path="/health"))
