"""The server of the cluster: tools that write down what they do, and one of each kind of request.

REDIS_URL  the Redis
FOLDER     where the things are that clients subscribe to
LEDGER     where the tools write down what they do
LEASE      seconds of a lease
CONTROL    which guarantee of the engine is taken away: `cluster.controls` says which there are
VERSION    "2" is a later version of the author's: one tool takes more, and there is one more
ALONE      set where it shares nothing with anybody
BURST      how many calls of `limited` there may be
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Annotated

from mcpkit import Complete, Context, Provider, Server, Task, Tasks
from mcpkit.middlewares import RateLimit
from tests.helpers.cluster.controls import engine
from tests.helpers.cluster.ledger import Ledger

FOLDER = Path(os.environ["FOLDER"])
VERSION = os.environ.get("VERSION", "1")
effects = Ledger(Path(os.environ["LEDGER"]))


@asynccontextmanager
async def lifespan(_: Server) -> AsyncGenerator[None]:
    Ledger(FOLDER / "up.jsonl").write("up", pid=os.getpid())
    yield


server = Server(
    "cluster",
    version=VERSION,
    secret="a secret of the cluster's own",
    shared=None if "ALONE" in os.environ else engine(os.environ["REDIS_URL"], os.environ.get("CONTROL", "")),
    tasks=Tasks(
        by="replicas" if "ALONE" in os.environ else "workers",
        slots=8,
        lease=float(os.environ.get("LEASE", "2")),
        per_owner=100_000,
        most=100_000,
    ),
    lifespan=lifespan,
)


def write(what: str, ctx: Context, **more: object) -> None:
    """Write down what is done now, for which call and in which attempt."""
    effects.write(what, call=ctx.call_id, attempt=ctx.attempt, pid=os.getpid(), **more)


# Long work


@server.tool(task=Task(rerun="safe", attempts=20))
async def works(key: str, seconds: float, ctx: Context) -> dict[str, object]:
    """Work for a while; it may be begun again."""
    write("effect", ctx, key=key)
    await asyncio.sleep(seconds)
    return {"key": key, "attempt": ctx.attempt, "pid": os.getpid(), "unique": os.urandom(8).hex()}


@server.tool(task=Task(rerun="safe", attempts=20))
def works_in_thread(key: str, seconds: float, ctx: Context) -> dict[str, object]:
    """Work for a while in a thread."""
    write("effect", ctx, key=key)
    time.sleep(seconds)
    return {"key": key, "attempt": ctx.attempt, "pid": os.getpid(), "unique": os.urandom(8).hex()}


@server.tool(task=Task(rerun="never"))
async def risks(key: str, seconds: float, ctx: Context) -> dict[str, object]:
    """Do what must not be done twice."""
    write("effect", ctx, key=key)
    await asyncio.sleep(seconds)
    return {"key": key, "attempt": ctx.attempt}


@server.tool(task=Task(rerun="never"))
async def risks_and_asks(key: str, seconds: float, ctx: Context) -> dict[str, object]:
    """Do what must not be done twice, and then ask."""
    write("effect", ctx, key=key)
    await asyncio.sleep(seconds)
    answer = await ctx.elicit("Go on?", bool)
    return {"key": key, "answer": answer.value}


@server.tool(task=Task(rerun="safe", attempts=20))
async def steps(key: str, seconds: float, ctx: Context) -> dict[str, object]:
    """Do three things, each once, and ask between them."""
    values = []
    for name in ("fit", "check", "publish"):
        value = await ctx.once(name, partial(step, name, key, ctx))
        write("once", ctx, key=key, name=name, value=value)
        values.append(value)
        await ctx.progress(len(values), 3, name)
        await asyncio.sleep(seconds / 3)
        if name == "fit":
            answer = await ctx.elicit("Go on?", bool)
            write("answered", ctx, key=key, value=answer.value)
    return {"key": key, "values": values}


def step(name: str, key: str, ctx: Context) -> str:
    """Do one of them; the value tells this time from others."""
    value = os.urandom(8).hex()
    write("ran", ctx, key=key, name=name, value=value)
    return value


@server.tool(task=Task(rerun="safe", attempts=20))
async def waits(key: str, ctx: Context) -> dict[str, object]:
    """Wait until this attempt may go on, and be done."""
    return await wait(key, ctx)


@server.tool(task=Task(rerun="never"))
async def waits_once(key: str, ctx: Context) -> dict[str, object]:
    """Wait alike, but never a second time."""
    return await wait(key, ctx)


async def wait(key: str, ctx: Context) -> dict[str, object]:
    write("effect", ctx, key=key)
    try:
        while not (FOLDER / f"go-{key}-{ctx.attempt}").exists():
            await asyncio.sleep(0.01)
    except asyncio.CancelledError:
        write("was cancelled", ctx, key=key)
        raise
    write("went on", ctx, key=key)
    return {"key": key, "attempt": ctx.attempt, "pid": os.getpid()}


# Plain calls


@server.tool(annotations={"readOnlyHint": True})
async def echo(value: str) -> str:
    return f"{value} by {os.getpid()}"


@server.tool
async def clock() -> str:
    return str(time.time())


@server.tool
async def asks(ctx: Context) -> str:
    answer = await ctx.elicit("Which?", str)
    return f"{answer.value} by {os.getpid()}"


@server.tool(single_use=True)
async def draws(key: str, ctx: Context) -> str:
    answer = await ctx.elicit("Which?", str)
    effects.write("drawn", key=key, pid=os.getpid())
    return f"{answer.value} by {os.getpid()}"


@server.tool
async def speaks(ctx: Context) -> str:
    await ctx.log("info", "quietly")
    await ctx.log("error", "loudly")
    return str(os.getpid())


@server.tool
async def reports(key: str, ctx: Context) -> str:
    """Report, and end when there is a file of this name."""
    await ctx.progress(1, 2, "half")
    try:
        while not (FOLDER / f"go-{key}").exists():
            await asyncio.sleep(0.01)
    except asyncio.CancelledError:
        effects.write("cancelled", key=key)
        raise
    effects.write("reported", key=key)
    return str(os.getpid())


@server.tool
async def limited(key: str) -> str:
    effects.write("let in", key=key, pid=os.getpid())
    return "let in"


if "BURST" in os.environ:
    server.middleware(RateLimit(0.001, burst=int(os.environ["BURST"]), key=lambda ctx: "everybody"))


# Things that change


@server.tool
async def touch(name: str) -> int:
    """Change a thing, and tell of it; its version is how often it was changed."""
    with (FOLDER / f"thing-{name}").open("ab") as file:
        file.write(b".")
        file.flush()
        version = file.tell()
    server.resource_updated(f"thing://{name}")
    return version


class Nothing(Provider):
    """Has no tools, and tells that these have changed."""

    kinds = frozenset({"tools"})


nothing = Nothing()
server.include(nothing)


@server.tool
async def change_list() -> str:
    """Tell that there are other tools."""
    nothing.changed("tools")
    return str(os.getpid())


@server.resource("thing://{name}")
async def thing(name: str) -> str:
    file = FOLDER / f"thing-{name}"
    return str(file.stat().st_size if file.exists() else 0)


def names(typed: str) -> list[str]:
    return [each for each in ("Ada", "Grace") if each.lower().startswith(typed)]


@server.prompt
async def greet(name: Annotated[str, Complete(names)]) -> str:
    return f"Greet {name}"


if VERSION == "2":

    @server.tool(task=Task(rerun="safe", attempts=20))
    async def works_more(key: str, seconds: float, times: int, ctx: Context) -> dict[str, object]:
        write("effect", ctx, key=key)
        await asyncio.sleep(seconds * times)
        return {"key": key, "attempt": ctx.attempt}


app = server.asgi(health="/health")
