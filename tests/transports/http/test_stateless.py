"""Streamable HTTP of 2026-07-28: each POST is independent; codes and statuses of errors, also of extensions."""

from dataclasses import dataclass
from typing import Annotated, Any

import pytest

from mcpkit import Access, HttpOptions, Principal, ProtocolError, Server
from mcpkit.extensions import ParamHeader
from tests.helpers.pipe import HANDSHAKE, META, stateless_meta
from tests.helpers.raw_client import (
    REVISION,
    Answer,
    Client,
    Serve,
    call_params,
    request,
    standard_headers,
    text_of,
)
from tests.helpers.servers.protected import Lenient
from tests.helpers.tables import each_row
from tests.helpers.waiting import Work


async def test_session_id_and_last_event_id_are_ignored(client: Client) -> None:
    for id_ in ("unknown", (await client.initialize()).id):
        headers = {"mcp-session-id": id_, "last-event-id": "7"}
        answer = await client.call_tool("envelope", headers=headers).whole()
        assert text_of(answer.json()).startswith("2026-07-28")
        assert "mcp-session-id" not in answer.headers


@each_row("message", [
    {"method": "notifications/cancelled", "params": {"requestId": 1}},
    {"method": "notifications/unknown"},
    {"method": "notifications/unknown", "params": {"_meta": stateless_meta()}},
    {"method": "tools/list"},
])  # fmt: skip
async def test_notification_is_accepted_without_body(message: dict[str, Any], client: Client) -> None:
    answer = await client.post({"jsonrpc": "2.0", **message}, {"mcp-protocol-version": REVISION}).whole()
    assert (answer.status, answer.body, "content-type" in answer.headers) == (202, b"", False)


async def test_other_methods_are_not_allowed(client: Client) -> None:
    for method in ("GET", "DELETE", "PUT", "OPTIONS"):
        for path in ("/mcp", "/mcp/"):
            answer = await client.open(method, path, headers={"mcp-protocol-version": REVISION}).whole()
            assert (answer.status, answer.headers["allow"]) == (405, "POST"), (method, path)
    for method in ("GET", "DELETE"):
        answer = await client.open(method, headers={"mcp-protocol-version": "v999.0.0"}).whole()
        assert (answer.status, answer.error()["code"]) == (400, -32022)


async def test_notification_before_response_starts_stream(client: Client, work: Work) -> None:
    meta = {"progressToken": "p", META + "logLevel": "debug"}
    answer = client.call_tool("log_then_wait", meta=meta)
    first = await answer.message()
    assert first["method"] == "notifications/message"
    assert (answer.status, answer.headers["x-accel-buffering"]) == (200, "no")
    assert "no-cache" in answer.headers["cache-control"]
    assert not answer.is_over, "sent while the handler runs"
    work.gate.set()
    progress, response = await answer.messages()
    assert progress["params"]["progressToken"] == "p"
    assert text_of(response) == "done"
    assert (await answer.whole()).is_over, "the response ends the stream"


async def test_idle_stream_sends_comments(server: Server, serve: Serve, work: Work) -> None:
    async with serve(server, http=HttpOptions(sse_after=0, sse_ping_interval=0.001)) as client:
        answer = await client.call_tool("wait").head()
        for _ in range(3):
            await answer.comment()
        work.gate.set()
        assert [text_of(each) for each in await answer.messages()] == ["waited"]


@pytest.mark.parametrize("accept", ["application/json", "text/html, application/*;q=0.9"])
async def test_accept_json_only_gets_no_stream(accept: str, server: Server, serve: Serve, work: Work) -> None:
    async with serve(server, http=HttpOptions(sse_after=0)) as client:
        meta = {"progressToken": 1, META + "logLevel": "debug"}
        answer = client.call_tool("log_then_wait", meta=meta, headers={"accept": accept})
        await work.started.wait()
        work.gate.set()
        await answer.whole()
        assert (answer.status, text_of(answer.json())) == (200, "done")
        listen = client.ask("subscriptions/listen", {"notifications": {}}, headers={"accept": accept})
        assert (await listen.whole()).status == 400
        assert "text/event-stream" in listen.error()["message"]


