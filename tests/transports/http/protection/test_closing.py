"""What a verifier keeps open in an event loop ends with the server there."""

from __future__ import annotations

import asyncio
import logging

import pytest

from mcpkit import Principal, Server
from mcpkit.auth import Grant, Introspection, TokenVerifier
from tests.helpers.asgi_client import Serve, initialize
from tests.helpers.fake_idp import INTROSPECTION, serve_keys

pytestmark = pytest.mark.anyio

URL = "https://mcp.example.com/mcp"


class Closing(TokenVerifier):
    """Keeps in mind which event loops it was closed in."""

    def __init__(self, problem: Exception | None = None) -> None:
        self.closed: list[asyncio.AbstractEventLoop] = []
        self._problem = problem

    async def verify(self, token: str, audience: str) -> Grant:
        return Grant(Principal(token))

    async def aclose(self) -> None:
        self.closed.append(asyncio.get_running_loop())
        if self._problem is not None:
            raise self._problem


async def test_it_is_closed_in_the_event_loop_of_the_server(serve: Serve) -> None:
    verifier = Closing()
    async with serve(Server("notes", auth=verifier)) as client:
        answer = await client.post(initialize(), {"authorization": "Bearer ada"}).whole()
        assert (answer.status, verifier.closed) == (200, [])

    assert verifier.closed == [asyncio.get_running_loop()]


async def test_one_that_cannot_be_closed_keeps_no_server_from_ending(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR, "mcpkit"):
        async with serve(Server("notes", auth=Closing(OSError("no")))):
            pass

    assert "what verifies access tokens could not be closed" in caplog.text


async def test_connections_to_an_issuer_are_closed(serve: Serve) -> None:
    with serve_keys() as provider:
        provider.tokens["ada"] = {"active": True, "sub": "ada", "aud": URL}
        where = provider.url + INTROSPECTION
        verifier = Introspection(provider.url, client_id="a", client_secret="b", endpoint=where)
        async with serve(Server("notes", auth=verifier)) as client:
            answer = await client.post(initialize(), {"authorization": "Bearer ada"}).whole()
            assert (answer.status, len(verifier.connections.open_clients)) == (200, 1)

        assert not verifier.connections.open_clients
