"""HTTP over real sockets: repeated headers, offers to upgrade, and long bodies that are refused."""

import http.client
import json
import socket
from itertools import product
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import pytest

from mcpkit import Context, FromHeader, HttpOptions, Principal, Server
from mcpkit.transports.http import request as http_request
from tests.helpers.raw_client import call_params, initialize, request, standard_headers, text_of
from tests.helpers.serving import in_thread

PARSERS = ["h11", "httptools"]

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
    async def who(ctx: Context) -> str:
        return f"{ctx.principal.id}, {'x-tenant' in ctx.headers}"

    @server.tool
    async def echo(text: str) -> str:
        return text

    return server


def lines(pairs: Pairs) -> bytes:
    return "".join(f"{name}: {value}\r\n" for name, value in pairs).encode()


def raw_post(message: Any, headers: Pairs, trailers: Pairs | None = None) -> bytes:
    """Return the bytes of a POST; with trailers, the body is chunked."""
    body = json.dumps(message).encode()
    if trailers is None:
        headers = [*headers, ("Content-Length", str(len(body)))]
    else:
        headers = [*headers, ("Transfer-Encoding", "chunked")]
        body = b"%x\r\n%s\r\n0\r\n%s\r\n" % (len(body), body, lines(trailers))
    return b"POST /mcp HTTP/1.1\r\n" + lines(headers) + b"\r\n" + body


def exchange(url: str, *requests: bytes, size: int = 100_000) -> list[tuple[int, Any]]:
    """Send requests in pieces over one connection; return the status and body of each response."""
    answers = []
    data = b"".join(requests)
    with socket.create_connection((urlsplit(url).hostname, urlsplit(url).port), 15) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for start in range(0, len(data), size):
            connection.sendall(data[start : start + size])
        with connection.makefile("rb") as incoming:
            for _ in requests:
                status = int(incoming.readline().split()[1])
                length = int(http.client.parse_headers(incoming).get("content-length", 0))
                text = incoming.read(length).decode()
                answers.append((status, json.loads(text) if text.startswith("{") else text))
    return answers


def call_message(name: str, era: str = "stateless", **arguments: str) -> tuple[Any, Pairs]:
    headers = [("Host", "localhost"), ("Content-Type", "application/json"), ("Accept", "application/json")]
    if era == "stateless":
        standard: Any = standard_headers("tools/call", name)
        return request("tools/call", call_params(name, **arguments)), [*headers, *standard.items()]
    return request("tools/call", {"name": name, "arguments": arguments}), headers


def post(url: str, message: Any, headers: Pairs, trailers: Pairs | None = None) -> tuple[int, Any]:
    return exchange(url, raw_post(message, headers, trailers))[0]


def is_refused(answer: tuple[int, Any], era: str) -> bool:
    status, message = answer
    assert message["error"]["code"] == -32602, message
    assert "is repeated. Send it once" in message["error"]["message"]
    return status == (400 if era == "stateless" else 200)


@pytest.mark.parametrize(
    ("parser", "tool", "era"), [("h11", "by_context", "stateless"), ("httptools", "by_parameter", "sessions")]
)
def test_repeated_header_is_refused_when_read(parser: str, tool: str, era: str) -> None:
    with in_thread(make_server().asgi(), http=parser) as url:
        message, headers = call_message(tool, era)
        if era == "sessions":
            connection = http.client.HTTPConnection(urlsplit(url).netloc)
            connection.request("POST", "/mcp", json.dumps(initialize()), dict(headers))
            headers.append(("Mcp-Session-Id", str(connection.getresponse().headers["mcp-session-id"])))
            connection.close()
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
def test_repeated_protocol_header_is_refused(parser: str) -> None:
    message, headers = call_message("who")
    with in_thread(make_server().asgi(), http=parser) as url:
        for header in (
            *headers[:2], ("Origin", "http://localhost"), ("Authorization", "Bearer 2"), *headers[3:],
            ("Mcp-Param-Region", "north"), ("Mcp-Session-Id", "1"), ("Last-Event-ID", "1"),
        ):  # fmt: skip
            name = header[0].lower()
            once = headers if header in headers else [*headers, header]
            answers = [post(url, message, [*once, header])]
            if parser == "httptools":
                answers.append(post(url, message, once, [header]))
            elif name == "host":  # h11 itself refuses that
                assert answers.pop()[0] == 400
            text = f"the header {name} was sent more than once\n"
            assert answers == [(400, text)] * len(answers), name
            assert post(url, message, once)[0] == 200, name


