"""Errors of 2026-07-28 over HTTP: codes and statuses."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import Any

import pytest

from mcpkit import Server
from tests.helpers.pipe import META, REMOVED, stateless_meta
from tests.helpers.raw_client import REVISION, Client, Serve, request, standard_headers
from tests.helpers.work import Work

pytestmark = pytest.mark.anyio


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


async def test_unknown_method_is_not_found(server: Server, serve: Serve) -> None:
    cases: list[Any] = [
        *REMOVED,
        "unknown/method",
        "tasks/get",
        "",
        "notifications/initialized",
        "completion/complete",  # a capability that this server does not declare
    ]
    async with serve(server) as client:
        for method in cases:
            answer = await client.ask(method, id="mine").whole()
            assert answer.status == 404
            assert answer.json()["id"] == "mine"
            assert answer.error()["code"] == -32601


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
    for answer in (client.call("sample"), client.ask("prompts/get", {"name": "requires_sampling"})):
        await answer.whole()
        assert (answer.status, answer.error()["code"]) == (400, -32021)
        assert answer.error()["data"] == {"requiredCapabilities": {"sampling": {}}}
    meta = {META + "clientCapabilities": {"sampling": {}}}
    assert (await client.call("sample", meta=meta).whole()).status == 200


async def test_error_on_stream_is_last_event(client: Client) -> None:
    answer = client.call("late_refusal", meta={META + "logLevel": "info"})
    texts, refused = await answer.messages()
    assert answer.status == 200
    assert texts["method"] == "notifications/message"
    assert refused["error"] == {"code": 7, "message": "late"}


AsgiMessage = MutableMapping[str, Any]


async def test_receive_failure_cancels_call(server: Server, serve: Serve, work: Work) -> None:
    async with serve(server, stream_after=0) as client:
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
        answer = client.call("wait")
        await work.started.wait()
        broken.set()
        await asyncio.wait_for(work.cancelled.wait(), 10)
        client.opened.remove(answer)
        await asyncio.wait({answer.task}, timeout=10)
        assert server.engine.runtime.running.taken == 0
