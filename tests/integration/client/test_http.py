"""HTTP responses: statuses, limits, cancellation, sessions, and streams that are resumed after a break."""

import ssl
import time
import tracemalloc
import zlib
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest

from mcpkit import Client, ProtocolError, Retries
from mcpkit.client.http import event_stream_reader as http_stream
from mcpkit.client.http.http_transports import HttpTransport
from mcpkit.exceptions import AuthorizationError, StatusError, TransportError
from tests.helpers.scripted_http import (
    SESSION,
    HttpRequest,
    Reply,
    Script,
    ScriptedServer,
    greeting,
    scripted,
    text,
)
from tests.helpers.signed_tokens import CertificateAuthority
from tests.helpers.tables import each_row
from tests.helpers.waiting import until

NOW = datetime(2020, 1, 1, tzinfo=timezone.utc)
MOST = 100_000


def client(server: ScriptedServer, revision: str = "2026-07-28") -> Client:
    transport = HttpTransport(server.url, max_answer=MOST)
    return Client(transport, protocol_version=revision, retries=Retries(attempts=1))


async def failure(script: Script, revision: str = "2026-07-28") -> Any:
    """Return the error of a call that a script answers."""
    async with scripted(greeting(script)) as server:
        async with client(server, revision) as opened:
            with pytest.raises((TransportError, ProtocolError)) as caught:
                await opened.call_tool("bake", retry=True)
        await until(lambda: not server.open)
    return caught.value


def replies(number: int, body: bytes = b"", **headers: str) -> Script:
    async def script(request: HttpRequest, reply: Reply) -> None:
        await reply.send(number, body, {name.replace("_", "-"): value for name, value in headers.items()})

    return script


def sends(body: bytes, **headers: str) -> Script:
    return replies(200, body, **{"content_type": "application/json", **headers})


@pytest.mark.parametrize("status", [400, 404])
@pytest.mark.parametrize("members", [{}, {"id": None}, {"id": "server-error"}])
async def test_json_rpc_error_with_status_is_protocol_error(status: int, members: dict[str, Any]) -> None:
    async def script(request: HttpRequest, reply: Reply) -> None:
        await reply.error(status, -32601, "no such thing", **members)

    error = await failure(script)
    assert isinstance(error, ProtocolError)
    assert (error.code, str(error)) == (-32601, "no such thing")


@pytest.mark.parametrize("status", [400, 405])
async def test_client_error_status_has_not_begun(status: int) -> None:
    error = await failure(replies(status, b"go away\x07\n now"))
    assert isinstance(error, StatusError)
    assert (error.status, error.may_have_begun) == (status, False)
    assert f"HTTP {status}{')' if status == 405 else ''}: 'go away now'" in str(error)


async def test_server_error_status_has_unknown_outcome() -> None:
    error = await failure(replies(503))
    assert isinstance(error, StatusError)
    assert (error.status, error.may_have_begun, error.retry_after) == (503, True, None)
    assert "127.0.0.1" in str(error)


async def test_status_404_with_session_means_session_gone() -> None:
    error = await failure(replies(404), "2025-11-25")
    assert (error.session_is_gone, error.may_have_begun) == (True, False)
    assert "session" in str(error)


CHALLENGE = 'Bearer realm="mcp", resource_metadata="https://a.example/meta", scope="read"'


@each_row(("status", "challenge", "texts"), [
    (401, CHALLENGE, [
        "requires authentication", "token=",
        "Bearer, realm 'mcp', scope 'read', described at 'https://a.example/meta'",
    ]),
    (403, 'Bearer error="insufficient_scope", scope="write"',
     ["denied access (HTTP 403)", "scope 'write'", ": 'no'"]),
])  # fmt: skip
async def test_status_401_and_403_name_challenge(status: int, challenge: str, texts: list[str]) -> None:
    error = await failure(replies(status, b"no", www_authenticate=challenge))
    assert isinstance(error, AuthorizationError)
    assert (error.status, error.challenge, error.may_have_begun) == (status, challenge, False)
    assert [text for text in texts if text not in str(error)] == []


