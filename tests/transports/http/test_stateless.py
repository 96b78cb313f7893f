"""Streamable HTTP of 2026-07-28: each POST is independent; codes and statuses of errors."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest

from mcpkit import HttpOptions, Server
from mcpkit.extensions import ParamHeader
from tests.helpers.pipe import HANDSHAKE, META, stateless_meta
from tests.helpers.raw_client import REVISION, Client, Serve, request, serving, standard_headers, text_of
from tests.helpers.waiting import Work

pytestmark = pytest.mark.anyio


async def test_session_id_and_last_event_id_are_ignored(client: Client) -> None:
    for id_ in ("none-of-ours", (await client.initialize()).id):
        headers = {"mcp-session-id": id_, "last-event-id": "7"}
        answer = await client.call_tool("envelope", headers=headers).whole()
        assert text_of(answer.json()).startswith("2026-07-28")
        assert "mcp-session-id" not in answer.headers


@pytest.mark.parametrize(
    "message",
    [
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}},
        {"jsonrpc": "2.0", "method": "notifications/unknown"},
        {"jsonrpc": "2.0", "method": "notifications/unknown", "params": {"_meta": stateless_meta()}},
        {"jsonrpc": "2.0", "method": "tools/list"},
    ],
)
async def test_notification_is_accepted_without_body(message: dict[str, Any], client: Client) -> None:
    answer = await client.post(message, {"mcp-protocol-version": REVISION}).whole()
    assert (answer.status, answer.body) == (202, b"")
    assert "content-type" not in answer.headers


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "OPTIONS"])
async def test_other_methods_are_not_allowed(method: str, client: Client) -> None:
    for path in ("/mcp", "/mcp/"):
        answer = await client.open(method, path, headers={"mcp-protocol-version": REVISION}).whole()
        assert answer.status == 405
        assert answer.headers["allow"] == "POST"


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_unknown_version_is_bad_request_for_any_method(method: str, client: Client) -> None:
    answer = await client.open(method, headers={"mcp-protocol-version": "v999.0.0"}).whole()
    assert (answer.status, answer.error()["code"]) == (400, -32022)


async def test_notification_before_response_starts_stream(client: Client, work: Work) -> None:
    meta = {"progressToken": "p", META + "logLevel": "debug"}
    answer = client.call_tool("log_then_wait", meta=meta)
    first = await answer.message()
    assert first["method"] == "notifications/message"
    assert answer.status == 200
    assert answer.headers["x-accel-buffering"] == "no"
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
        assert (answer.status, answer.media_type) == (200, "application/json")
        assert text_of(answer.json()) == "done"


async def test_listen_requires_accept_stream(client: Client) -> None:
    answer = client.ask("subscriptions/listen", {"notifications": {}}, headers={"accept": "application/json"})
    assert (await answer.whole()).status == 400
    assert "text/event-stream" in answer.error()["message"]


async def test_headers_must_match_body(server: Server, serve: Serve) -> None:
    cases: list[tuple[dict[str, Any], int]] = [
        ({}, 200), ({"mcp-protocol-version": f"  {REVISION} \t"}, 200),
        ({"mcp-method": " tools/call "}, 200), ({"mcp-name": "  region  "}, 200),
        ({"mcp-name": "=?base64?cmVnaW9u?="}, 200), ({"mcp-param-region": "=?base64?dXMtd2VzdDE=?="}, 200),
        ({"mcp-param-unknown": "\x00"}, 200), ({"mcp-method": None}, 400),
        ({"mcp-method": "TOOLS/CALL"}, 400), ({"mcp-method": "tools/list"}, 400),
        ({"mcp-name": None}, 400), ({"mcp-name": "echo"}, 400), ({"mcp-name": "Region"}, 400),
        ({"mcp-name": "=?base64?cmVnaW9u="}, 400), ({"mcp-name": "r\xe9gion".encode("latin-1")}, 400),
        ({"mcp-param-region": None}, 400), ({"mcp-param-region": "eu"}, 400),
        ({"mcp-param-region": "us-west1\x01"}, 400), ({"mcp-param-region": "=?base64?dXMtd2VzdDE?="}, 400),
    ]  # fmt: skip
    async with serve(server) as client:
        for changes, status in cases:
            headers = {"mcp-param-region": "us-west1"} | changes
            answer = await client.call_tool("region", {"region": "us-west1"}, headers=headers).whole()
            assert answer.status == status, changes
            if status == 400:
                assert (answer.error()["code"], answer.json()["id"]) == (-32020, 1), changes
            else:
                assert text_of(answer.json()) == "us-west1", changes


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


@pytest.mark.parametrize("is_explicit", [False, True])
async def test_header_argument_in_json_text_is_checked(schema_dir: Path, is_explicit: bool) -> None:
    server, looked = Server("s"), []

    if is_explicit:
        region = {"type": "string", "x-mcp-header": "Region"}
        inner = {"type": "object", "properties": {"region": region}}

        @server.tool(input_schema={"type": "object", "properties": {"place": inner}})
        async def look(arguments: dict[str, Any]) -> None:
            looked.append(arguments["place"]["region"])

    else:

        @server.tool(name="look")
        async def look_at(place: Place) -> None:
            looked.append(place.region)

    async with serving(server, schema_dir) as client:
        for headers in ({}, {"mcp-param-region": "us"}):
            hidden = await client.call_tool("look", {"place": '{"region": "eu"}'}, headers=headers).whole()
            assert (hidden.status, looked) == (400 if headers else 200, [])
        actual = client.call_tool("look", {"place": {"region": "eu"}}, headers={"mcp-param-region": "eu"})
        assert ((await actual.whole()).status, looked) == (200, ["eu"])


VERSIONS = [None, "", *HANDSHAKE, REVISION, "2099-01-01", "v999.0.0", f"{REVISION}, {REVISION}"]


async def test_version_header_and_meta_select_protocol(client: Client) -> None:
    for header in VERSIONS:
        for named in (None, *HANDSHAKE, REVISION, "v999.0.0", "", 7):
            meta = {META + "clientCapabilities": {}}
            if named is not None:
                meta[META + "protocolVersion"] = named
            if named is None:
                # -32600 is what the handshake era says of a request without a session.
                expected = (
                    -32600 if header in {None, *HANDSHAKE} else -32602 if header == REVISION else -32022
                )
            elif not isinstance(named, str):
                expected = -32602
            elif header != named:
                expected = -32020
            else:
                expected = None if named == REVISION else -32022
            headers = {"mcp-protocol-version": header, "mcp-method": "tools/list"}
            answer = await client.post(request("tools/list", {"_meta": meta}), headers).whole()
            body = answer.json()
            assert body.get("error", {}).get("code") == expected, (header, named, body)
            assert answer.status == (200 if expected is None else 400)
            if expected == -32022:
                requested = header if named is None else named
                assert body["error"]["data"] == {"supported": [REVISION], "requested": requested}
            if expected != -32600:
                assert body["id"] == 1


async def test_invalid_json_is_parse_error(server: Server, serve: Serve) -> None:
    cases: list[Any] = [
        b"", b"{", b"{}x", b"nonsense", b"\xff", b"\xef\xbb\xbf", b"\xef\xbb\xbf" * 2 + b"{}",
        b'{"id": NaN}', b'"\\ud800"', b"[1e400]",
    ]  # fmt: skip
    async with serve(server) as client:
        for body in cases:
            answer = await client.post(body, standard_headers("tools/list")).whole()
            assert (answer.status, answer.error()["code"]) == (400, -32700)
            assert "id" not in answer.json()


async def test_invalid_message_is_invalid_request(server: Server, serve: Serve) -> None:
    cases: list[Any] = [
        (7, None),
        ({"jsonrpc": "2.0", "id": 1}, None),
        ({"id": 1, "method": "tools/list"}, 1),
        ({"jsonrpc": "2.0", "id": None, "method": "tools/list"}, None),
        ({"jsonrpc": "2.0", "id": 1, "result": {}}, None),
        ([request("tools/list")], None),
    ]
    async with serve(server) as client:
        for message, id_ in cases:
            answer = await client.post(message, standard_headers("tools/list")).whole()
            assert answer.status == 400
            assert answer.error()["code"] == -32600
            assert answer.json().get("id") == id_


async def test_malformed_params_are_bad_request(server: Server, serve: Serve) -> None:
    cases: list[Any] = [
        ("tools/list", []),
        ("tools/list", {}),
        ("tools/list", {"_meta": {META + "protocolVersion": REVISION}}),
        ("tools/list", {"_meta": stateless_meta() | {"progressToken": {}}}),
        ("tools/call", {"_meta": stateless_meta(), "name": "echo", "arguments": []}),
        ("subscriptions/listen", {"_meta": stateless_meta()}),
        ("subscriptions/listen", {"_meta": stateless_meta(), "notifications": {"toolsListChanged": 1}}),
    ]
    async with serve(server) as client:
        for method, params in cases:
            headers = standard_headers(method, "echo")
            answer = await client.post(request(method, params), headers).whole()
            assert (answer.status, answer.error()["code"]) == (400, -32602), answer.body
            assert answer.json()["id"] == 1


async def test_missing_client_capability_is_named(client: Client) -> None:
    for answer in (client.call_tool("sample"), client.ask("prompts/get", {"name": "requires_sampling"})):
        await answer.whole()
        assert (answer.status, answer.error()["code"]) == (400, -32021)
        assert answer.error()["data"] == {"requiredCapabilities": {"sampling": {}}}
    meta = {META + "clientCapabilities": {"sampling": {}}}
    assert (await client.call_tool("sample", meta=meta).whole()).status == 200


AsgiMessage = MutableMapping[str, Any]


async def test_receive_failure_cancels_call(server: Server, serve: Serve, work: Work) -> None:
    async with serve(server, http=HttpOptions(sse_after=0)) as client:
        app, broken = client.app, asyncio.Event()

        async def deaf(scope: AsgiMessage, receive: Any, send: Any) -> None:
            has_body = False

            async def hear() -> AsgiMessage:
                nonlocal has_body
                if not has_body:
                    has_body = True
                    message: AsgiMessage = await receive()
                    return message
                await broken.wait()
                raise OSError("gone")

            await app(scope, hear, send)

        client.app = deaf
        answer = client.call_tool("wait")
        await work.started.wait()
        broken.set()
        await asyncio.wait_for(work.cancelled.wait(), 10)
        client.opened.remove(answer)
        await asyncio.wait({answer.task}, timeout=10)
        assert server.engine.runtime.running.taken == 0
