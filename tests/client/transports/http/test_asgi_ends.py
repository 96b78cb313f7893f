"""What is left of an ASGI app when its client is closed, or gives its requests up: nothing."""

from __future__ import annotations

import asyncio
import gc
import random
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from mcpkit.client.link.errors import TransportError
from mcpkit.client.transports.http import asgi
from mcpkit.client.transports.http.asgi import AsgiTransport
from tests.helpers.asgi_apps import PIECE, body, disconnected, http, start, using
from tests.helpers.raw_client import within
from tests.helpers.waiting import LoopClock

pytestmark = pytest.mark.anyio


def exchanges() -> int:
    gc.collect()
    return sum(type(each) is asgi._Exchange for each in gc.get_objects())


@pytest.mark.slow
async def test_what_an_app_does_after_its_response_is_waited_for_at_the_end() -> None:
    done: list[str] = []
    asked = asyncio.Event()

    async def work() -> None:
        await asked.wait()
        done.append("worked")

    async def page(_: Request) -> PlainTextResponse:
        return PlainTextResponse("text", background=BackgroundTask(work))

    async with using(Starlette(routes=[Route("/", page)])) as client:
        assert (await within(client.get("/"))).text == "text"
        assert done == []
        asyncio.get_running_loop().call_soon(asked.set)
    assert done == ["worked"]


async def test_an_app_that_does_not_end_is_cancelled_at_the_end() -> None:
    ended: list[str] = []

    @http
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(start())
        await send(body(b"first", more=True))
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    clock = LoopClock()
    transport = AsgiTransport(app)
    client = httpx2.AsyncClient(transport=transport)
    async with client.stream("GET", "http://localhost/"):
        pass
    closing = asyncio.ensure_future(client.aclose())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert ended == []
    clock.ahead += asgi._PATIENCE
    await within(closing)
    assert ended == ["cancelled"]


async def test_whoever_waits_while_a_client_is_closed_is_told() -> None:
    waiting, streaming = asyncio.Event(), asyncio.Event()

    @http
    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] == "/stream":
            await send(start())
            await send(body(b"half", more=True))
            streaming.set()
        else:
            waiting.set()
        await disconnected(receive)

    transport = AsgiTransport(app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
        asking = asyncio.ensure_future(client.get("/"))
        reading = asyncio.ensure_future(client.get("/stream"))
        await within(asyncio.gather(waiting.wait(), streaming.wait()))
        await within(transport.aclose())
        with pytest.raises(TransportError, match="closed before the app has answered"):
            await within(asking)
        with pytest.raises(httpx2.ReadError):
            await within(reading)


@pytest.mark.slow
async def test_many_requests_at_once_leave_nothing() -> None:
    async def page(request: Request) -> PlainTextResponse:
        await asyncio.sleep(0)
        return PlainTextResponse(request.url.query)

    before = exchanges()
    async with using(Starlette(routes=[Route("/", page)])) as client:
        answers = await asyncio.gather(*(client.get(f"/?{number}") for number in range(200)))
    assert [answer.text for answer in answers] == [str(number) for number in range(200)]
    del answers
    assert exchanges() == before


@pytest.mark.parametrize("seed", range(20))
async def test_whenever_requests_are_given_up_nothing_is_left(seed: int) -> None:
    chance = random.Random(seed)
    running = 0

    @http
    async def app(scope: Any, receive: Any, send: Any) -> None:
        nonlocal running
        running += 1
        own = random.Random(scope["query_string"])
        try:
            for step in (start(), *(body(PIECE * own.randrange(100), more=True) for _ in range(5)), body()):
                for _ in range(own.randrange(3)):
                    await asyncio.sleep(0)
                if own.random() < 0.03:
                    raise ValueError("no such table")
                await send(step)
        finally:
            running -= 1

    async def ask(number: int) -> None:
        async with client.stream("GET", f"/?{number}") as response:
            async for _ in response.aiter_raw():
                for _ in range(number % 3):
                    await asyncio.sleep(0)

    async with using(app) as client:
        asking = [asyncio.ensure_future(ask(chance.randrange(10_000))) for _ in range(50)]
        while not all(task.done() for task in asking):
            await asyncio.sleep(0)
            if chance.random() < 0.5:
                chance.choice(asking).cancel()
        for task in asking:
            error = None if task.cancelled() else task.exception()
            assert error is None or isinstance(error, (TransportError, httpx2.RemoteProtocolError))
    assert running == 0
