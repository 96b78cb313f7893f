"""The app of "Tools for some users", asked over HTTP by clients with a token, without one, and by a page."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import closing
from email.message import Message
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import pytest

from tests.helpers.serving import in_thread

from .pages import ROOT, Runner

PAGE = "https://notes.example.com"
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
LIST = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": META}})
HEADERS = {
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": "2026-07-28",
    "Mcp-Method": "tools/list",
}


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    before, _, _ = (ROOT / "docs/how-to/per-user.md").read_text().partition("Whatever else authenticates")
    runner = Runner("per-user", tmp_path)
    runner.run(before)
    with in_thread(runner._module.app) as url:
        yield url


class Reply(NamedTuple):
    status: int
    headers: Message
    body: bytes


def ask(url: str, method: str, path: str, body: str | None = None, **headers: str) -> Reply:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)
    with closing(connection):
        connection.request(method, path, body, {name.replace("_", "-"): headers[name] for name in headers})
        response = connection.getresponse()
        return Reply(response.status, response.headers, response.read())


@pytest.mark.parametrize("token", [{}, {"Authorization": "Bearer guessed"}, {"Authorization": "Basic eA=="}])
def test_who_has_no_token_that_is_known_is_told_how_to_come_back(url: str, token: dict[str, str]) -> None:
    answer = ask(url, "POST", "/mcp", LIST, **HEADERS, **token)
    assert answer.status == 401
    assert answer.headers["WWW-Authenticate"] == 'Bearer realm="notes"'


def test_a_page_can_read_that_its_token_is_missing(url: str) -> None:
    answer = ask(url, "POST", "/mcp", LIST, **HEADERS, Origin=PAGE)
    assert answer.status == 401
    assert answer.headers["Access-Control-Allow-Origin"] == PAGE
    assert "WWW-Authenticate" in answer.headers["Access-Control-Expose-Headers"]


def test_who_has_a_token_is_served(url: str) -> None:
    answer = ask(url, "POST", "/mcp", LIST, **HEADERS, Authorization="bearer token-of-bob")
    assert answer.status == 200
    assert [tool["name"] for tool in json.loads(answer.body)["result"]["tools"]] == ["search"]


def test_a_preflight_passes_without_a_token(url: str) -> None:
    answer = ask(
        url,
        "OPTIONS",
        "/mcp",
        Origin=PAGE,
        Access_Control_Request_Method="POST",
        Access_Control_Request_Headers="authorization,mcp-method",
    )
    assert answer.status == 200
    assert answer.headers["Access-Control-Allow-Origin"] == PAGE
    assert "authorization" in answer.headers["Access-Control-Allow-Headers"]


def test_a_page_of_another_origin_is_refused(url: str) -> None:
    answer = ask(
        url,
        "POST",
        "/mcp",
        LIST,
        **HEADERS,
        Origin="https://evil.example",
        Authorization="Bearer token-of-ada",
    )
    assert answer.status == 403
    assert "Access-Control-Allow-Origin" not in answer.headers


def test_readiness_needs_no_token_and_nothing_else_does_without(url: str) -> None:
    ask(url, "POST", "/mcp", LIST, **HEADERS, Authorization="Bearer token-of-ada")  # from then on it is ready
    assert ask(url, "GET", "/health").status == 200
    assert ask(url, "GET", "/healthy").status == 401