@each_row(("changes", "status"), [
    ({}, 200), ({"mcp-protocol-version": f"  {REVISION} \t"}, 200),
    ({"mcp-method": " tools/call "}, 200), ({"mcp-name": "  region  "}, 200),
    ({"mcp-name": "=?base64?cmVnaW9u?="}, 200), ({"mcp-param-region": "=?base64?dXMtd2VzdDE=?="}, 200),
    ({"mcp-param-unknown": "\x00"}, 200), ({"mcp-method": None}, 400),
    ({"mcp-method": "TOOLS/CALL"}, 400), ({"mcp-method": "tools/list"}, 400),
    ({"mcp-name": None}, 400), ({"mcp-name": "echo"}, 400), ({"mcp-name": "Region"}, 400),
    ({"mcp-name": "=?base64?cmVnaW9u="}, 400), ({"mcp-name": "r\xe9gion".encode("latin-1")}, 400),
    ({"mcp-param-region": None}, 400), ({"mcp-param-region": "eu"}, 400),
    ({"mcp-param-region": "us-west1\x01"}, 400), ({"mcp-param-region": "=?base64?dXMtd2VzdDE?="}, 400),
])  # fmt: skip
async def test_headers_must_match_body(changes: dict[str, Any], status: int, client: Client) -> None:
    headers = {"mcp-param-region": "us-west1"} | changes
    answer = await client.call_tool("region", {"region": "us-west1"}, headers=headers).whole()
    assert answer.status == status
    if status == 400:
        assert (answer.error()["code"], answer.json()["id"]) == (-32020, 1)
    else:
        assert text_of(answer.json()) == "us-west1"


async def test_name_header_is_required_for_resources_and_prompts(client: Client) -> None:
    for method, params in (
        ("resources/read", {"uri": "weather://fixed"}),
        ("prompts/get", {"name": "plan", "arguments": {"city": "Rome"}}),
    ):
        assert (await client.ask(method, params).whole()).status == 200
        for name in (None, "other"):
            answer = await client.ask(method, params, headers={"mcp-name": name}).whole()
            assert (answer.status, answer.error()["code"]) == (400, -32020)


@dataclass
class Place:
    region: Annotated[str, ParamHeader("Region")]


async def test_header_argument_in_json_text_is_checked(serve: Serve) -> None:
    server, looked = Server("s"), list[str]()
    region = {"type": "string", "x-mcp-header": "Region"}
    place = {"type": "object", "properties": {"region": region}}

    @server.tool(input_schema={"type": "object", "properties": {"place": place}})
    async def by_schema(arguments: dict[str, Any]) -> None:
        looked.append(arguments["place"]["region"])

    @server.tool
    async def by_type(place: Place) -> None:
        looked.append(place.region)

    async with serve(server) as client:
        for name in ("by_schema", "by_type"):
            for headers, status in (({}, 200), ({"mcp-param-region": "us"}, 400)):
                hidden = client.call_tool(name, {"place": '{"region": "eu"}'}, headers=headers)
                assert ((await hidden.whole()).status, looked) == (status, [])
            headers = {"mcp-param-region": "eu"}
            answer = await client.call_tool(name, {"place": {"region": "eu"}}, headers=headers).whole()
            assert (answer.status, looked) == (200, ["eu"])
            looked.clear()


def version_error(header: str | None, named: Any) -> int | None:
    """Return the code of the error for a version in the header and one in `_meta`."""
    if named is None:
        if header in {None, *HANDSHAKE}:
            return -32600  # a request of a session, without a session
        return -32602 if header == REVISION else -32022
    if not isinstance(named, str):
        return -32602
    if header != named:
        return -32020
    return None if named == REVISION else -32022


@each_row("header", [None, "", *HANDSHAKE, REVISION, "2099-01-01", "v999.0.0", f"{REVISION}, {REVISION}"])
async def test_version_header_and_meta_select_protocol(header: str | None, client: Client) -> None:
    for named in (None, *HANDSHAKE, REVISION, "v999.0.0", "", 7):
        meta = {META + "clientCapabilities": {}}
        if named is not None:
            meta[META + "protocolVersion"] = named
        headers = {"mcp-protocol-version": header, "mcp-method": "tools/list"}
        answer = await client.post(request("tools/list", {"_meta": meta}), headers).whole()
        body, expected = answer.json(), version_error(header, named)
        assert (body.get("error", {}).get("code"), answer.status) == (expected, 400 if expected else 200), (
            named
        )
        if expected == -32022:
            requested = header if named is None else named
            assert body["error"]["data"] == {"supported": [REVISION], "requested": requested}
        if expected != -32600:
            assert body["id"] == 1


