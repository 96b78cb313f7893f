"""What a call over HTTP has needed is freed with its answer, and is nothing that the garbage collector must find."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from mcpkit import Context, Server
from mcpkit.transports.http.exchange import Exchange
from mcpkit.transports.http.sessions.response import Answer
from tests.helpers.asgi_client import Serve

pytestmark = [pytest.mark.anyio, pytest.mark.long]


@pytest.fixture
def before() -> Iterator[list[object]]:
    """What earlier tests have kept; the garbage collector rests meanwhile."""
    gc.collect()
    gc.disable()
    yield of_calls()
    gc.enable()


@pytest.fixture
def server() -> Server:
    server = Server("garbage")

    @server.tool
    async def echo(text: str) -> str:
        return text

    return server


def of_calls() -> list[object]:
    return [each for each in gc.get_objects() if type(each) in {Exchange, Answer, Context}]


def left(before: list[object]) -> list[str]:
    return [type(each).__name__ for each in of_calls() if not any(each is other for other in before)]


async def test_a_stateless_call_leaves_no_garbage(server: Server, serve: Serve, before: list[object]) -> None:
    async with serve(server) as client:
        assert (await client.call("echo", {"text": "x"}).whole()).status == 200
        assert left(before) == []


@pytest.mark.parametrize("stateless", [False, True])
async def test_a_call_of_the_handshake_era_leaves_no_garbage(
    server: Server, serve: Serve, stateless: bool, before: list[object]
) -> None:
    async with serve(server, stateless=stateless) as client:
        session = await client.initialize()
        assert await session.text("echo", {"text": "x"}) == "x"
        assert left(before) == []
