"""HTTP requests of a client: headers, credentials, redirects, TLS, proxies, and arguments repeated in headers."""

import ssl
from pathlib import Path
from typing import Any

import pytest

from mcpkit import Client
from mcpkit.client.http.http_transports import HttpTransport
from mcpkit.exceptions import AuthorizationError, StatusError, TransportError
from tests.helpers.scripted_http import HttpRequest, Reply, Script, greeting, scripted, text
from tests.helpers.signed_tokens import CertificateAuthority
from tests.helpers.tables import each_row

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
