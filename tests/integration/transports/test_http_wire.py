"""HTTP over real sockets: repeated headers, upgrades, large bodies and results, and abandoned connections."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcpkit import Context, FromHeader, HttpOptions, Principal, ResultOptions, Server
from mcpkit.transports.http import exchange
from mcpkit.transports.http.app import HttpApp
from mcpkit.transports.http.intake import refused_body as unread
from tests.helpers.pipe import hearing, stateless_meta
from tests.helpers.process_client import SUBSCRIPTION, EventStream, Site, eventually, site
from tests.helpers.raw_client import Answer, initialize, serving
from tests.helpers.servers.full import make_server
from tests.helpers.serving import in_thread
from tests.helpers.waiting import until


def raw_request(lines: list[tuple[str, str]], body: bytes) -> bytes:
    fixed = [("Host", "localhost"), ("Content-Type", "application/json"), ("Accept", "application/json")]
    head = "".join(f"{name}: {value}\r\n" for name, value in [*fixed, *lines])
    return f"POST /mcp HTTP/1.1\r\n{head}\r\n".encode() + body


SOCKET_TIMEOUT = 15.0

LATEST = {"MCP-Protocol-Version": "2026-07-28"}


def json_message(method: str, params: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()


@st.composite
def upgrade_requests(draw: st.DrawFn) -> tuple[list[bytes], list[bytes], int]:
    offered, plain = [], []
    for number in range(draw(st.integers(1, 3))):
        text = draw(st.text("aé\n", max_size=200)) + str(number)
        if draw(st.booleans()):
            params = {"name": "echo", "arguments": {"text": text}, "_meta": META_FIELDS}
            body, headers = (
                json_message("tools/call", params),
                LATEST | {"Mcp-Method": "tools/call", "Mcp-Name": "echo"},
            )
        else:
            body, headers = json_message("ping", {"text": text}), {}
        framing = {"Content-Length": str(len(body))}
        if draw(st.booleans()):
            framing = {"Transfer-Encoding": "chunked"}
            body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
        protocol = draw(st.sampled_from(["h2c", "H2C", "websocket", "TLS/1.0, HTTP/1.1", "foo"]))
        options = draw(st.permutations(["Upgrade", "HTTP2-Settings", "keep-alive"]))
        offer = {"Connection": ", ".join(options), "Upgrade": protocol, "HTTP2-Settings": "AAEAAEAAAAIAAAAB"}
        plain_lines = headers | framing
        lines = list((plain_lines | (offer if draw(st.integers(0, 3)) else {})).items())
        offered.append(raw_request(draw(st.permutations(lines)), body))
        plain.append(raw_request(list(plain_lines.items()), body))
    return offered, plain, draw(st.sampled_from([1, 7, 50, 400, 100_000]))


def exchange_raw(address: tuple[str, int], sent: list[bytes], size: int) -> list[tuple[str, bytes]]:
    answers = []
    data = b"".join(sent)
    with (
        socket.create_connection(address, SOCKET_TIMEOUT) as connection,
        connection.makefile("rb") as incoming,
    ):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for start in range(0, len(data), max(size, len(data) // 40)):
            connection.sendall(data[start : start + max(size, len(data) // 40)])
        for _ in sent:
            status, length = incoming.readline().decode().strip(), 0
            while (line := incoming.readline().strip()) != b"":
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            answers.append((status, incoming.read(length)))
    return answers


PARSERS = ["h11", "httptools"]


META_FIELDS = stateless_meta()


Pairs = list[tuple[str, str]]


def make_header_server() -> Server:
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


def call_message(name: str, era: str = "stateless") -> tuple[Any, Pairs]:
    params: dict[str, Any] = {"name": name, "arguments": {}}
    headers = [("Host", "localhost"), ("Content-Type", "application/json")]
    if era == "stateless":
        params["_meta"] = META_FIELDS
        headers += [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "tools/call"), ("Mcp-Name", name)]
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}, headers


def post(url: str, message: Any, headers: Pairs, trailers: Pairs | None = None) -> tuple[int, Any]:
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
    assert "is repeated. Send it once" in message["error"]["message"]
    return status == (400 if era == "stateless" else 200)


def session_of(url: str) -> Pairs:
    connection = http.client.HTTPConnection(urlsplit(url).netloc)
    connection.request("POST", "/mcp", json.dumps(initialize()), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return [("Mcp-Session-Id", str(answer.headers["mcp-session-id"]))]


@pytest.mark.parametrize(
    ("parser", "tool", "era"), [("h11", "by_context", "stateless"), ("httptools", "by_parameter", "sessions")]
)
def test_repeated_header_is_refused_when_read(parser: str, tool: str, era: str) -> None:
    with in_thread(make_header_server().asgi(), http=parser) as url:
        message, headers = call_message(tool, era)
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
def test_repeated_protocol_header_is_refused(parser: str) -> None:
    cases = [
        ("Host", "localhost"), ("Origin", "http://localhost"), ("Content-Type", "application/json"),
        ("Authorization", "Bearer 2"), ("MCP-Protocol-Version", "2026-07-28"),
        ("Mcp-Method", "tools/call"), ("Mcp-Name", "who"), ("Mcp-Param-Region", "north"),
        ("Mcp-Session-Id", "1"), ("Last-Event-ID", "1"),
    ]  # fmt: skip
    with in_thread(make_header_server().asgi(), http=parser) as url:
        for header in cases:
            name, value = header
            message, headers = call_message("who")
            first = [] if name in dict(headers) else [header]
            text = f"the header {name.lower()} was sent more than once\n"
            answers = [post(url, message, [*headers, *first, header])]
            if parser == "httptools":
                answers.append(post(url, message, [*headers, *first], [(name, value)]))
            elif name == "Host":  # h11 itself refuses that
                assert answers.pop()[0] == 400
            assert answers in ([], [(400, text)] * len(answers))
            assert post(url, message, [*headers, *first])[0] == 200


@pytest.mark.parametrize("parser", PARSERS)
def test_documented_proxy_recipe_refuses_repeated_header(parser: str) -> None:
    with in_thread(recipe(), http=parser) as url:
        message, headers = call_message("who")
        ada, eve, anonymous = (("X-Forwarded-User", name) for name in ("ada", "eve", ""))
        assert text_of(post(url, message, [*headers, ada])[1]) == "ada, False"
        for pairs in ([], [anonymous], [ada, eve], [eve, ada], [anonymous, eve], [ada, ada]):
            assert text_of(post(url, message, [*headers, *pairs])[1]) == "None, False"
        for first in (ada, anonymous):  # a proxy sets it on every request
            who = "None" if parser == "httptools" or first == anonymous else "ada"
            assert text_of(post(url, message, [*headers, first], [eve])[1]) == f"{who}, False"


def recipe() -> HttpApp:
    page = (Path(__file__).parents[3] / "docs" / "how-to" / "per-user.md").read_text("utf-8")
    code = page[page.index("def from_proxy(") :].partition("\n\n\n")[0]
    names: dict[str, Any] = {"Principal": Principal}
    exec("from __future__ import annotations\n" + code, names)
    return make_header_server().asgi(http=HttpOptions(principal=names["from_proxy"]))


EXAMPLES = int(os.environ.get("MCPKIT_TEST_EXAMPLES", "50"))


@pytest.fixture(scope="module")
def addresses() -> Iterator[dict[str, tuple[str, int]]]:
    with (
        in_thread(make_server().asgi(), http="h11") as one,
        in_thread(make_server().asgi(), http="httptools") as other,
    ):
        yield {
            parser: (urlsplit(url).hostname or "", urlsplit(url).port or 0)
            for parser, url in (("h11", one), ("httptools", other))
        }


TOKEN = {"progressToken": "p"}


def make_text_server() -> Server:
    server = Server("large")

    @server.tool(result=ResultOptions(structured=False))
    async def give(size: int, reports: int, ctx: Context) -> str:
        """Return a text of some length, after some reports."""
        for number in range(reports):
            await ctx.report_progress(number + 1)
        return "x" * size

    waiting: list[asyncio.Event] = []

    @server.tool(result=ResultOptions(structured=False))
    async def give_together(size: int, calls: int) -> str:
        """Return a text when so many calls wait for one."""
        waiting.append(asyncio.Event())
        if len(waiting) == calls:
            for event in waiting:
                event.set()
        await waiting[-1].wait()
        return "x" * size

    return server


def give_message(size: int, reports: int, **meta: Any) -> dict[str, Any]:
    params = {"name": "give", "arguments": {"size": size, "reports": reports}, "_meta": TOKEN | meta}
    return {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}


@pytest.mark.long
@pytest.mark.anyio
async def test_sse_client_that_does_not_read_gets_503(schema_dir: Path) -> None:
    async with serving(make_text_server(), schema_dir) as client:
        stream = client.open("GET", "/sse")
        stream.judge.revision = "2024-11-05"
        first = await stream.event()
        assert first is not None
        assert first.data is not None
        path = first.data

        async def post(body: dict[str, Any]) -> Answer:
            stream.judge.expect(body)
            return await client.post(body, path=path, judge=stream.judge).whole()

        assert (await post(initialize("2024-11-05"))).status == 202
        await stream.message()
        stream.stop_reading()
        for number in range(2):  # the first is being sent, the second waits
            assert (await post(give_message(exchange.MOST_QUEUED, 0) | {"id": number})).status == 202
        pipe = next(iter(client.app.door()._begin().pipes.values()))
        await until(lambda: pipe.is_behind)
        refused = await post(give_message(1, 0))
        assert (refused.status, refused.headers["retry-after"]) == (503, "1")
        stream.read_on()
        assert sorted([(await stream.message())["id"] for _ in range(2)]) == [0, 1]
        assert (await post(give_message(1, 0))).status == 202
        assert (await stream.message())["id"] == 7


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unread, "_SOON", 60)
    monkeypatch.setattr(unread, "_LATE", 60)


@pytest.mark.usefixtures("patience")
@pytest.mark.parametrize("web", ["h11", "httptools"])
def test_client_that_sends_before_reading_gets_refusal(web: str) -> None:
    with site(Server("s"), uvicorn={"http": web}) as there:
        connection = http.client.HTTPConnection(urlsplit(there.url).netloc, timeout=60)
        try:
            for size, content_type, status in (
                (5_000_000, "application/json", 413),
                (5_000_000, "text/plain", 415),
                (20_000, "text/plain", 415),
            ):
                connection.request("POST", "/mcp", b"x" * size, {"Content-Type": content_type})
                answer = connection.getresponse()
                assert (answer.status, answer.will_close) == (status, size > 64 * 1024)
                assert answer.read()
        finally:
            connection.close()


@pytest.mark.long
@settings(max_examples=EXAMPLES, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(upgrade_requests())
def test_upgrade_offer_does_not_change_response(
    addresses: dict[str, tuple[str, int]], drawn: tuple[list[bytes], list[bytes], int]
) -> None:
    offered, plain, size = drawn
    expected = [exchange_raw(addresses["h11"], [each], 100_000)[0] for each in plain]
    assert exchange_raw(addresses["httptools"], offered, size) == expected


ACKNOWLEDGED = "notifications/subscriptions/acknowledged"


CANCELLED = "notifications/cancelled"


Params = dict[str, Any]


def empty_text() -> str:
    return ""


def read_item(name: str) -> str:
    return name


class RecordingWatch:
    def __init__(self) -> None:
        self.running: list[str] = []

    async def __call__(self, name: str) -> AsyncIterator[None]:
        self.running.append(name)
        try:
            yield
            await asyncio.Event().wait()
        finally:
            self.running.remove(name)


@pytest.fixture
def watch() -> RecordingWatch:
    return RecordingWatch()


@pytest.fixture
def server(watch: RecordingWatch) -> Server:
    async def watch_item(name: str) -> AsyncIterator[None]:
        async for update in watch(name):
            yield update

    server = Server("s")
    server.tool(empty_text)
    server.resource("data://x")(empty_text)
    server.resource("data://items/{name}", watch=watch_item)(read_item)
    return server


@pytest.fixture
def web(server: Server) -> Iterator[Site]:
    with site(server, uvicorn={"http": "httptools"}) as web:
        yield web


def read_acknowledgement(stream: EventStream) -> Params:
    message = stream.message()
    assert message["method"] == ACKNOWLEDGED
    return message["params"]["notifications"]


def test_listen_disconnect_leaves_nothing(web: Site, watch: RecordingWatch) -> None:
    with web.listen(toolsListChanged=True) as first:
        read_acknowledgement(first)
    eventually(lambda: not web.service.listeners)
    before = web.task_count()
    streams = [
        web.listen(n, toolsListChanged=True, resourceSubscriptions=["data://items/a"]) for n in range(5)
    ]
    for stream in streams:
        read_acknowledgement(stream)
    assert (
        streams[0].message()["params"]["uri"] == "data://items/a"
    )  # from the watch, which runs once for all
    assert len(web.service.listeners) == 5
    assert watch.running == ["a"]
    for stream in streams[1:]:
        stream.close()
    eventually(lambda: len(web.service.listeners) == 1)
    assert watch.running == ["a"]
    streams[0].close()
    eventually(lambda: not web.service.listeners)
    eventually(lambda: web.task_count() == before)
    assert watch.running == []
    assert hearing(web.server) == 0
    web.server.tool(empty_text, name="new")


@pytest.mark.slow
def test_listen_ends_slow_reader_with_reason(web: Site) -> None:
    uris = [f"data://{number}/{'x' * 190}" for number in range(300)]
    slow = web.listen("slow", buffer=4096, resourceSubscriptions=uris)
    quick = web.listen("quick", resourceSubscriptions=uris)
    assert read_acknowledgement(slow)
    assert read_acknowledgement(quick)
    rounds = 0
    while len(web.service.listeners) == 2:
        for uri in uris:
            web.server.notify_resource_updated(uri)
        assert [quick.message()["params"]["uri"] for _ in uris] == uris
        rounds += 1
        assert rounds < 1000, "the slow reader has not been ended"
    *actual, end = slow.rest()
    assert end["method"] == CANCELLED
    assert end["params"]["requestId"] == "slow"
    assert end["params"]["reason"]
    assert {message["params"]["_meta"][SUBSCRIPTION] for message in actual} == {"slow"}
    slow.close()
    web.server.notify_resource_updated(uris[0])
    assert quick.message()["params"]["uri"] == uris[0]
    quick.close()
