"""What a call over HTTP has needed is freed with its answer, and is nothing that the garbage collector must find."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from asgi_client import Serve
from mcpkit import Context, Server
from mcpkit.transports.http.answer import Answer
from mcpkit.transports.http.exchange import Exchange

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def uncollected() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.fixture
def server() -> Server:
    server = Server("garbage")

    @server.tool
    async def echo(text: str) -> str:
        return text

    return server


def left() -> list[str]:
    return [type(each).__name__ for each in gc.get_objects() if type(each) in {Exchange, Answer, Context}]


async def test_a_stateless_call_leaves_no_garbage(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        assert (await client.call("echo", {"text": "x"}).whole()).status == 200
        assert left() == []


@pytest.mark.parametrize("stateless", [False, True])
async def test_a_call_of_the_handshake_era_leaves_no_garbage(
    server: Server, serve: Serve, stateless: bool
) -> None:
    async with serve(server, stateless=stateless) as client:
        session = await client.initialize()
        assert await session.text("echo", {"text": "x"}) == "x"
        assert left() == []
