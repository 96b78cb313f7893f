"""HTTP endpoints, also outside the mount, and a hook that answers 401 and 403 with a challenge."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPResponse
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route

from mcpkit import ProtocolError
from mcpkit.testing import connect
from tests.helpers.pipe import stateless_meta
from tests.helpers.serving import in_thread


class Web:
    """Clients of the toy, which is mounted at /api of another app."""

    def __init__(self, url: str) -> None:
        self.address = url.removeprefix("http://")

    def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[HTTPResponse, bytes]:
        connection = HTTPConnection(self.address, timeout=10)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body, named)
        response = connection.getresponse()
        data = response.read()
        connection.close()
        return response, data

    def erase(self, token: str | None, **arguments: Any) -> tuple[HTTPResponse, bytes]:
        params = {
            "name": "erase",
            "arguments": arguments,
            "_meta": stateless_meta() | {"progressToken": "p"},
        }
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
        headers = {
            "content_type": "application/json",
            "accept": "application/json, text/event-stream",
            "mcp_protocol_version": "2026-07-28",
            "mcp_method": "tools/call",
            "mcp_name": "erase",
        }
        if token is not None:
            headers["authorization"] = f"Bearer {token}"
        return self.ask("POST", "/api/mcp", body, **headers)


@pytest.fixture(scope="module")
def web() -> Iterator[Web]:
    from tests.wings.gate import build

    app = build().asgi()
    site = Starlette(routes=[Mount("/api", app), Route("/", lambda request: PlainTextResponse("home"))])
    with in_thread(app.around(site)) as url:
        yield Web(url)


@pytest.fixture(scope="module")
def gated() -> Iterator[Web]:
    from tests.wings.gate import build, who

    app = build().asgi(principal=who)
    site = Starlette(routes=[Mount("/api", app), Route("/", lambda request: PlainTextResponse("home"))])
    with in_thread(app.around(site)) as url:
        yield Web(url)


def test_a_well_known_place_is_served_outside_the_mount(web: Web) -> None:
    response, body = web.ask("GET", "/.well-known/oauth-protected-resource/api/mcp")
    assert (response.status, json.loads(body)) == (200, {"resource": "https://example.com/api/mcp"})
    assert web.ask("GET", "/api/.well-known/oauth-protected-resource/api/mcp")[0].status == 404
    assert web.ask("GET", "/")[1] == b"home"
    refused, _ = web.ask("GET", "/.well-known/oauth-protected-resource/api/mcp", host="evil.example")
    assert refused.status == 421 or refused.status == 403  # the guard stands before it, too


@pytest.mark.parametrize(
    ("token", "status", "challenge"),
    [
        (None, 401, 'Bearer resource_metadata="/.well-known/oauth-protected-resource/api/mcp"'),
        ("stolen", 401, 'Bearer error="invalid_token"'),
        ("low", 403, 'Bearer error="insufficient_scope", scope="read write"'),
        ("high", 200, None),
    ],
)
def test_a_request_is_challenged(gated: Web, token: str | None, status: int, challenge: str | None) -> None:
    response, body = gated.erase(token)
    assert response.status == status
    assert response.headers["www-authenticate"] == challenge
    if status == 403:  # the handler had begun: the answer is one to its request
        assert json.loads(body)["id"] == 1
        assert "error" in json.loads(body)


def test_the_metadata_are_there_for_everybody(gated: Web) -> None:
    assert gated.ask("GET", "/.well-known/oauth-protected-resource/api/mcp")[0].status == 200


def test_what_has_been_sent_is_not_taken_back(gated: Web) -> None:
    response, body = gated.erase("low", report=True)
    assert response.status == 200
    assert response.headers["content-type"].startswith("text/event-stream")
    events = [json.loads(line[6:]) for line in body.splitlines() if line.startswith(b"data: ")]
    assert [event.get("method") for event in events] == ["notifications/progress", None]
    assert "error" in events[-1]


async def challenged() -> None:
    from tests.wings.gate import build

    async with connect(build()) as client:
        with pytest.raises(ProtocolError, match="insufficient_scope"):
            await client.call("erase")


@pytest.mark.anyio
async def test_where_there_is_no_status_a_challenge_is_an_error_of_the_protocol() -> None:
    await challenged()