async def streams_without_end(request: HttpRequest, reply: Reply) -> None:
    await reply.begin_stream()
    while True:
        await reply.chunk(b"data: " + b"x" * 10_000)


async def sends_without_end(request: HttpRequest, reply: Reply) -> None:
    await reply.raw(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")
    while True:
        await reply.raw(b"[" * 10_000)


@pytest.mark.parametrize("script", [sends(b" " * (MOST + 1)), sends_without_end, streams_without_end])
async def test_response_larger_than_max_answer_is_error(script: Script) -> None:
    error = await failure(script, "2025-11-25")
    assert f"more than {MOST:,} bytes" in str(error)
    assert "max_answer=" in str(error)
    assert (error.may_have_begun, error.may_pass) == (True, False)


@pytest.mark.long
async def test_compressed_response_limit_is_on_decompressed_size() -> None:
    packer = zlib.compressobj(9, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    bomb = b"".join(packer.compress(b" " * 2**20) for _ in range(50)) + packer.flush()
    tracemalloc.start()
    try:
        error = await failure(sends(bomb, content_encoding="gzip"))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert "more than" in str(error)
    assert peak < 20 * 2**20


async def test_response_cut_is_error() -> None:
    async def script(request: HttpRequest, reply: Reply) -> None:
        await reply.send(200, b'{"jsonrpc": "2.0"', {"Content-Type": "application/json"}, length=100)
        reply.cut()

    error = await failure(script, "2025-11-25")
    assert "was lost before the response was complete" in str(error)
    assert error.may_have_begun


def date(seconds: int = 0) -> str:
    return format_datetime(NOW + timedelta(seconds=seconds), usegmt=True)


@each_row(("retry_after", "headers", "seconds"), [
    ("0", {}, 0), (date(90), {"date": date()}, 90), (date(-90), {"date": date()}, 0), (date(), {}, 0),
    *[(malformed, {}, None) for malformed in ("-5", "1.5", "soon", "9" * 500, "Wed, 99 Foo 2020", "")],
])  # fmt: skip
async def test_retry_after_is_parsed(retry_after, headers, seconds) -> None:
    headers = {"retry_after": retry_after, **headers}
    assert (await failure(replies(429, **headers))).retry_after == seconds


REVISION = "2025-11-25"
CHANGED = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}


class Connections:
    """A script with a step for each connection; the last step is repeated.

    Attributes:
        requests: The requests that came.
        times: When each step began and ended.
    """

    def __init__(self, *steps: Script) -> None:
        self.requests: list[HttpRequest] = []
        self.times: list[float] = []
        self._steps = list(steps)

    async def __call__(self, request: HttpRequest, reply: Reply) -> None:
        step = self._steps.pop(0) if len(self._steps) > 1 else self._steps[0]
        self.requests.append(request)
        self.times.append(time.monotonic())
        await step(request, reply)
        self.times.append(time.monotonic())

    def headers(self, name: str) -> list[str | None]:
        return [request.headers.get(name) for request in self.requests]


async def call_done(request: HttpRequest, reply: Reply) -> None:
    await reply.result(text("done"))


async def waits(request: HttpRequest, reply: Reply) -> None:
    await reply.hang_up()


def streams(message: Any = None, *, ends: bool = True, **event: Any) -> Script:
    """Send one event of a stream, and end the stream or break it off."""

    async def step(request: HttpRequest, reply: Reply) -> None:
        await reply.begin_stream()
        await reply.event(message, **event)
        if event and not ends:
            await reply.chunk(b"id: place-2\ndata: {")
        if ends:
            await reply.end_stream()
        else:
            reply.cut()

    return step


async def test_session_id_is_sent_and_session_deleted() -> None:
    async with scripted(greeting(call_done)) as server, client(server, REVISION) as opened:
        await opened.call_tool("bake")
        await opened.close()
        first, *rest = server.asked
    assert first.rpc == "initialize"
    assert not first.headers.keys() & {"mcp-session-id", "mcp-protocol-version"}
    assert {request.headers["mcp-session-id"] for request in rest} == {SESSION}
    assert {request.headers["mcp-protocol-version"] for request in rest} == {REVISION}
    assert [request.method for request in rest].count("GET") == 1
    assert rest[-1].method == "DELETE"


async def test_session_id_invalid_is_refused() -> None:
    async with scripted(greeting(call_done, session="a b")) as server:
        with pytest.raises(TransportError, match="visible ASCII"):
            await client(server, REVISION).__aenter__()


async def test_session_stream_resumes_with_last_event_id(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_stream, "RETRY", 3600.0)

    async def stays(request: HttpRequest, reply: Reply) -> None:
        await reply.begin_stream()
        await reply.event(CHANGED)
        await reply.hang_up()

    stream = Connections(streams(CHANGED, id_="a", retry=120), streams(CHANGED, retry=60), stays)
    async with scripted(greeting(call_done, stream=stream)) as server:
        transport = HttpTransport(server.url)
        missed: list[None] = []
        transport.missed.add(lambda: missed.append(None))
        async with Client(transport, protocol_version=REVISION):
            await until(lambda: len(stream.requests) == 3)
    assert stream.headers("last-event-id") == [None, "a", "a"]
    assert missed == []
    _, ended, began, ended_again, began_again, *_ = stream.times
    assert began - ended >= 0.118
    assert began_again - ended_again >= 0.058


async def test_session_stream_404_means_session_gone() -> None:
    stream = Connections(streams(CHANGED, retry=50), replies(404))
    async with scripted(greeting(waits, stream=stream)) as server:
        async with client(server, REVISION) as opened:
            with pytest.raises(StatusError, match="session") as caught:
                await opened.call_tool("bake", retry=True)
            assert caught.value.session_is_gone
            assert not opened._session.is_open
        assert not server.of("DELETE")
        await until(lambda: not server.open)


async def call(first: Script, resumed: Connections, revision: str = REVISION) -> Any:
    """Call a tool with a response in parts: that to the POST, then those to later GETs."""

    async def get(request: HttpRequest, reply: Reply) -> None:
        await (resumed if "last-event-id" in request.headers else replies(405))(request, reply)

    async with scripted(greeting(first, stream=get)) as server, client(server, revision) as opened:
        return await opened.call_tool("bake", retry=True)


PLACE = {"id_": "place-1", "retry": 10}


@pytest.mark.parametrize(("ends", "revision"), [(True, "2025-03-26"), (False, "2025-11-25")])
async def test_response_resumes_on_next_connection(ends: bool, revision: str) -> None:
    ids: list[Any] = []

    async def first(request: HttpRequest, reply: Reply) -> None:
        ids.append(request.message["id"])
        await streams(ends=ends, **PLACE)(request, reply)

    async def answer(request: HttpRequest, reply: Reply) -> None:
        message = {"jsonrpc": "2.0", "id": ids[0], "result": text("done")}
        await streams(message, id_="place-3")(request, reply)

    resumed = Connections(answer)
    assert (await call(first, resumed, revision)).text == "done"
    assert resumed.headers("last-event-id") == ["place-1"]
    assert resumed.headers("mcp-session-id") == [SESSION]
    assert resumed.headers("mcp-protocol-version") == [revision]
    assert resumed.headers("accept") == ["text/event-stream"]


@pytest.mark.parametrize(("revision", "ends"), [("2025-11-25", True), ("2026-07-28", False)])
async def test_response_without_ids_is_lost(revision: str, ends: bool) -> None:
    resumed = Connections(replies(405))
    with pytest.raises(TransportError) as caught:
        await call(streams({"jsonrpc": "2.0", "method": "notifications/x"}, ends=ends), resumed, revision)
    assert ("ended before the response" if ends else "was lost before the response") in str(caught.value)
    assert caught.value.may_have_begun
    assert resumed.requests == []


async def test_response_resume_gives_up() -> None:
    resumed = Connections(replies(503))
    with pytest.raises(TransportError) as caught:
        await call(streams(**PLACE), resumed)
    assert caught.value.may_have_begun
    assert len(resumed.requests) == http_stream.MAX_FAILURES


# HTTP requests of a client: headers, credentials, redirects, TLS, proxies, and arguments repeated in headers


SECRET = "very-secret"


async def done(request: HttpRequest, reply: Reply) -> None:
    await reply.result(text("done"))


def redirects_to(where: str, status: int = 307) -> Script:
    async def script(request: HttpRequest, reply: Reply) -> None:
        if request.target == "/mcp":
            await reply.send(status, b"it has moved", {"Location": where})
        else:
            await greeting(done)(request, reply)

    return script


async def test_redirect_within_origin_is_followed() -> None:
    async with scripted(redirects_to("/mcp/", 308)) as server:
        async with Client(HttpTransport(server.url, token=SECRET)) as client:
            assert (await client.call_tool("bake")).text == "done"
        assert {each.headers["authorization"] for each in server.asked} == {f"Bearer {SECRET}"}


@pytest.mark.parametrize(("status", "credentials"), [(307, {}), (308, {"token": SECRET})])
async def test_redirect_to_other_origin_is_refused(status: int, credentials: dict[str, str]) -> None:
    async with scripted(greeting(done)) as other:
        elsewhere = f"{other.url}?code={SECRET}"
        async with scripted(redirects_to(elsewhere, status)) as server:
            with pytest.raises(StatusError, match="does not follow") as caught:
                await Client(HttpTransport(server.url, **credentials)).__aenter__()
        assert other.asked == []
    assert other.url in str(caught.value)
    assert SECRET not in str(caught.value)
    assert not caught.value.may_have_begun


async def test_tls_unknown_authority_is_error(tmp_path: Path) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*CertificateAuthority(tmp_path).certificate("server"))
    async with scripted(greeting(done), tls=context) as server:
        with pytest.raises(TransportError, match=r"certificate.*verify=") as caught:
            await Client(HttpTransport(server.url)).__aenter__()
    assert not caught.value.may_have_begun


