"""The client's side of the wire without I/O: ids, what is pending, progress, cancellation, questions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from imports import reachable
from mcpkit.protocol.client import (
    Answered,
    Asked,
    ClientWire,
    Misasked,
    Notified,
    Progressed,
    Refused,
    Unreadable,
)
from tests.helpers.package_graph import package_graph

STATELESS = "2026-07-28"


def line(**members: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **members}).encode()


def wire(revision: str = "2025-11-25") -> ClientWire:
    return ClientWire(revision, info={"name": "test", "version": "1"}, capabilities={"roots": {}})


def test_each_request_has_an_id_and_waits_for_its_answer() -> None:
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
    assert "answered already" in second_answer.problem


def test_the_stateless_era_says_in_each_request_who_asks() -> None:
    client = wire(STATELESS)
    params = json.loads(client.request("tools/list", {"_meta": {"com.example/a": 1}}).line)["params"]
    assert params["_meta"] == {
        "io.modelcontextprotocol/protocolVersion": STATELESS,
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {"roots": {}},
        "com.example/a": 1,
    }


def test_progress_belongs_to_its_request() -> None:
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


def test_what_is_cancelled_waits_no_more() -> None:
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


def test_questions_are_answered_or_refused_under_their_id() -> None:
    client = wire()
    assert client.receive(line(id="q", method="roots/list")) == [Asked("q", "roots/list", {})]
    assert json.loads(client.answer("q", {"roots": []}).line) == {
        "jsonrpc": "2.0",
        "id": "q",
        "result": {"roots": []},
    }
    refused = json.loads(client.refuse("q", -32601, "no").line)
    assert refused == {"jsonrpc": "2.0", "id": "q", "error": {"code": -32601, "message": "no"}}


def test_a_question_that_is_withdrawn_is_told_apart() -> None:
    client = wire()
    withdrawn = {"requestId": "q"}
    assert client.receive(line(method="notifications/cancelled", params=withdrawn)) == [
        Notified("notifications/cancelled", withdrawn)
    ]


def test_a_batch_is_several_messages() -> None:
    client = wire("2025-03-26")
    first, second = client.request("ping"), client.request("ping")
    batch = b"[" + line(id=first.id, result={}) + b"," + line(id=second.id, result={}) + b"]"
    assert [event.id for event in client.receive(batch)] == [first.id, second.id]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (b"", "EOF"),
        (b"ready", "expected"),
        (b"[1]", "got 1"),
        (b"null", "got null"),
        (b'{"level": "error", "error": "no"}', "expected a request, an answer or a notification"),
        (line(nothing=True), "expected a request, an answer or a notification"),
        (line(id=[], method="roots/list"), "id: "),
        (line(method=5), "method: "),
        (
            line(method="notifications/progress", params={"progressToken": 1, "progress": "half"}),
            "params.progress: ",
        ),
    ],
)
def test_what_belongs_to_no_request_is_reported_and_ends_none(text: bytes, named: str) -> None:
    client = wire()
    pending = client.request("ping", reports_progress=True)
    (event,) = client.receive(text)
    assert isinstance(event, Unreadable)
    assert named in event.problem
    assert pending.id in client.pending


@pytest.mark.parametrize(
    ("message", "code", "named"),
    [
        ({"method": 5}, -32600, "method: "),
        ({"method": "roots/list", "params": ["a"]}, -32600, "params: "),
        ({"method": "roots/list", "jsonrpc": "1.0"}, -32600, "jsonrpc: "),
    ],
)
def test_a_malformed_request_is_refused_under_its_id(message: dict[str, Any], code: int, named: str) -> None:
    (event,) = wire().receive(line(id="q", **message))
    assert isinstance(event, Misasked)
    assert (event.id, event.code) == ("q", code)
    assert named in event.message
    (event,) = wire().receive(b'{"jsonrpc": "2.0", "id": "q", "method": "roots/list", "params": {"a": NaN}}')
    assert isinstance(event, Misasked)
    assert (event.id, event.code) == ("q", -32700)


@pytest.mark.parametrize(
    ("outcome", "code", "message"),
    [
        ({"result": []}, -32603, "result: expected an object"),
        ({"error": None}, -32603, "expected a result or an error"),
        ({}, -32603, "expected a result or an error"),
        ({"result": {}, "error": {"code": 1, "message": "no"}}, -32603, "got both"),
        ({"error": {"code": "1", "message": "no"}}, 1, "no"),
        ({"error": {"code": "broken", "message": "no"}}, -32603, "no"),
        ({"error": {"code": 1}}, 1, 'error: {"code":1}'),
        ({"error": "cursor_invalid"}, -32603, "cursor_invalid"),
        ({"result": {}, "jsonrpc": "1.0"}, -32603, "jsonrpc: "),
    ],
)
def test_an_answer_that_is_none_ends_the_request(outcome: dict[str, Any], code: int, message: str) -> None:
    client = wire()
    pending = client.request("ping")
    (event,) = client.receive(line(id=pending.id, **outcome))
    assert isinstance(event, Refused)
    assert event.code == code
    assert message in event.message
    assert not client.pending


@pytest.mark.parametrize("id_", [1, "1", 1.0])
def test_an_id_that_is_equal_in_another_type_is_that_of_the_request(id_: Any) -> None:
    client = wire()
    client.request("ping")
    assert client.receive(line(id=id_, result={"a": 1}, error=None, method=None)) == [Answered(1, {"a": 1})]
    assert [type(event) for event in client.receive(line(id=id_, result={"a": 1}))] == [Unreadable]  # doubled


@pytest.mark.parametrize("id_", [None, [], {}, 1.5, "x" * 300, True, "01", "1_0", " 1", "+1", -1, 9])
def test_a_strange_id_ends_the_only_request_and_none_of_several(id_: Any) -> None:
    client = wire()
    client.request("ping")
    client.request("subscriptions/listen")
    reported, event = client.receive(line(id=id_, result={}))
    assert isinstance(reported, Unreadable)
    assert isinstance(event, Refused)
    assert event.id == 1
    assert "id: expected that of a request" in event.message
    client = wire()
    for _ in range(3):
        client.request("ping")
    assert [type(event) for event in client.receive(line(id=id_, result={}))] == [Unreadable]
    assert len(client.pending) == 3
    assert [type(event) for event in client.receive(line(id=id_, result={}), answers=2)] == [
        Unreadable,
        Refused,
    ]
    assert list(client.pending) == [1, 3]


@pytest.mark.parametrize(
    ("text", "read"),
    [
        (rb"cut \ud83d", "cut \ufffd"),
        (rb"\ud83d\ude00 \\ud83d \udc00", "\U0001f600 \\ud83d \ufffd"),
    ],
)
def test_halves_of_surrogate_pairs_are_replaced(text: bytes, read: str) -> None:
    client = wire()
    client.request("ping")
    received = client.receive(b'{"jsonrpc": "2.0", "id": 1, "result": {"text": "%b"}}' % text)
    assert received == [Answered(1, {"text": read})]


def test_colours_around_a_message_are_left_out() -> None:
    client = wire()
    client.request("ping")
    received = client.receive(b'\x1b[32m{\x1b[1;34m"jsonrpc"\x1b[0m: "2.0", "id": 1, "result": {}}\x1b[0m')
    assert received == [Answered(1, {})]


@pytest.mark.parametrize(
    "result",
    [b'{"a": NaN}', b'{"a": "\t"}', b'{"a": "\xff"}', b'{"a": 1e999}', b'{"a": 1', b"{'a': 1}"],
)
@pytest.mark.parametrize("is_only", [True, False])
def test_an_answer_that_is_not_json_ends_its_request(result: bytes, is_only: bool) -> None:
    client = wire()
    client.request("ping")
    if not is_only:
        client.request("ping")
    (event,) = client.receive(b'{"jsonrpc": "2.0", "id": 1, "result": %b}' % result)
    assert isinstance(event, Refused)
    assert event.id == 1
    assert "Parse error" in event.message
    if is_only:
        client.request("ping")
        (event,) = client.receive(b'{"result": %b}' % result)  # which does not show its id
        assert isinstance(event, Refused)
        assert event.id == 2


def test_an_error_without_id_ends_no_request_while_it_may_answer_a_notification() -> None:
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

    client.notification("notifications/initialized")
    client.receive(line(id=client.request("tools/list").id, result={}))
    later = client.request("tools/list")
    assert client.receive(unknown) == [Refused(later.id, -32601, "Method not found")]

    client.notification("notifications/initialized")
    client.receive(unknown)
    after_it = client.request("tools/list")
    assert client.receive(unknown) == [Refused(after_it.id, -32601, "Method not found")]

    client.notification("notifications/initialized")
    at_once = client.request("tools/list")
    parse_error = line(id=None, error={"code": -32700, "message": "Parse error"})
    assert client.receive(parse_error) == [Refused(at_once.id, -32700, "Parse error")]

    over_http = client.request("tools/list")
    assert client.receive(unknown, over_http.id) == [Refused(over_http.id, -32601, "Method not found")]


def test_an_empty_list_of_params_is_an_empty_object() -> None:
    client = wire()
    assert client.receive(line(id=1, method="ping", params=[])) == [Asked(1, "ping", {})]
    changed = "notifications/tools/list_changed"
    assert client.receive(line(method=changed, params=[])) == [Notified(changed, {})]


def test_what_waits_when_the_wire_ends_is_given_back() -> None:
    client = wire()
    ids = [client.request("ping").id for _ in range(2)]
    assert client.end() == ids
    assert not client.pending


@pytest.mark.slow
def test_the_client_in_memory_stands_on_it_and_it_on_nothing_that_waits() -> None:
    graph = package_graph()
    assert "protocol/client.py" in graph["client/link/link.py"]
    assert "client/client.py" in graph["testing/client.py"]
    assert not {"server.py", "connection.py"} & reachable(graph, "protocol/client.py")