@each_row(("body", "code", "id_"), [
    *(
        (body, -32700, None)
        for body in (
            b"", b"{", b"{}x", b"nonsense", b"\xff", b"\xef\xbb\xbf", b"\xef\xbb\xbf" * 2 + b"{}",
            b'{"id": NaN}', b'"\\ud800"', b"[1e400]",
        )
    ),
    (7, -32600, None),
    ({"jsonrpc": "2.0", "id": 1}, -32600, None),
    ({"id": 1, "method": "tools/list"}, -32600, 1),
    ({"jsonrpc": "2.0", "id": None, "method": "tools/list"}, -32600, None),
    ({"jsonrpc": "2.0", "id": 1, "result": {}}, -32600, None),
    ([request("tools/list")], -32600, None),
    *(
        (request("tools/list", params), -32602, 1)
        for params in (
            [], {}, {"_meta": {META + "protocolVersion": REVISION}},
            {"_meta": stateless_meta() | {"progressToken": {}}},
        )
    ),
    (request("tools/call", call_params("echo") | {"arguments": []}), -32602, 1),
    (request("subscriptions/listen", {"_meta": stateless_meta()}), -32602, 1),
    (
        request("subscriptions/listen", {"_meta": stateless_meta(), "notifications": {"toolsListChanged": 1}}),
        -32602, 1,
    ),
])  # fmt: skip
async def test_malformed_body_is_bad_request(body: Any, code: int, id_: int | None, client: Client) -> None:
    method = body.get("method", "tools/list") if isinstance(body, dict) else "tools/list"
    answer = await client.post(body, standard_headers(method, "echo")).whole()
    assert (answer.status, answer.error()["code"], answer.json().get("id")) == (400, code, id_)


async def test_missing_client_capability_is_named(client: Client) -> None:
    for answer in (client.call_tool("sample"), client.ask("prompts/get", {"name": "requires_sampling"})):
        await answer.whole()
        assert (answer.status, answer.error()["code"]) == (400, -32021)
        assert answer.error()["data"] == {"requiredCapabilities": {"sampling": {}}}
    meta = {META + "clientCapabilities": {"sampling": {}}}
    assert (await client.call_tool("sample", meta=meta).whole()).status == 200


ID = "com.example/thing"


@pytest.fixture
def extension_server() -> Server:
    server = Server("s")
    thing = server.extension(ID, {"max": 3})

    @thing.method("thing/get", name_param="id")
    async def get(id: str) -> dict[str, str]:
        if id == "unknown":
            raise ProtocolError(-32602, "There is no such thing")
        if id == "broken":
            raise KeyError(id)
        return {"id": id}

    @thing.method("thing/secret", name_param="id", access=Access(visible=lambda who: who.id == "ada"))
    async def secret(id: str) -> dict[str, str]:
        return {"id": id}

    @server.method("thing/free")
    async def free(count: int = 1) -> dict[str, int]:
        return {"count": count}

    return server


async def ask_extension(
    client: Client, method: str, params: dict[str, Any], name: str | None = None
) -> Answer:
    meta = {"io.modelcontextprotocol/clientCapabilities": {"extensions": {ID: {}}}}
    answer = client.ask(method, params, headers={"mcp-name": name}, meta=meta)
    answer.judge = Lenient(client)
    return await answer.whole()


@each_row(("method", "params", "name", "status", "code"), [
    ("thing/other", {}, None, 404, -32601), ("thing/secret", {"id": "a"}, None, 404, -32601),
    ("thing/get", {}, None, 400, -32602), ("thing/get", {"id": 7}, None, 400, -32602),
    ("thing/get", {"id": "unknown"}, "unknown", 200, -32602),
    ("thing/get", {"id": "broken"}, "broken", 200, -32603), ("thing/get", {"id": "a"}, None, 400, -32020),
    ("thing/get", {"id": "a"}, "=?base64?Yg==?=", 400, -32020),
    ("thing/free", {"count": "many"}, None, 400, -32602),
])  # fmt: skip
async def test_extension_errors_have_protocol_statuses(
    method: str,
    params: dict[str, Any],
    name: str | None,
    status: int,
    code: int,
    extension_server: Server,
    serve: Serve,
) -> None:
    async with serve(extension_server) as client:
        answer = await ask_extension(client, method, params, name)
    assert (answer.status, answer.error()["code"]) == (status, code)


async def test_hidden_method_is_not_disclosed_by_headers(extension_server: Server, serve: Serve) -> None:
    async with serve(extension_server) as client:
        hidden = await ask_extension(client, "thing/secret", {"id": "a"}, "b")
        absent = await ask_extension(client, "thing/absent", {"id": "a"}, "b")
    assert (hidden.status, hidden.error()["code"]) == (absent.status, absent.error()["code"])
    async with serve(extension_server, http=HttpOptions(principal=lambda scope: Principal("ada"))) as client:
        seen = await ask_extension(client, "thing/secret", {"id": "a"}, "b")
        assert seen.error()["code"] == -32020
        seen = await ask_extension(client, "thing/secret", {"id": "a"}, "a")
        assert seen.json()["result"]["id"] == "a"