@pytest.mark.parametrize("by_environment", [True, False])
async def test_proxy_is_used(by_environment: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    async with scripted(greeting(done)) as proxy:
        options = {"proxy": proxy.url.replace("http://", f"http://me:{SECRET}@")}
        if by_environment:
            options = {}
            monkeypatch.setenv("HTTP_PROXY", proxy.url)
        async with Client(HttpTransport("http://server.example/mcp?x=1", **options)) as client:
            assert (await client.call_tool("bake")).text == "done"
        assert {request.target for request in proxy.asked} == {"http://server.example/mcp?x=1"}
        has_credentials = {"proxy-authorization" in request.headers for request in proxy.asked}
        assert has_credentials == {not by_environment}


async def test_http_secrets_are_not_shown() -> None:
    async def script(request: HttpRequest, reply: Reply) -> None:
        await reply.send(401)

    async with scripted(script) as server:
        url = server.url.replace("http://", f"http://user:{SECRET}@") + f"/{SECRET}?key={SECRET}#{SECRET}"
        transport = HttpTransport(url, headers={"X-Key": SECRET})
        with pytest.raises(AuthorizationError) as refused:
            await Client(transport).__aenter__()
    with pytest.raises(TransportError) as unreachable:
        await Client(transport).__aenter__()
    for displayed in (transport, refused.value, unreachable.value):
        assert SECRET not in f"{displayed!r} {displayed}"


@each_row(("method", "params", "name"), [
    ("tools/list", {}, None), ("prompts/get", {"name": "a prompt"}, "a prompt"),
    ("resources/read", {"uri": "file:///a%20b.txt"}, "file:///a%20b.txt"),
    ("tools/call", {"name": "værktøj"}, "=?base64?dsOmcmt0w7hq?="),
    ("tools/call", {"name": "a\r\nX-Other: 1"}, "=?base64?YQ0KWC1PdGhlcjogMQ==?="),
    ("tools/call", {"name": ""}, ""), ("tools/call", {"name": 5}, None),
    ("completion/complete", {"name": "x", "uri": "y"}, None),
])  # fmt: skip
async def test_stateless_request_has_method_and_name_headers(method, params, name) -> None:
    async with scripted(greeting(done)) as server:
        async with Client(HttpTransport(server.url), protocol_version="2026-07-28") as client:
            await client.request(method, params)
        [sent] = server.of("POST", method)
    assert sent.headers["mcp-method"] == method
    assert sent.headers.get("mcp-name") == name
    assert "x-other" not in sent.headers


PROPERTIES: dict[str, Any] = {
    "region": {"type": "string", "x-mcp-header": "Region"},
    "count": {"type": "integer", "x-mcp-header": "Count"},
    "deep": {"type": "object", "properties": {"flag": {"type": "boolean", "x-mcp-header": "Deep-Flag"}}},
    "plain": {"type": "string"},
}


class Shop:
    """A server over HTTP with tools that a test sets.

    Attributes:
        tools: The tools, by name: the properties of their arguments.
        listed: How often they were listed.
        calls: The headers of arguments of each call.
    """

    def __init__(self, tools: dict[str, Any]) -> None:
        self.tools = tools
        self.listed = 0
        self.calls: list[dict[str, str]] = []

    async def __call__(self, request: HttpRequest, reply: Reply) -> None:
        if request.rpc == "tools/list":
            self.listed += 1
            schemas = {name: {"type": "object", "properties": each} for name, each in self.tools.items()}
            tools = [{"name": name, "inputSchema": schema} for name, schema in schemas.items()]
            await reply.result({"resultType": "complete", "tools": tools})
            return
        if request.rpc == "tools/call":
            headers = request.headers.items()
            self.calls.append({name: value for name, value in headers if name.startswith("mcp-param-")})
        await greeting(done)(request, reply)


@pytest.mark.parametrize("is_listed", [True, False], ids=["listed before", "never listed"])
async def test_header_arguments_are_sent(is_listed: bool) -> None:
    shop = Shop({"buy": PROPERTIES})
    async with scripted(shop) as server, Client(server.url) as client:
        if is_listed:
            await client.list_tools()
        await client.call_tool("buy", {"region": "north", "count": 42, "deep": {"flag": False}, "plain": "x"})
        await client.call_tool("buy", {"region": "Tromsø ", "count": None, "deep": {"flag": True}})
        await client.call_tool("buy", {"region": "=?base64?x?=", "count": 3.0, "deep": None})
        await client.call_tool("buy")
    assert shop.calls == [
        {"mcp-param-region": "north", "mcp-param-count": "42", "mcp-param-deep-flag": "false"},
        {"mcp-param-region": "=?base64?VHJvbXPDuCA=?=", "mcp-param-deep-flag": "true"},
        {"mcp-param-region": "=?base64?PT9iYXNlNjQ/eD89?=", "mcp-param-count": "3"},
        {},
    ]
    assert shop.listed == 1


@pytest.mark.parametrize(("schema", "why"), [
    *[({"a": {"type": "string", "x-mcp-header": name}}, "not a valid HTTP header name")
      for name in ("", "a b", "a\r\nb", 5)],
    ({"a": {"type": "number", "x-mcp-header": "A"}}, "does not support this type"),
    ({"a": {"type": "string", "x-mcp-header": "A"}, "b": {"type": "string", "x-mcp-header": "a"}},
     "already has the header"),
    ({"a": {"type": "array", "items": {"type": "string", "x-mcp-header": "A"}}},
     "where clients cannot find a single value"),
    ({"a": {"anyOf": [{"type": "string", "x-mcp-header": "A"}]}}, "where clients cannot find a single value"),
])  # fmt: skip
async def test_tools_with_invalid_header_rules_are_left_out(schema, why, caplog) -> None:
    shop = Shop({"bad": schema, "good": PROPERTIES})
    async with scripted(shop) as server, Client(server.url) as client:
        for _ in range(2):
            assert [tool["name"] for tool in await client.list_tools(use_cache=False)] == ["good"]
        assert list(await client.tools()) == ["good"]
        await client.call_tool("good", {"region": "north"})
    assert len(caplog.records) == 1
    assert "the server's tool bad does not follow" in caplog.text
    assert why in caplog.text
