"""What an operator is told at the start of a protected server."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from mcpkit import Server
from mcpkit.auth import OAuthProxy, StaticTokens, Upstream
from tests.helpers.asgi_client import Client, Serve
from tests.helpers.serving import ROOT, Served
from tests.helpers.verified import ISSUER, Table

pytestmark = pytest.mark.anyio

URL = "https://mcp.example.com/mcp"


@pytest.fixture
def said(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], list[tuple[str, str]]]:
    """Returns what was logged at the start, and at which level."""
    uvicorn = logging.getLogger(
        "uvicorn"
    )  # as a test before this one may have left it, or pytest has set it up
    monkeypatch.setattr(uvicorn, "handlers", [])
    monkeypatch.setattr(uvicorn, "propagate", True)
    names = ("mcpkit", "uvicorn.error")
    for name in names:
        caplog.set_level(logging.INFO, name)
    return lambda: [(each.levelname, each.getMessage()) for each in caplog.records if each.name in names]


async def test_it_says_once_whose_tokens_are_taken_where(
    server: Server, serve: Serve, said: Callable[[], Any]
) -> None:
    async with serve(server) as client:
        for _ in range(3):
            await client.call("whoami").whole()
    where = "https://mcp.example.com/mcp, https://mcp.example.com/sse"
    assert said() == [("INFO", f"Access tokens of {ISSUER} are taken at {where}")]


async def test_what_verifiers_say_of_themselves_is_told(said: Callable[[], Any], schema_dir: Path) -> None:
    proxy = OAuthProxy(Upstream.github("id", "the secret of the app"), allow=lambda who: True)
    server = Server("notes", auth=[proxy, StaticTokens({StaticTokens.make()[1]: "backup"})])
    client = Client(server.asgi(public_url=URL), schema_dir)
    await client.open("POST").whole()
    await client.aclose()
    callback = "https://mcp.example.com/callback"
    told = f"notes: users log in with GitHub, where the callback {callback} has to be registered"
    assert ("INFO", told) in said()


async def test_routes_and_apps_that_are_open_are_listed(
    server: Server, schema_dir: Path, said: Callable[[], Any]
) -> None:
    def answer(request: Request) -> Response:
        return PlainTextResponse("x")

    server.route("/open")(answer)
    server.route("/hook", methods=["POST"])(answer)
    server.route("/mine", scopes=())(answer)
    app = server.asgi(public_url=URL, sse=False, health="/health", allowed_hosts=["localhost"])
    app.mount("/other", Starlette())
    client = Client(app, schema_dir)
    await client.open("POST").whole()
    await client.aclose()
    assert said() == [
        ("INFO", f"Access tokens of {ISSUER} are taken at {URL}"),
        ("INFO", "Open to anybody, as no scopes= are there: route /open, route /hook, app mounted at /other"),
    ]


async def test_what_is_anonymous_is_warned_of(
    make: Callable[..., Server], serve: Serve, said: Callable[[], Any]
) -> None:
    server = make()
    server.tool(lambda: "fine", name="weather", anonymous=True)
    server.resource("weather://now", name="now", anonymous=True)(lambda: "fine")
    server.tool(lambda: "fine", name="hidden", anonymous=True)
    server.tools.disable("hidden")
    async with serve(server) as client:
        await client.call("weather").whole()
    (level, text) = said()[1]
    assert level == "WARNING"
    assert "Open to anybody, as anonymous=True is there: tool weather, resource weather://now." in text
    assert "hosts which log in only when `initialize` is refused (401) will not log in" in text


@pytest.mark.parametrize(
    ("url", "is_warned"),
    [
        ("http://mcp.example.com/mcp", True),
        ("http://10.0.0.7:8000/mcp", True),
        ("http://localhost.example.com/mcp", True),
        ("http://localhost:8000/mcp", False),
        ("http://127.0.0.1:8000/mcp", False),
        ("http://[::1]:8000/mcp", False),
        ("https://mcp.example.com/mcp", False),
    ],
)
async def test_what_is_not_encrypted_is_warned_of(
    server: Server, serve: Serve, said: Callable[[], Any], url: str, is_warned: bool
) -> None:
    async with serve(server, public_url=url) as client:
        await client.call("whoami").whole()
    assert any(level == "WARNING" and "is not encrypted" in text for level, text in said()) is is_warned


async def test_who_has_no_issuer_names_none_and_many_are_cut_off(
    serve: Serve, said: Callable[[], Any]
) -> None:
    server = Server("s", auth=Table())
    for number in range(30):
        server.route(f"/{number}")(lambda request: PlainTextResponse("x"))
    async with serve(server, sse=False) as client:
        await client.open("POST").whole()
    texts = [text for _, text in said()]
    assert texts[0] == f"Access tokens are taken at {URL}"
    assert texts[1].endswith("route /19 and 10 more")


async def test_a_server_without_auth_says_nothing(serve: Serve, said: Callable[[], Any]) -> None:
    server = Server("s")
    server.route("/open")(lambda request: PlainTextResponse("x"))
    async with serve(server) as client:
        await client.open("GET", "/open").whole()
    assert said() == []


PROGRAM = """
from mcpkit import Server
from tests.helpers.verified import ISSUER, Table

server = Server("notes", auth=Table(ISSUER))
server.route("/open")(lambda request: None)
server.run("http", port=0)
"""


@pytest.mark.slow
def test_under_uvicorn_it_stands_among_its_lines() -> None:
    with Served([sys.executable, "-c", f"import sys; sys.path.append({str(ROOT)!r})\n{PROGRAM}"]) as served:
        served.wait_for("MCP is served at")
        lines = [line for line in served._notes.splitlines() if line.startswith("INFO:")]
    told = [
        line.removeprefix("INFO:").strip() for line in lines if "ccess tokens" in line or "Open to" in line
    ]
    assert told == [
        f"Access tokens of {ISSUER} are taken at {served.origin}/mcp, {served.origin}/sse",
        "Open to anybody, as no scopes= are there: route /open",
    ]
