"""The client without I/O: ids, pending requests, progress, cancellation, malformed input; types of what it receives."""

import json
from pathlib import Path
from typing import Any

import pytest

from mcpkit import types
from mcpkit.client.client_messages import (
    ClientWire,
    ErrorReceived,
    InvalidMessageReceived,
    InvalidRequestReceived,
    NotificationReceived,
    ResultReceived,
)
from mcpkit.protocol.revisions import ALL
from tests.helpers.tables import each_row


def line(**members: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **members}).encode()


def wire(*methods: str) -> ClientWire:
    """Return a client that has sent requests; their ids are 1, 2 and so on."""
    client = ClientWire("2025-11-25", info={"name": "test", "version": "1"}, capabilities={"roots": {}})
    for method in methods:
        client.request(method)
    return client


def test_cancel_removes_pending_request_and_ignores_late_answer() -> None:
    client = wire("tools/call")
    assert client.cancel(1, "too late") is not None
    assert not client.pending
    assert client.receive(line(id=1, result={})) == []
    assert client.cancel(1, "again") is None
    opening = client.request("initialize", {})
    assert client.cancel(opening.id, "never") is None  # the protocol forbids it
    assert opening.id not in client.pending


@each_row(("method", "params"), [
    ("notifications/progress", None), ("notifications/progress", {"progressToken": 9, "progress": 1}),
    ("notifications/message", {"progressToken": 1, "progress": 1}),
])  # fmt: skip
def test_receive_notification_without_progress_of_a_request_is_plain(method: str, params: Any) -> None:
    client = wire()
    client.request("ping", reports_progress=True)
    (event,) = client.receive(line(method=method, **({} if params is None else {"params": params})))
    assert event == NotificationReceived(method, params)


@each_row(("text", "problem"), [
    (b"", "EOF"), (b"ready", "expected"), (b"[1]", "got 1"), (b"null", "got null"),
    (b'{"level": "error", "error": "no"}', "expected a request, a response or a notification"),
    (line(nothing=True), "expected a request, a response or a notification"),
    (line(id=[], method="roots/list"), "id: "), (line(method=5), "method: "),
    (line(method="notifications/progress", params={"progressToken": 1, "progress": "a"}), "params.progress: "),
])  # fmt: skip
def test_receive_message_without_request_is_unreadable(text: bytes, problem: str) -> None:
    client = wire()
    pending = client.request("ping", reports_progress=True)
    (event,) = client.receive(text)
    assert isinstance(event, InvalidMessageReceived)
    assert problem in event.problem
    assert pending.id in client.pending


@each_row(("message", "code", "problem"), [
    (line(id="q", method=5), -32600, "method: "),
    (line(id="q", method="roots/list", params=["a"]), -32600, "params: "),
    (line(id="q", method="roots/list").replace(b"2.0", b"1.0"), -32600, "jsonrpc: "),
    (b'{"jsonrpc": "2.0", "id": "q", "method": "roots/list", "params": {"a": NaN}}', -32700, ""),
])  # fmt: skip
def test_server_request_malformed_is_refused_with_its_id(message: bytes, code: int, problem: str) -> None:
    (event,) = wire().receive(message)
    assert isinstance(event, InvalidRequestReceived)
    assert (event.id, event.code) == ("q", code)
    assert problem in event.message


@each_row(("outcome", "code", "message"), [
    ({"result": []}, -32603, "result: expected an object"),
    ({"error": None}, -32603, "expected a result or an error"), ({}, -32603, "expected a result or an error"),
    ({"result": {}, "error": {"code": 1, "message": "no"}}, -32603, "got both"),
    ({"error": {"code": "1", "message": "no"}}, 1, "no"),
    ({"error": {"code": "broken", "message": "no"}}, -32603, "no"),
    ({"error": {"code": 1}}, 1, 'error: {"code":1}'), ({"error": "cursor_invalid"}, -32603, "cursor_invalid"),
    ({"result": {}, "jsonrpc": "1.0"}, -32603, "jsonrpc: "),
])  # fmt: skip
def test_answer_malformed_refuses_its_request(outcome: dict[str, Any], code: int, message: str) -> None:
    client = wire("ping")
    (event,) = client.receive(line(id=1, **outcome))
    assert isinstance(event, ErrorReceived)
    assert event.code == code
    assert message in event.message
    assert not client.pending


