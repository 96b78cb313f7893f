"""HTTP requests of a client: headers, credentials, redirects, TLS, proxies, and arguments repeated in headers."""

from __future__ import annotations

import ssl
from typing import Any

import pytest

from mcpkit import Client
from mcpkit.client.transports.http.streamable_http import HttpTransport
from mcpkit.exceptions import AuthorizationError, StatusError, TransportError
from mcpkit.protocol.client import ClientWire, OutgoingMessage
from mcpkit.protocol.jsonrpc import RequestId
from tests.helpers.scripted_http import Asked, Reply, Script, greeting, scripted, text
from tests.helpers.signed_tokens import CertificateAuthority

pytestmark = pytest.mark.anyio


class Heard:
    """Takes the messages of a transport.

    Args:
        revision: The revision that is spoken.

    Attributes:
        wire: Makes messages, and knows which wait for their answers.
        lost_by: The errors by which the transport has said that nothing comes any more.
    """

    def __init__(self, revision: str) -> None:
        self.wire = ClientWire(revision, info={"name": "test", "version": "1"}, capabilities={})
        self.lost_by: list[Exception] = []

    def receive(self, line: bytes, request_id: object = None) -> None:
        self.wire.receive(line)

    def is_pending(self, id_: RequestId) -> bool:
        return id_ in self.wire.pending

    def connection_lost(self, error: Exception) -> None:
        self.lost_by.append(error)


SECRET = "very-secret"


async def done(asked: Asked, reply: Reply) -> None:
    await reply.result(text("done"))


def leads_to(where: str, status: int = 307) -> Script:
    async def script(asked: Asked, reply: Reply) -> None:
        if asked.target == "/mcp":
            await reply.send(status, b"it has moved", {"Location": where})
        else:
            await greeting(done)(asked, reply)

    return script


async def test_redirect_within_origin_is_followed() -> None:
    async with scripted(leads_to("/mcp/", 308)) as server:
        async with Client(HttpTransport(server.url, token=SECRET)) as client:
            assert (await client.call_tool("bake")).text == "done"
        assert {each.headers["authorization"] for each in server.asked} == {f"Bearer {SECRET}"}


@pytest.mark.parametrize(("status", "credentials"), [(307, {}), (308, {"token": SECRET})])
async def test_redirect_to_other_origin_is_refused(status: int, credentials: dict[str, str]) -> None:
    async with scripted(greeting(done)) as other:
        elsewhere = f"{other.url}?code={SECRET}"
        async with scripted(leads_to(elsewhere, status)) as server:
            with pytest.raises(StatusError, match="does not follow") as caught:
                await Client(HttpTransport(server.url, **credentials)).__aenter__()
        assert other.asked == []
    assert other.url in str(caught.value)
    assert SECRET not in str(caught.value)
    assert not caught.value.may_have_begun


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> CertificateAuthority:
    return CertificateAuthority(tmp_path_factory.mktemp("certificates"))


def serving_tls(authority: CertificateAuthority, *, asks: bool = False) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*authority.certificate("server"))
    if asks:
        context.load_verify_locations(authority.file)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


async def call_tls(server_tls: ssl.SSLContext, **options: Any) -> None:
    async with (
        scripted(greeting(done), tls=server_tls) as server,
        Client(HttpTransport(server.url, **options)) as client,
    ):
        assert (await client.call_tool("bake")).text == "done"


async def test_tls_unknown_authority_is_error(authority: CertificateAuthority) -> None:
    with pytest.raises(TransportError, match=r"certificate.*verify=") as caught:
        await call_tls(serving_tls(authority))
    assert not caught.value.may_have_begun


