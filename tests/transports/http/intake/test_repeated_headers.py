"""A header that came more than once, be it as a trailer, is no header to rely on."""

from __future__ import annotations

import http.client
import json
import socket
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import pytest

from mcpkit import Context, FromHeader, Principal, Server
from mcpkit.middleware import CallNext, Request, Result
from mcpkit.transports.http.app import HttpApp
from tests.helpers.asgi_client import initialize
from tests.helpers.serving import in_thread

PARSERS = ["h11", "httptools"]
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
Pairs = list[tuple[str, str]]


def make_server() -> Server:
    server = Server("repeated")

    @server.tool
    async def by_context(ctx: Context) -> str:
        return str(ctx.headers.get("X-Tenant"))

    @server.tool
    def by_parameter(tenant: Annotated[str | None, FromHeader("X-Tenant")]) -> str:
        return str(tenant)

    @server.tool
    async def lists(ctx: Context) -> list[str | None]:
        names = ("accept", "x-forwarded-for", "cookie")
        return [*map(ctx.headers.get, names), *sorted(name for name in ctx.headers if name == "x-tenant")]

    @server.tool
    async def who(ctx: Context) -> str:
        return f"{ctx.principal.id}, {'x-tenant' in ctx.headers}"

    return server


def call(name: str, era: str = "stateless") -> tuple[Any, Pairs]:
    """Return a call and the headers that it takes."""
    params: dict[str, Any] = {"name": name, "arguments": {}}
    headers = [("Host", "localhost"), ("Content-Type", "application/json")]
    if era == "stateless":
        params["_meta"] = META
        headers += [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "tools/call"), ("Mcp-Name", name)]
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}, headers


def post(url: str, message: Any, headers: Pairs, trailers: Pairs | None = None) -> tuple[int, Any]:
    """Post a message, with trailers in chunks; return the status, and the JSON or text of the answer."""
    body = json.dumps(message).encode()
    sent = list(headers)
    if trailers is None:
        sent += [("Content-Length", str(len(body)))]
    else:
        sent += [("Transfer-Encoding", "chunked")]
        body = b"%x\r\n%s\r\n0\r\n%s\r\n" % (len(body), body, lines(trailers))
    with socket.create_connection((urlsplit(url).hostname, urlsplit(url).port)) as connection:
        connection.sendall(b"POST /mcp HTTP/1.1\r\n" + lines(sent) + b"\r\n" + body)
        answer = http.client.HTTPResponse(connection)
        answer.begin()
        text = answer.read().decode()
        return answer.status, json.loads(text) if text.startswith("{") else text


def lines(pairs: Pairs) -> bytes:
    return "".join(f"{name}: {value}\r\n" for name, value in pairs).encode()


def text_of(answer: Any) -> str:
    return str(answer["result"]["content"][0]["text"])


def is_refused(answer: tuple[int, Any], era: str = "stateless") -> bool:
    status, message = answer
    assert message["error"]["code"] == -32602, message
    assert "came more than once" in message["error"]["message"]
    return status == (400 if era == "stateless" else 200)