@each_row("id_", [1, "1", 1.0])
def test_answer_id_of_another_type_matches_request(id_: Any) -> None:
    client = wire("ping")
    assert client.receive(line(id=id_, result={"a": 1}, error=None, method=None)) == [
        ResultReceived(1, {"a": 1})
    ]
    (repeated,) = client.receive(line(id=id_, result={"a": 1}))
    assert isinstance(repeated, InvalidMessageReceived)


@each_row("id_", [None, [], 1.5, "x" * 300, True, "01", "1_0", 9])
def test_answer_strange_id_ends_only_a_single_request(id_: Any) -> None:
    reported, event = wire("ping", "subscriptions/listen").receive(line(id=id_, result={}))
    assert isinstance(reported, InvalidMessageReceived)
    assert isinstance(event, ErrorReceived)
    assert event.id == 1
    assert "id: expected the id of an open request" in event.message
    client = wire("ping", "ping", "ping")
    assert [type(event) for event in client.receive(line(id=id_, result={}))] == [InvalidMessageReceived]
    assert len(client.pending) == 3


@each_row(
    "result", [b'{"a": NaN}', b'{"a": "\t"}', b'{"a": "\xff"}', b'{"a": 1e999}', b'{"a": 1', b"{'a': 1}"]
)
@each_row("start", [b'{"jsonrpc": "2.0", "id": 1, "result": %b}', b'{"result": %b}'])
def test_answer_not_json_refuses_its_request(start: bytes, result: bytes) -> None:
    (event,) = wire("ping").receive(start % result)
    assert isinstance(event, ErrorReceived)
    assert event.id == 1
    assert "Parse error" in event.message


def test_error_without_id_after_notification_ends_no_request() -> None:
    client = wire("initialize")
    unknown = line(id=None, error={"code": -32601, "message": "Method not found"})
    client.receive(line(id=1, result={}))
    client.notification("notifications/initialized")
    request = client.request("tools/list")
    (ignored,) = client.receive(unknown)
    assert isinstance(ignored, InvalidMessageReceived)
    assert "notification" in ignored.problem
    assert client.receive(line(id=request.id, result={})) == [ResultReceived(request.id, {})]
    over_http = client.request("tools/list")
    assert client.receive(unknown, over_http.id) == [ErrorReceived(over_http.id, -32601, "Method not found")]


# Types

TYPES = {
    "Tool": types.ToolDefinition, "Resource": types.ResourceDefinition, "Prompt": types.PromptDefinition,
    "ResourceTemplate": types.ResourceTemplateDefinition, "PromptArgument": types.PromptArgument,
    "PromptMessage": types.PromptMessage, "TextContent": types.TextBlock, "ImageContent": types.ImageBlock,
    "AudioContent": types.AudioBlock, "ResourceLink": types.ResourceLinkBlock,
    "EmbeddedResource": types.EmbeddedResourceBlock, "Implementation": types.Implementation,
    "ServerCapabilities": types.ServerCapabilities,
}  # fmt: skip


@pytest.fixture(scope="module")
def schemas(schema_dir: Path) -> list[dict[str, Any]]:
    """The definitions of the official schema of each protocol version."""
    documents = [json.loads((schema_dir / revision / "schema.json").read_text()) for revision in ALL]
    return [document.get("$defs") or document["definitions"] for document in documents]


@each_row(("name", "type_"), TYPES.items())
def test_type_has_members_of_all_schemas(name: str, type_: Any, schemas: list[dict[str, Any]]) -> None:
    definitions = [schema[name] for schema in schemas if name in schema]
    members = {member for each in definitions for member in each["properties"]}
    assert members == set(type_.__required_keys__ | type_.__optional_keys__)
    for each in definitions:
        assert set(each.get("required", ())) == type_.__required_keys__


def test_type_of_resource_contents_has_members_of_text_and_blob(schemas: list[dict[str, Any]]) -> None:
    found: Any = types.ResourceContents
    kinds = [schema[name] for schema in schemas for name in ("TextResourceContents", "BlobResourceContents")]
    assert {member for kind in kinds for member in kind["properties"]} == set(found.__annotations__)
    assert found.__required_keys__ == {"uri"}