@pytest.mark.parametrize("by_environment", [True, False])
async def test_proxy_is_used(by_environment: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    async with scripted(greeting(done)) as proxy:
        options = {}
        if by_environment:
            monkeypatch.setenv("HTTP_PROXY", proxy.url)
        else:
            options["proxy"] = proxy.url.replace("http://", f"http://me:{SECRET}@")
        async with Client(HttpTransport("http://server.example/mcp?x=1", **options)) as client:
            assert (await client.call_tool("bake")).text == "done"
        assert {asked.target for asked in proxy.asked} == {"http://server.example/mcp?x=1"}
        assert all(("proxy-authorization" in asked.headers) is not by_environment for asked in proxy.asked)


async def test_http_secrets_are_not_shown() -> None:
    async def script(asked: Asked, reply: Reply) -> None:
        await reply.send(401)

    async with scripted(script) as server:
        url = server.url.replace("http://", f"http://user:{SECRET}@") + f"/{SECRET}?key={SECRET}#{SECRET}"
        transport = HttpTransport(url, headers={"X-Key": SECRET})
        assert SECRET not in repr(transport)

        with pytest.raises(AuthorizationError) as caught:
            await Client(transport).__aenter__()
    with pytest.raises(TransportError) as away:
        await Client(HttpTransport(url, headers={"X-Key": SECRET})).__aenter__()
    assert SECRET not in f"{caught.value!r}{caught.value}{away.value!r}{away.value}"


STATELESS = "2026-07-28"


async def accept(asked: Asked, reply: Reply) -> None:
    if asked.body and "id" in asked.message:
        await reply.result({}, {"Mcp-Session-Id": "not-asked-for"})
    else:
        await reply.send(202)


async def sent(received: Heard, *messages: OutgoingMessage) -> list[Asked]:
    """Return the requests that messages have become."""
    async with scripted(accept) as server:
        transport = HttpTransport(server.url)
        await transport.open(received)
        for message in messages:
            await transport.send(message)
        await transport.close()
        return server.asked


@pytest.mark.parametrize(("method", "params", "name"), [
    ("tools/list", {}, None),
    ("tools/call", {"name": "a-tool"}, "a-tool"),
    ("prompts/get", {"name": "a prompt"}, "a prompt"),
    ("resources/read", {"uri": "file:///a%20b.txt"}, "file:///a%20b.txt"),
    ("tools/call", {"name": "værktøj"}, "=?base64?dsOmcmt0w7hq?="),
    ("tools/call", {"name": "a\r\nX-Other: 1"}, "=?base64?YQ0KWC1PdGhlcjogMQ==?="),
    ("tools/call", {"name": ""}, ""),
    ("tools/call", {"name": 5}, None),
    ("completion/complete", {"name": "x", "uri": "y"}, None),
])  # fmt: skip
async def test_stateless_request_has_method_and_name_headers(
    method: str, params: dict[str, Any], name: str | None
) -> None:
    received = Heard(STATELESS)
    [asked] = await sent(received, received.wire.request(method, params))
    assert asked.headers["mcp-method"] == method
    assert asked.headers.get("mcp-name") == name
    assert "x-other" not in asked.headers


PROPERTIES: dict[str, Any] = {
    "region": {"type": "string", "x-mcp-header": "Region"},
    "count": {"type": "integer", "x-mcp-header": "Count"},
    "deep": {"type": "object", "properties": {"flag": {"type": "boolean", "x-mcp-header": "Deep-Flag"}}},
    "plain": {"type": "string"},
}


class Shop:
    """A server over HTTP of either era, whose tools are what the test says.

    Args:
        tools: The tools, by name: the properties of their arguments.
        refuses: Whether calls whose header `Mcp-Param-Region` is missing are refused.
        revision: The revision that it speaks.
    """

    def __init__(self, tools: dict[str, Any], *, refuses: bool = False, revision: str = "2026-07-28") -> None:
        self.tools = tools
        self.refuses = refuses
        self.revision = revision
        self.listed = 0
        self.calls: list[dict[str, str]] = []

    async def __call__(self, asked: Asked, reply: Reply) -> None:
        if asked.rpc == "server/discover" and self.revision == "2026-07-28":
            await reply.result(
                {
                    "resultType": "complete",
                    "supportedVersions": [self.revision],
                    "capabilities": {"tools": {}},
                }
            )
        elif asked.rpc == "initialize":
            info = {"name": "shop", "version": "1"}
            await reply.result(
                {"protocolVersion": self.revision, "capabilities": {"tools": {}}, "serverInfo": info}
            )
        elif asked.rpc == "tools/list":
            self.listed += 1
            tools = [
                {"name": name, "inputSchema": {"type": "object", "properties": properties}}
                for name, properties in self.tools.items()
            ]
            await reply.result({"resultType": "complete", "tools": tools})
        elif asked.rpc == "tools/call":
            await self._call(asked, reply)
        elif asked.method == "POST" and asked.rpc == "notifications/initialized":
            await reply.send(202)
        else:
            await reply.send(405)

    async def _call(self, asked: Asked, reply: Reply) -> None:
        headers = {name: value for name, value in asked.headers.items() if name.startswith("mcp-param-")}
        self.calls.append(headers)
        if self.refuses and "mcp-param-region" not in headers:
            await reply.error(400, -32020, "Header mismatch: Mcp-Param-Region header is missing")
        else:
            await reply.result({"resultType": "complete", "content": [{"type": "text", "text": "sold"}]})


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
    ({"a": {"type": "string", "x-mcp-header": ""}}, "not a valid HTTP header name"),
    ({"a": {"type": "string", "x-mcp-header": "a b"}}, "not a valid HTTP header name"),
    ({"a": {"type": "string", "x-mcp-header": "a\r\nb"}}, "not a valid HTTP header name"),
    ({"a": {"type": "string", "x-mcp-header": 5}}, "not a valid HTTP header name"),
    ({"a": {"type": "number", "x-mcp-header": "A"}}, "does not support this type"),
    ({"a": {"type": "string", "x-mcp-header": "A"}, "b": {"type": "string", "x-mcp-header": "a"}},
     "already has the header"),
    ({"a": {"type": "array", "items": {"type": "string", "x-mcp-header": "A"}}},
     "where clients cannot find a single value"),
    ({"a": {"anyOf": [{"type": "string", "x-mcp-header": "A"}]}}, "where clients cannot find a single value"),
])  # fmt: skip
async def test_tools_with_invalid_header_rules_are_left_out(
    schema: Any, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    shop = Shop({"bad": schema, "good": PROPERTIES})
    async with scripted(shop) as server, Client(server.url) as client:
        for _ in range(2):
            assert [tool["name"] for tool in await client.list_tools(use_cache=False)] == ["good"]
        assert list(await client.tools()) == ["good"]
        await client.call_tool("good", {"region": "north"})
        await client.call_tool("good", {"region": "north"})
    assert len(caplog.records) == 1
    assert "the server's tool bad does not follow" in caplog.text
    assert why in caplog.text