def session_of(url: str) -> Pairs:
    connection = http.client.HTTPConnection(urlsplit(url).netloc)
    connection.request("POST", "/mcp", json.dumps(initialize()), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return [("Mcp-Session-Id", str(answer.headers["mcp-session-id"]))]


@pytest.mark.parametrize("era", ["stateless", "sessions"])
@pytest.mark.parametrize("tool", ["by_context", "by_parameter"])
@pytest.mark.parametrize("parser", PARSERS)
def test_who_reads_a_header_that_came_twice_is_refused(parser: str, tool: str, era: str) -> None:
    with in_thread(make_server().asgi(), http=parser) as url:
        message, headers = call(tool, era)
        headers += session_of(url) if era == "sessions" else []
        one, other = ("X-Tenant", "acme"), ("x-tenant", "evil")
        assert text_of(post(url, message, [*headers, one])[1]) == "acme"
        assert is_refused(post(url, message, [*headers, one, other]), era)
        assert is_refused(post(url, message, [*headers, one, one]), era)
        trailed = post(url, message, [*headers, one], [other])
        if parser == "httptools":  # which puts trailers among the headers
            assert is_refused(trailed, era)
        else:
            assert text_of(trailed[1]) == "acme"


@pytest.mark.parametrize("parser", PARSERS)
def test_who_reads_something_else_is_served_and_lists_are_joined(parser: str) -> None:
    with in_thread(make_server().asgi(), http=parser, proxy_headers=False) as url:
        message, headers = call("lists")
        several = [("Accept", "application/json"), ("Accept", "text/event-stream"), ("Cookie", "a=1")]
        several += [("X-Forwarded-For", "10.0.0.1"), ("X-Forwarded-For", "10.0.0.2"), ("Cookie", "b=2")]
        several += [("X-Tenant", "acme"), ("X-Tenant", "evil")]
        status, answer = post(url, message, headers + several)
    assert status == 200
    assert answer["result"]["structuredContent"] == [
        "application/json, text/event-stream",
        "10.0.0.1, 10.0.0.2",
        "a=1; b=2",
        "x-tenant",
    ]


@pytest.mark.parametrize(
    "header",
    [
        ("Host", "localhost"),
        ("Origin", "http://localhost"),
        ("Content-Type", "application/json"),
        ("Authorization", "Bearer 2"),
        ("MCP-Protocol-Version", "2026-07-28"),
        ("Mcp-Method", "tools/call"),
        ("Mcp-Name", "who"),
        ("Mcp-Param-Region", "north"),
        ("Mcp-Session-Id", "1"),
        ("Last-Event-ID", "1"),
    ],
    ids=lambda header: header[0],
)
@pytest.mark.parametrize("parser", PARSERS)
def test_what_the_app_itself_reads_comes_once(parser: str, header: tuple[str, str]) -> None:
    name, value = header
    with in_thread(make_server().asgi(), http=parser) as url:
        message, headers = call("who")
        first = [] if name in dict(headers) else [header]
        text = f"the header {name.lower()} came more than once\n"
        answers = [post(url, message, [*headers, *first, header])]
        if parser == "httptools":
            answers.append(post(url, message, [*headers, *first], [(name, value)]))
        elif name == "Host":  # h11 itself refuses that
            assert answers.pop()[0] == 400
        assert answers in ([], [(400, text)] * len(answers))
        assert post(url, message, [*headers, *first])[0] == 200


@pytest.mark.parametrize(
    "versions",
    [
        ["2026-07-28"],
        ["1999-01-01"],
        ["DRAFT-2026-v1"],
        [""],
        ["2025-11-25, 2025-11-25"],
        ["2025-11-25"] * 2,
        ["", "x"],
    ],
)
@pytest.mark.parametrize("parser", PARSERS)
def test_initialize_opens_a_session_whatever_revision_its_headers_name(
    parser: str, versions: list[str]
) -> None:
    client = {"name": "t", "version": "1"}
    params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    headers = [("Host", "localhost"), ("Content-Type", "application/json")]
    headers += [("MCP-Protocol-Version", version) for version in versions]
    with in_thread(make_server().asgi(), http=parser) as url:
        status, answer = post(url, message, headers)
        assert (status, answer["result"]["protocolVersion"]) == (200, "2025-06-18")
        if versions != ["2026-07-28"]:
            other = {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}}
            assert post(url, other, headers)[0] == 400


@pytest.mark.parametrize("parser", PARSERS)
def test_the_recipe_of_a_proxy_takes_nobody_for_somebody_else(parser: str) -> None:
    with in_thread(recipe(), http=parser) as url:
        message, headers = call("who")
        ada, eve, nobody = (("X-Forwarded-User", name) for name in ("ada", "eve", ""))
        assert text_of(post(url, message, [*headers, ada])[1]) == "ada, False"
        for pairs in ([], [nobody], [ada, eve], [eve, ada], [nobody, eve], [ada, ada]):
            assert text_of(post(url, message, [*headers, *pairs])[1]) == "None, False"
        for first in (ada, nobody):  # a proxy sets it on every request
            who = "None" if parser == "httptools" or first == nobody else "ada"
            assert text_of(post(url, message, [*headers, first], [eve])[1]) == f"{who}, False"


def recipe() -> HttpApp:
    """Return the app of the page on users, with the recipe as it stands there."""
    page = (Path(__file__).parents[4] / "docs" / "how-to" / "per-user.md").read_text("utf-8")
    code = page[page.index("def from_proxy(") :].partition("\n\n\n")[0]
    names: dict[str, Any] = {"Principal": Principal}
    exec("from __future__ import annotations\n" + code, names)
    return make_server().asgi(principal=names["from_proxy"])


@pytest.mark.parametrize("parser", PARSERS)
def test_middleware_is_refused_too(parser: str) -> None:
    server = make_server()

    @server.middleware
    async def tenants(request: Request, call_next: CallNext) -> Result:
        if request.ctx.headers.get("x-tenant") != "acme":
            raise AssertionError
        return await call_next(request)

    with in_thread(server.asgi(), http=parser) as url:
        message, headers = call("who")
        tenant = ("X-Tenant", "acme")
        assert text_of(post(url, message, [*headers, tenant])[1]) == "None, True"
        assert is_refused(post(url, message, [*headers, tenant, tenant]))
