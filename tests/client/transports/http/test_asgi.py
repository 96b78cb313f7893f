"""An ASGI app as the server at the other end of HTTP: requests, responses part by part, and their ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.routing import Route

from mcpkit.client.link.errors import TransportError
from tests.helpers.asgi_apps import PIECE, body, disconnected, http, start, using
from tests.helpers.raw_client import within
from tests.helpers.waiting import until

pytestmark = pytest.mark.anyio


async def test_an_app_is_asked_as_its_server_would() -> None:
    seen: list[dict[str, Any]] = []

    @http
    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.extend((scope, await receive()))
        await send(start(201, (b"x-answer", b"1"), (b"set-cookie", b"a=1"), (b"set-cookie", b"b=2")))
        await send(body(b"made"))

    async with using(app) as client:
        response = await client.post("/a%20b/c?d=e&f", content=b"sent", headers={"X-Own": "1"})
    assert (response.status_code, response.content, response.headers["x-answer"]) == (201, b"made", "1")
    assert response.headers.get_list("set-cookie") == ["a=1", "b=2"]
    scope, message = seen
    headers = dict(scope.pop("headers"))
    assert (headers[b"host"], headers[b"x-own"]) == (b"localhost:8000", b"1")
    assert message == {"type": "http.request", "body": b"sent", "more_body": False}
    assert scope == {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": "/a b/c",
        "raw_path": b"/a%20b/c",
        "query_string": b"d=e&f",
        "root_path": "",
        "client": ("127.0.0.1", 0),
        "server": ("localhost", 8000),
        "state": {},
    }


async def test_each_part_is_there_when_the_app_sends_it() -> None:
    asked = asyncio.Queue[bytes]()

    @http
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(start())
        while part := await asked.get():
            await send(body(part, more=True))
        await send(body())

    async with using(app) as client, client.stream("GET", "/") as response:
        assert response.status_code == 200
        parts = response.aiter_raw()
        for part in (b"first", b"second"):
            asked.put_nowait(part)
            assert await within(anext(parts)) == part
        asked.put_nowait(b"")
        assert [part async for part in parts] == []


async def test_an_app_waits_for_its_reader() -> None:
    sent = 0

    @http
    async def app(scope: Any, receive: Any, send: Any) -> None:
        nonlocal sent
        await send(start())
        while sent < 1000:
            await send(body(PIECE, more=True))
            sent += 1
        await send(body())

    async with using(app) as client, client.stream("GET", "/") as response:
        parts = response.aiter_raw()
        await anext(parts)
        for _ in range(10):
            await asyncio.sleep(0)
        assert sent <= 66
        read = len(PIECE)
        async for part in parts:
            read += len(part)
            assert sent * len(PIECE) - read <= 66 * len(PIECE)
        assert (sent, read) == (1000, 1000 * len(PIECE))


async def test_an_app_hears_that_a_response_is_closed() -> None:
    ended: list[str] = []

    @http
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(start())
        await send(body(b"first", more=True))
        await disconnected(receive)
        ended.append("heard")
        with pytest.raises(ConnectionResetError):
            await send(body(b"second", more=True))
        ended.append("refused")

    async with using(app) as client:
        async with client.stream("GET", "/") as response:
            assert await anext(response.aiter_raw()) == b"first"
        await until(lambda: ended == ["heard", "refused"])


async def test_an_app_hears_that_nobody_waits_for_its_answer_any_more() -> None:
    waiting, heard = asyncio.Event(), asyncio.Event()

    @http
    async def app(scope: Any, receive: Any, send: Any) -> None:
        waiting.set()
        await disconnected(receive)
        heard.set()

    async with using(app) as client:
        asking = asyncio.ensure_future(client.get("/"))
        await within(waiting.wait())
        asking.cancel()
        await within(heard.wait())
        with pytest.raises(asyncio.CancelledError):
            await asking


async def test_an_answer_that_comes_while_its_reader_is_cancelled_is_refused() -> None:
    waiting, asked = asyncio.Event(), asyncio.Event()
    refusals: list[type[Exception]] = []

    @http
    async def app(scope: Any, receive: Any, send: Any) -> None:
        waiting.set()
        await asked.wait()
        try:
            await send(start())
        except ConnectionResetError as error:
            refusals.append(type(error))

    async with using(app) as client:
        asking = asyncio.ensure_future(client.get("/"))
        await within(waiting.wait())
        asked.set()  # the app is the next to run, before whoever is cancelled
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await until(lambda: refusals)
    assert refusals == [ConnectionResetError]


async def test_an_app_that_waits_for_its_reader_goes_on_when_that_has_gone() -> None:
    async def numbers() -> AsyncIterator[bytes]:
        while True:
            yield PIECE

    async def stream(request: Request) -> StreamingResponse:
        task = asyncio.current_task()
        assert task is not None
        task.add_done_callback(lambda _: over.set())
        return StreamingResponse(numbers())

    over = asyncio.Event()
    async with using(Starlette(routes=[Route("/", stream)])) as client:
        async with client.stream("GET", "/") as response:
            await anext(response.aiter_raw())
        await within(over.wait())


async def test_an_app_hears_of_the_end_of_its_own_response() -> None:
    heard = asyncio.Event()

    @http
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(start())
        await send(body(b"all"))
        await disconnected(receive)
        heard.set()

    async with using(app) as client:
        assert (await client.get("/")).content == b"all"
        await within(heard.wait())


async def test_a_response_to_head_has_no_body() -> None:
    async def page(_: Request) -> PlainTextResponse:
        return PlainTextResponse("text")

    async with using(Starlette(routes=[Route("/", page)])) as client:
        response = await client.head("/")
    assert (response.content, response.headers["content-length"]) == (b"", "4")


async def test_an_exception_before_the_response_is_told_with_its_cause() -> None:
    @http
    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise ValueError("no such table")

    async with using(app) as client:
        with pytest.raises(TransportError) as told:
            await client.get("/")
    assert str(told.value) == "the app has raised ValueError: no such table, without a response"
    assert isinstance(told.value.__cause__, ValueError)
    assert told.value.may_have_begun


async def test_an_app_that_returns_without_a_response_is_told() -> None:
    @http
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()

    async with using(app) as client:
        with pytest.raises(TransportError, match=r"^the app has returned without a response$"):
            await client.get("/")


@pytest.mark.parametrize("error", [ValueError("no such table"), asyncio.CancelledError(), None])
async def test_an_app_that_ends_within_its_response_breaks_it_off(error: BaseException | None) -> None:
    @http
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(start())
        await send(body(b"half", more=True))
        if error is not None:
            raise error

    async with using(app) as client, client.stream("GET", "/") as response:
        parts = response.aiter_raw()
        assert await anext(parts) == b"half"
        with pytest.raises(httpx2.RemoteProtocolError, match="in the middle of its response"):
            await anext(parts)


@pytest.mark.parametrize(
    "messages",
    [
        (body(b"no start"),),
        (start(), start()),
        (start(), body(b"all"), body(b"more")),
        ({"type": "websocket.accept"},),
    ],
)
async def test_what_is_no_response_is_refused_to_the_app(messages: tuple[dict[str, Any], ...]) -> None:
    refused = asyncio.Event()

    @http
    async def app(scope: Any, receive: Any, send: Any) -> None:
        for message in messages[:-1]:
            await send(message)
        with pytest.raises(RuntimeError, match="may not be sent here"):
            await send(messages[-1])
        refused.set()
        if messages[0]["type"] != "http.response.start":
            await send(start())
        if len(messages) < 3:
            await send(body())

    async with using(app) as client:
        assert (await client.get("/")).status_code == 200
        await within(refused.wait())


async def test_an_exception_after_the_response_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def fail(_: Request) -> None:
        raise ValueError("no such table")

    async with using(Starlette(routes=[Route("/", fail)])) as client:
        response = await client.get("/")
    assert response.status_code == 500
    (record,) = [each for each in caplog.records if each.name == "mcpkit"]
    assert record.levelno == logging.ERROR
    assert record.exc_info is not None
    assert str(record.exc_info[1]) == "no such table"


async def test_an_exception_after_the_client_has_gone_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    over = asyncio.Event()

    @http
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(start())
        try:
            while True:
                await send(body(PIECE, more=True))
        finally:
            over.set()

    async with using(app) as client:
        async with client.stream("GET", "/"):
            pass
        await within(over.wait())
    assert [each for each in caplog.records if each.levelno > logging.DEBUG and each.name == "mcpkit"] == []
