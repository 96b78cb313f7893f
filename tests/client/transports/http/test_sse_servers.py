"""The transport of 2024-11-05 against servers at a port: mcpkit's own and the official one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.responses import PlainTextResponse

from mcpkit.client.client import Client
from mcpkit.client.link.errors import OutcomeUnknownError
from mcpkit.client.transports.http.sse import SseTransport
from tests.helpers.official_server import official_server
from tests.helpers.raw_client import within
from tests.helpers.serving import in_thread
from tests.helpers.toured import REVISIONS, Toured, tour
from tests.helpers.waiting import until

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_server_at_a_port_is_used(revision: str) -> None:
    with in_thread(Toured().server.asgi(grace=0)) as url:
        await tour(SseTransport(f"{url}/sse"), revision)


@pytest.mark.parametrize("revision", REVISIONS)
async def test_the_official_server_is_used(revision: str) -> None:
    with in_thread(official_server().sse_app()) as url:
        async with Client(SseTransport(f"{url}/sse"), revision=revision) as client:
            assert (await client.call("add", {"a": 1, "b": 2})).text == "3"


class Broken:
    """An app whose transport of 2024-11-05 breaks when it is told to.

    Attributes:
        fault: What happens to the next call: `forgotten`, its session is; `cut`, the stream ends before the answer;
            `refused`, it is not taken.
        calls: How many calls have come.
    """

    def __init__(self, app: Any) -> None:
        self.fault = ""
        self.calls = 0
        self._app = app
        self._cut = asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["method"] == "GET":
            serving = asyncio.ensure_future(self._app(scope, receive, send))
            cut = asyncio.ensure_future(self._cut.wait())
            await asyncio.wait((serving, cut), return_when=asyncio.FIRST_COMPLETED)
            serving.cancel()
            cut.cancel()
            await asyncio.wait((serving, cut))
            return
        message = await receive()
        fault = ""
        if b"tools/call" in message["body"]:
            self.calls += 1
            fault, self.fault = self.fault, ""
        if fault == "forgotten":
            await PlainTextResponse("Could not find session", 404)(scope, receive, send)
        elif fault == "refused":
            await PlainTextResponse("Come back", 429)(scope, receive, send)
        elif fault == "cut":
            self._cut.set()
            await asyncio.sleep(0)
            self._cut.clear()
            await PlainTextResponse("Accepted", 202)(scope, receive, send)
        else:

            async def again() -> Any:
                return message

            await self._app(scope, again, send)


async def test_calls_that_never_began_are_made_again() -> None:
    app = Broken(Toured().server.asgi(grace=0))
    async with Client(SseTransport("http://127.0.0.1:8000/sse", app=app)) as client:
        for number, app.fault in enumerate(("forgotten", "refused", "")):
            assert (await within(client.call("add", {"a": 1, "b": number}))).text == str(1 + number)
    assert app.calls == 5


async def test_a_call_of_unknown_fate_is_not_made_again() -> None:
    app = Broken(Toured().server.asgi(grace=0))
    async with Client(SseTransport("http://127.0.0.1:8000/sse", app=app)) as client:
        app.fault = "cut"
        with pytest.raises(OutcomeUnknownError):
            await within(client.call("add", {"a": 1, "b": 2}))
        assert app.calls == 1
        app.fault = "cut"
        assert (await within(client.call("add", {"a": 1, "b": 2}, retry=True))).text == "3"
        assert app.calls == 3


async def test_a_session_whose_stream_has_ended_is_opened_again() -> None:
    toured = Toured()
    app = toured.server.asgi(grace=0)
    with in_thread(app) as url:
        async with Client(SseTransport(f"{url}/sse")) as client:
            assert (await client.call("add", {"a": 1, "b": 2})).text == "3"
            pipes = next(iter(app.door()._services.values())).pipes
            (pipe,) = pipes.values()
            loop = pipe._environment.loop
            loop.call_soon_threadsafe(pipe._exchange.finish)
            await until(lambda: not client._link.is_open)
            assert (await within(client.call("add", {"a": 1, "b": 3}))).text == "4"