@pytest.mark.parametrize("parser", PARSERS)
def test_documented_proxy_recipe_refuses_repeated_header(parser: str) -> None:
    page = (Path(__file__).parents[3] / "docs" / "guides" / "per-user-tools.md").read_text("utf-8")
    code = page[page.index("def from_proxy(") :].partition("\n\n\n")[0]
    names: dict[str, Any] = {"Principal": Principal}
    exec("from __future__ import annotations\n" + code, names)
    app = make_server().asgi(http=HttpOptions(principal=names["from_proxy"]))
    message, headers = call_message("who")
    with in_thread(app, http=parser) as url:
        ada, eve, anonymous = (("X-Forwarded-User", name) for name in ("ada", "eve", ""))
        assert text_of(post(url, message, [*headers, ada])[1]) == "ada, False"
        for pairs in ([], [anonymous], [ada, eve], [eve, ada], [anonymous, eve], [ada, ada]):
            assert text_of(post(url, message, [*headers, *pairs])[1]) == "None, False"
        for first in (ada, anonymous):  # a proxy sets it on every request
            who = "None" if parser == "httptools" or first == anonymous else "ada"
            assert text_of(post(url, message, [*headers, first], [eve])[1]) == f"{who}, False"


def test_upgrade_offer_does_not_change_response() -> None:
    calls = [call_message("echo", text=text) for text in ("é\n" * 100, "a")]
    calls.insert(1, (request("ping"), calls[0][1][:3]))
    protocols = ["h2c", "H2C", "websocket", "TLS/1.0, HTTP/1.1", "foo"]
    options = ["Upgrade, HTTP2-Settings", "HTTP2-Settings, keep-alive, Upgrade", "keep-alive, Upgrade"]
    app = make_server().asgi()
    with in_thread(app, http="h11") as plain, in_thread(make_server().asgi(), http="httptools") as url:
        for trailers in (None, []):
            expected = exchange(plain, *(raw_post(*call, trailers) for call in calls))
            assert [status for status, _ in expected] == [200, 400, 200]
            for protocol, option, size in product(protocols, options, (7, 50, 400, 100_000)):
                offer = [
                    ("Connection", option),
                    ("Upgrade", protocol),
                    ("HTTP2-Settings", "AAEAAEAAAAIAAAAB"),
                ]
                for place in (0, 4):
                    offered = [
                        raw_post(message, [*headers[:place], *offer, *headers[place:]], trailers)
                        for message, headers in calls
                    ]
                    offered[-1] = raw_post(*calls[-1], trailers)
                    assert exchange(url, *offered, size=size) == expected, (protocol, option, size)


@pytest.mark.parametrize("parser", PARSERS)
def test_client_that_sends_before_reading_gets_refusal(parser: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_request, "_SHORT_BODY_TIME", 60)
    monkeypatch.setattr(http_request, "_DROP_TIME", 60)
    with in_thread(Server("s").asgi(), http=parser) as url:
        connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
        for size, content_type, status in (
            (5_000_000, "application/json", 413),
            (5_000_000, "text/plain", 415),
            (20_000, "text/plain", 415),
        ):
            connection.request("POST", "/mcp", b"x" * size, {"Content-Type": content_type})
            answer = connection.getresponse()
            assert (answer.status, answer.will_close) == (status, size > 64 * 1024)
            assert answer.read()
        connection.close()
