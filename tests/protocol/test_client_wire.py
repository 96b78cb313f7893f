"""The client's side of JSON-RPC without I/O: ids, pending requests, progress, cancellation, malformed input."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcpkit.protocol.client import (
    Answered,
    ClientWire,
    Misasked,
    Notified,
    Progressed,
    Refused,
    Unreadable,
)

STATELESS = "2026-07-28"


def line(**members: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **members}).encode()


def wire(revision: str = "2025-11-25") -> ClientWire:
    return ClientWire(revision, info={"name": "test", "version": "1"}, capabilities={"roots": {}})


def test_request_has_unique_id_and_is_pending_until_answered() -> None:
    client = wire()
    first, second = client.request("tools/list"), client.request("tools/call", {"name": "add"})
    assert first.id != second.id
    assert json.loads(second.line) == {
        "jsonrpc": "2.0",
        "id": second.id,
        "method": "tools/call",
        "params": {"name": "add"},
    }
    assert set(client.pending) == {first.id, second.id}
    assert client.receive(line(id=second.id, result={"content": []})) == [
        Answered(second.id, {"content": []})
    ]
    error = {"code": -32602, "message": "no", "data": [1]}
    assert client.receive(line(id=first.id, error=error)) == [Refused(first.id, -32602, "no", [1])]
    assert not client.pending
    (second_answer,) = client.receive(line(id=first.id, result={}))
    assert isinstance(second_answer, Unreadable)
    assert "second response" in second_answer.problem


def test_request_stateless_includes_client_metadata() -> None:
    client = wire(STATELESS)
    params = json.loads(client.request("tools/list", {"_meta": {"com.example/a": 1}}).line)["params"]
    assert params["_meta"] == {
        "io.modelcontextprotocol/protocolVersion": STATELESS,
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {"roots": {}},
        "com.example/a": 1,
    }


def test_progress_is_matched_to_its_request_by_token() -> None:
    client = wire()
    request = client.request("tools/call", {"name": "add"}, reports_progress=True)
    token = json.loads(request.line)["params"]["_meta"]["progressToken"]
    progress = {"progressToken": token, "progress": 1, "total": 2, "message": "half"}
    assert client.receive(line(method="notifications/progress", params=progress)) == [
        Progressed(request.id, 1, 2, "half")
    ]
    client.receive(line(id=request.id, result={}))
    late = client.receive(line(method="notifications/progress", params=progress))
    assert late == [Notified("notifications/progress", progress)]


def test_cancel_removes_pending_request_and_ignores_late_answer() -> None:
    client = wire()
    request = client.request("tools/call", {"name": "add"})
    cancelled = client.cancel(request.id, "too late")
    assert json.loads(cancelled.line)["method"] == "notifications/cancelled"
    assert json.loads(cancelled.line)["params"] == {"requestId": request.id, "reason": "too late"}
    assert not client.pending
    assert client.receive(line(id=request.id, result={})) == []
    assert client.cancel(request.id, "again") is None
    opening = client.request("initialize", {})
    assert client.cancel(opening.id, "never") is None  # which must not be cancelled
    assert opening.id not in client.pending


@pytest.mark.parametrize(("text", "named"), [
    (b"", "EOF"),
    (b"ready", "expected"),
    (b"[1]", "got 1"),
    (b"null", "got null"),
    (b'{"level": "error", "error": "no"}', "expected a request, a response or a notification"),
    (line(nothing=True), "expected a request, a response or a notification"),
    (line(id=[], method="roots/list"), "id: "),
    (line(method=5), "method: "),
    (line(method="notifications/progress", params={"progressToken": 1, "progress": "half"}), "params.progress: "),
])  # fmt: skip
def test_receive_message_without_request_is_unreadable(text: bytes, named: str) -> None:
    client = wire()
    pending = client.request("ping", reports_progress=True)
    (event,) = client.receive(text)
    assert isinstance(event, Unreadable)
    assert named in event.problem
    assert pending.id in client.pending


@pytest.mark.parametrize(("message", "code", "named"), [
    ({"method": 5}, -32600, "method: "),
    ({"method": "roots/list", "params": ["a"]}, -32600, "params: "),
    ({"method": "roots/list", "jsonrpc": "1.0"}, -32600, "jsonrpc: "),
])  # fmt: skip
def test_server_request_malformed_is_misasked_with_its_id(
    message: dict[str, Any], code: int, named: str
) -> None:
    (event,) = wire().receive(line(id="q", **message))
    assert isinstance(event, Misasked)
    assert (event.id, event.code) == ("q", code)
    assert named in event.message
    (event,) = wire().receive(b'{"jsonrpc": "2.0", "id": "q", "method": "roots/list", "params": {"a": NaN}}')
    assert isinstance(event, Misasked)
    assert (event.id, event.code) == ("q", -32700)


@pytest.mark.parametrize(("outcome", "code", "message"), [
    ({"result": []}, -32603, "result: expected an object"),
    ({"error": None}, -32603, "expected a result or an error"),
    ({}, -32603, "expected a result or an error"),
    ({"result": {}, "error": {"code": 1, "message": "no"}}, -32603, "got both"),
    ({"error": {"code": "1", "message": "no"}}, 1, "no"),
    ({"error": {"code": "broken", "message": "no"}}, -32603, "no"),
    ({"error": {"code": 1}}, 1, 'error: {"code":1}'),
    ({"error": "cursor_invalid"}, -32603, "cursor_invalid"),
    ({"result": {}, "jsonrpc": "1.0"}, -32603, "jsonrpc: "),
])  # fmt: skip
def test_answer_malformed_refuses_its_request(outcome: dict[str, Any], code: int, message: str) -> None:
    client = wire()
    pending = client.request("ping")
    (event,) = client.receive(line(id=pending.id, **outcome))
    assert isinstance(event, Refused)
    assert event.code == code
    assert message in event.message
    assert not client.pending


@pytest.mark.parametrize("id_", [1, "1", 1.0])
def test_answer_id_of_another_type_matches_request(id_: Any) -> None:
    client = wire()
    client.request("ping")
    assert client.receive(line(id=id_, result={"a": 1}, error=None, method=None)) == [Answered(1, {"a": 1})]
    assert [type(event) for event in client.receive(line(id=id_, result={"a": 1}))] == [Unreadable]  # doubled


@pytest.mark.parametrize("id_", [None, [], 1.5, "x" * 300, True, "01", "1_0", 9])
def test_answer_strange_id_ends_only_a_single_request(id_: Any) -> None:
    client = wire()
    client.request("ping")
    client.request("subscriptions/listen")
    reported, event = client.receive(line(id=id_, result={}))
    assert isinstance(reported, Unreadable)
    assert isinstance(event, Refused)
    assert event.id == 1
    assert "id: expected the id of an open request" in event.message
    client = wire()
    for _ in range(3):
        client.request("ping")
    assert [type(event) for event in client.receive(line(id=id_, result={}))] == [Unreadable]
    assert len(client.pending) == 3


@pytest.mark.parametrize(
    "result", [b'{"a": NaN}', b'{"a": "\t"}', b'{"a": "\xff"}', b'{"a": 1e999}', b'{"a": 1', b"{'a': 1}"]
)
def test_answer_not_json_refuses_its_request(result: bytes) -> None:
    client = wire()
    client.request("ping")
    (event,) = client.receive(b'{"jsonrpc": "2.0", "id": 1, "result": %b}' % result)
    assert isinstance(event, Refused)
    assert event.id == 1
    assert "Parse error" in event.message
    client.request("ping")
    (event,) = client.receive(b'{"result": %b}' % result)  # which does not show its id
    assert isinstance(event, Refused)
    assert event.id == 2


def test_error_without_id_after_notification_ends_no_request() -> None:
    client = wire()
    unknown = line(id=None, error={"code": -32601, "message": "Method not found"})
    initialize = client.request("initialize")
    client.receive(line(id=initialize.id, result={}))
    client.notification("notifications/initialized")
    request = client.request("tools/list")
    (ignored,) = client.receive(unknown)
    assert isinstance(ignored, Unreadable)
    assert "notification" in ignored.problem
    assert client.receive(line(id=request.id, result={})) == [Answered(request.id, {})]

    over_http = client.request("tools/list")
    assert client.receive(unknown, over_http.id) == [Refused(over_http.id, -32601, "Method not found")]
