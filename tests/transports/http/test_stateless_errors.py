"""Errors of 2026-07-28 over HTTP: which code comes with which status (basic/transports/streamable-http)."""

from __future__ import annotations

from typing import Any

import pytest

from mcpkit import Server
from tests.helpers.asgi_client import Serve
from tests.helpers.pipe import META, REMOVED, stateless_meta
from tests.helpers.stateless_server import REVISION, request, standard_headers, text_of
from tests.helpers.work import Work

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"{}x",
        b"nonsense",
        b"\xff",
        b"\xef\xbb\xbf",
        b"\xef\xbb\xbf" * 2 + b"{}",
        b'{"id": NaN}',
        b'"\\ud800"',
        b"[1e400]",
    ],
)
async def test_what_is_no_json_is_a_parse_error(body: bytes, server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        answer = await client.post(body, standard_headers("tools/list")).whole()
        assert (answer.status, answer.error()["code"]) == (400, -32700)
        assert "id" not in answer.json()


@pytest.mark.parametrize("depth", [1_000, 100_000])
async def test_json_that_is_nested_too_deeply_is_a_parse_error(
    depth: int, server: Server, serve: Serve
) -> None:
    async with serve(server) as client:
        for opening, closing in ((b"[", b"]"), (b'{"a":', b"}")):
            answer = client.post(opening * depth + b"1" + closing * depth)
            assert (await answer.whole()).status == 400
            assert answer.error()["code"] == -32700


@pytest.mark.parametrize(
    ("message", "id_"),
    [
        (7, None),
        ("text", None),
        (None, None),
        ({}, None),
        ({"jsonrpc": "2.0"}, None),
        ({"jsonrpc": "2.0", "id": 1}, None),
        ({"id": 1, "method": "tools/list"}, 1),
        ({"jsonrpc": "1.0", "id": 1, "method": "tools/list"}, 1),
        ({"jsonrpc": "2.0", "id": 1, "method": 7}, 1),
        ({"jsonrpc": "2.0", "id": None, "method": "tools/list"}, None),
        ({"jsonrpc": "2.0", "id": 1.5, "method": "tools/list"}, None),
        ({"jsonrpc": "2.0", "id": True, "method": "tools/list"}, None),
        ({"jsonrpc": "2.0", "id": {}, "method": "tools/list"}, None),
        ({"jsonrpc": "2.0", "method": 7}, None),
        ({"jsonrpc": "2.0", "id": 1, "result": {}}, None),
        ({"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "no"}}, None),
        ([], None),
        ([request("tools/list")], None),
        ([{"jsonrpc": "2.0", "method": "notifications/initialized"}], None),
    ],
)
async def test_what_is_neither_request_nor_notification_is_invalid(
    message: Any, id_: Any, server: Server, serve: Serve
) -> None:
    async with serve(server) as client:
        answer = await client.post(message, standard_headers("tools/list")).whole()
        assert answer.status == 400
        assert answer.error()["code"] == -32600
        assert answer.json().get("id") == id_


@pytest.mark.parametrize(
    "method",
    [
        *REMOVED,
        "unknown/method",
        "tasks/get",
        "",
        "notifications/initialized",
        "completion/complete",  # a capability that this server does not declare
    ],
)
async def test_a_method_that_is_not_served_is_not_found(method: str, server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        answer = await client.ask(method, id="mine").whole()
        assert answer.status == 404
        assert answer.json()["id"] == "mine"
        assert answer.error()["code"] == -32601


async def test_a_capability_that_is_not_declared_is_not_found(serve: Serve) -> None:
    async with serve(Server("empty")) as client:
        for method in ("tools/list", "prompts/list", "resources/list", "resources/read"):
            answer = await client.ask(method, {"uri": "weather://x"}).whole()
            assert (answer.status, answer.error()["code"]) == (404, -32601)


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/call", {"name": "none"}),
        ("prompts/get", {"name": "none"}),
        ("prompts/get", {"name": "plan", "arguments": {}}),
    ],
)
async def test_what_is_not_there_is_a_wrong_parameter(
    method: str, params: dict[str, Any], server: Server, serve: Serve
) -> None:
    async with serve(server) as client:
        answer = await client.ask(method, params).whole()
        assert (answer.status, answer.error()["code"]) == (200, -32602)


async def test_an_unknown_resource_is_named(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        answer = await client.ask("resources/read", {"uri": "weather://none"}).whole()
        assert (answer.status, answer.error()["code"]) == (200, -32602)
        assert answer.error()["data"] == {"uri": "weather://none"}


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/list", []),
        ("tools/list", 7),
        ("tools/list", {"_meta": []}),
        ("tools/list", {}),
        ("tools/list", {"_meta": {}}),
        ("tools/list", {"_meta": {META + "clientCapabilities": {}}}),
        ("tools/list", {"_meta": {META + "protocolVersion": REVISION}}),
        ("tools/list", {"_meta": stateless_meta() | {META + "protocolVersion": 7}}),
        ("tools/list", {"_meta": stateless_meta() | {META + "clientCapabilities": []}}),
        ("tools/list", {"_meta": stateless_meta() | {META + "clientInfo": {"name": "no version"}}}),
        ("tools/list", {"_meta": stateless_meta() | {META + "logLevel": "loud"}}),
        ("tools/list", {"_meta": stateless_meta() | {"progressToken": {}}}),
        ("tools/call", {"_meta": stateless_meta()}),
        ("tools/call", {"_meta": stateless_meta(), "name": 7}),
        ("tools/call", {"_meta": stateless_meta(), "name": "echo", "arguments": []}),
        ("resources/read", {"_meta": stateless_meta()}),
        ("prompts/get", {"_meta": stateless_meta()}),
        ("subscriptions/listen", {"_meta": stateless_meta()}),
        ("subscriptions/listen", {"_meta": stateless_meta(), "notifications": []}),
    ],
)
async def test_malformed_params_are_a_bad_request(
    method: str, params: Any, server: Server, serve: Serve
) -> None:
    async with serve(server) as client:
        headers = standard_headers(method, "echo")
        answer = await client.post(request(method, params), headers).whole()
        assert (answer.status, answer.error()["code"]) == (400, -32602), answer.body
        assert answer.json()["id"] == 1


@pytest.mark.parametrize(
    ("name", "arguments", "text"),
    [("echo", {}, "text"), ("refuse", {}, "not today"), ("crash", {}, "Internal error (ref ")],
)
async def test_what_a_tool_or_its_caller_does_wrong_is_a_result(
    name: str, arguments: dict[str, Any], text: str, server: Server, serve: Serve
) -> None:
    async with serve(server) as client:
        answer = await client.call(name, arguments).whole()
        assert answer.status == 200
        assert answer.json()["result"]["isError"] is True
        assert text in text_of(answer.json())
        assert "secret" not in text_of(answer.json())


@pytest.mark.parametrize(("uri", "text"), [("broken", "no reading"), ("crash", "Internal error (ref ")])
async def test_what_goes_wrong_elsewhere_is_an_internal_error(
    uri: str, text: str, server: Server, serve: Serve
) -> None:
    async with serve(server) as client:
        answer = await client.ask("resources/read", {"uri": f"weather://{uri}"}).whole()
        assert (answer.status, answer.error()["code"]) == (200, -32603)
        assert answer.error()["message"].startswith(text)


async def test_a_capability_that_the_client_lacks_is_named(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        for answer in (client.call("sample"), client.ask("prompts/get", {"name": "asking"})):
            await answer.whole()
            assert (answer.status, answer.error()["code"]) == (400, -32021)
            assert answer.error()["data"] == {"requiredCapabilities": {"sampling": {}}}
        meta = {META + "clientCapabilities": {"sampling": {}}}
        assert (await client.call("sample", meta=meta).whole()).status == 200


async def test_too_much_at_once_is_put_off(work: Work, serve: Serve) -> None:
    server = Server("small", max_running=1)

    @server.tool
    async def wait() -> None:
        await work.wait()

    async with serve(server) as client:
        first = client.call("wait")
        await work.started.wait()
        second = await client.call("wait").whole()
        assert second.status == 503
        assert int(second.headers["retry-after"]) >= 1
        assert second.error()["code"] == -32603
        work.gate.set()
        assert "result" in await first.response()


async def test_an_error_on_a_stream_is_its_last_event(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        answer = client.call("late_refusal", meta={META + "logLevel": "info"})
        said, refused = await answer.messages()
        assert answer.status == 200
        assert said["method"] == "notifications/message"
        assert refused["error"] == {"code": 7, "message": "late"}
