"""Whatever comes over HTTP is answered or refused: no status from 500 up, no hanging, and the next request is served.

The same random requests go to the app itself, and as bytes to uvicorn with either of its parsers.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from typing import Annotated

import h11
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcpkit import Context, Header, Server, ToolError
from tests.helpers.edge.messages import Request, Response, find
from tests.helpers.edge.mistakes import requests
from tests.helpers.edge.ways import App, Edge, Uvicorn

pytestmark = pytest.mark.long

BODY_TIMEOUT = 0.2
MAX_BODY = 4_000
EXAMPLES = int(os.environ.get("MCPKIT_EDGE_EXAMPLES", "60"))


def make_server() -> Server:
    server = Server("edge")

    @server.tool
    async def echo(text: str, region: Annotated[str, Header("Region")] = "") -> str:
        return text + region

    @server.tool
    def block(count: int = 1) -> list[int]:
        return list(range(min(count, 10)))

    @server.tool
    async def report(ctx: Context) -> str:
        await ctx.progress(1, 2)
        await ctx.log("warning", "halfway")
        return "reported"

    @server.tool
    async def close(ctx: Context) -> str:
        await ctx.progress(1, 2)
        await ctx.close_stream()
        return "closed"

    @server.tool
    async def fail() -> None:
        raise ToolError("as it should")

    @server.tool(requires="sampling")
    async def ask() -> None: ...

    @server.resource("edge://fixed")
    async def fixed() -> str:
        return "fixed"

    @server.resource("edge://{name}")
    async def templated(name: str) -> str:
        return name

    @server.prompt(complete={"city": ["Bern", "Basel"]})
    async def plan(city: str) -> str:
        return city

    return server


@pytest.fixture(scope="module", params=["app", "h11", "httptools"])
def edge(request: pytest.FixtureRequest) -> Iterator[Edge]:
    app = make_server().asgi(body_timeout=BODY_TIMEOUT, max_body=MAX_BODY, health="/health", keep_alive=0.5)
    edge: Edge = App(app) if request.param == "app" else Uvicorn(app, request.param)
    yield edge
    edge.close()


@pytest.fixture(autouse=True)
def _no_error_is_logged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """What an exception in the app becomes, whatever the client saw."""
    caplog.set_level(logging.ERROR)
    yield
    errors = [record for record in caplog.get_records("call") if not is_of_the_parser(record)]
    assert errors == []


def is_of_the_parser(record: logging.LogRecord) -> bool:
    """Tell of h11's own state: uvicorn has answered what is no HTTP while the app was at it."""
    return record.exc_info is not None and isinstance(record.exc_info[1], h11.LocalProtocolError)


def answer(edge: Edge, request: Request) -> Response:
    response = edge.send(request)
    assert response is not None
    return response


def open_session(edge: Edge) -> bytes:
    response = answer(edge, find('"initialize"'))
    assert response.status == 200
    return response.headers[b"mcp-session-id"]


def check_it_still_serves(edge: Edge, session: bytes | None) -> None:
    """Serve a client of each era."""
    response = answer(edge, find('"count": 3'))
    assert (response.status, response.messages[0]["result"]["structuredContent"]) == (
        200,
        [0, 1, 2],
    )
    if session is not None:
        response = answer(edge, find('"tools/call", "params": {"name": "echo"').of(session))
        assert response.status in {200, 404}
    session = open_session(edge)
    response = answer(edge, find("'mcp-session-id'").of(session))
    assert response.status == 202


def check(response: Response | None, request: Request) -> None:
    if response is None:
        assert request.body in {"garbled", "cut", "vanished"}, "the connection ended without an answer"
        return
    assert response.status < 500, response
    assert b"Internal error" not in response.body
    assert b"Traceback" not in response.body
    for message in response.messages if "mcp" in request.target else []:
        for each in message if isinstance(message, list) else [message]:
            assert each["jsonrpc"] == "2.0"


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(mixed=st.lists(requests(), min_size=1, max_size=3))
def test_no_request_breaks_it(edge: Edge, mixed: list[Request]) -> None:
    session = open_session(edge)
    for request in mixed:
        sent = request.of(session)
        check(edge.send(sent), sent)
    check_it_still_serves(edge, session)
