"""Handlers may be `async`: each is awaited, one after the other, and a call returns when all has been told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mcpkit import Client, Context, Server
from mcpkit.client.link.in_turn import MOST_WAITING, InTurn
from tests.helpers.waiting import until

pytestmark = pytest.mark.anyio
server = Server("bakery")


@server.tool
async def bake(ctx: Context) -> str:
    for number in range(3):
        await ctx.progress(number, 3)
        await ctx.info(number)
    return "bread"


def reach(kind: str, tmp_path: Path) -> Any:
    if kind == "in memory":
        return server
    if kind == "over HTTP":
        return server.asgi()
    script = tmp_path / "server.py"
    script.write_text(
        "from mcpkit import Context, Server\n\nserver = Server('bakery')\n\n\n@server.tool\n"
        "async def bake(ctx: Context) -> str:\n    for number in range(3):\n        await ctx.progress(number, 3)\n"
        "        await ctx.info(number)\n    return 'bread'\n\n\nserver.run()\n"
    )
    return script


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize("kind", ["in memory", "over HTTP", "over stdio"])
async def test_a_call_returns_when_all_progress_has_been_told(
    kind: str, revision: str, tmp_path: Path
) -> None:
    told: list[float] = []
    logged: list[int] = []

    async def tell(done: float, total: float | None, message: str | None) -> None:
        for _ in range(5 - int(done)):  # the first takes longest
            await asyncio.sleep(0)
        told.append(done)

    async def log(level: str, data: int, logger: str | None) -> None:
        for _ in range(5 - data):
            await asyncio.sleep(0)
        logged.append(data)

    async with Client(reach(kind, tmp_path), revision=revision, log=log, log_level="info") as client:
        assert (await client.call("bake", progress=tell)).text == "bread"
        assert told == [0, 1, 2]
        await until(lambda: logged == [0, 1, 2])


@pytest.mark.parametrize("turns", [0, 50])
async def test_what_a_handler_raises_ends_its_call(turns: int) -> None:
    async def fail(*_: object) -> None:
        for _ in range(turns):  # more, and the answer is there before
            await asyncio.sleep(0)
        raise RuntimeError("no display")

    async with Client(server) as client:
        with pytest.raises(RuntimeError, match="no display"):
            await client.call("bake", progress=fail)
        assert (await client.call("bake")).text == "bread"


async def test_nothing_is_left_of_handlers_when_a_call_is_given_up_or_the_client_left() -> None:
    before, begun = asyncio.all_tasks(), asyncio.Event()

    async def never(*_: object) -> None:
        begun.set()
        await asyncio.Event().wait()

    async with Client(server, log=never, log_level="info") as client:
        call = asyncio.ensure_future(client.call("bake", progress=never))
        await begun.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    await until(lambda: asyncio.all_tasks() == before)


async def test_of_too_many_that_wait_some_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    go, told = asyncio.Event(), list[int]()

    async def tell(number: int) -> None:
        await go.wait()
        told.append(number)

    turns = InTurn(lambda error: None)
    for number in range(MOST_WAITING + 10):
        turns.call(tell, number)
    go.set()
    await turns.finished()
    assert told == list(range(MOST_WAITING))
    assert caplog.text.count("A handler is too slow") == 1


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"trace": asyncio.sleep},
            TypeError,
            "trace must be a plain function of `sent` or `came`, and a text",
        ),
        (
            {"record": "/no/such/folder/talk.jsonl"},
            FileNotFoundError,
            "there is no folder /no/such/folder to record to",
        ),
    ],
)
def test_what_would_never_be_seen_is_refused(
    options: dict[str, Callable[..., object]], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        Client(server, **options)  # type: ignore[arg-type]
