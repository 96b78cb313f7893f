"""The client's side of the wire without I/O: ids, what is pending, progress, cancellation, questions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from imports import reachable
from mcpkit import ProtocolError
from mcpkit.protocol.client import Answered, Asked, ClientWire, Notified, Progressed, Refused
from package_graph import package_graph

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
    assert client.receive(line(id=first.id, result={})) == []  # twice: nobody waits any more


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
    "text",
    [
        b"",
        b"{",
        b"[1]",
        b"null",
        b'{"id": 1, "result": {}}',
        line(id=1),
        line(id=[], method="roots/list"),
        line(id="q", method=5),
        line(id="q", method="roots/list", params=[]),
        line(method="notifications/progress", params={"progressToken": 1, "progress": "half"}),
    ],
)
def test_what_is_no_message_is_an_error_that_says_so(text: bytes) -> None:
    client = wire()
    pending = client.request("ping")
    with pytest.raises(ProtocolError):
        client.receive(text)
    assert pending.id in client.pending


@pytest.mark.parametrize(
    "outcome",
    [{"result": []}, {"error": None}, {"error": {"code": "1", "message": "no"}}, {"error": {"code": 1}}],
)
def test_an_answer_that_is_none_ends_the_request(outcome: dict[str, Any]) -> None:
    client = wire()
    pending = client.request("ping")
    (event,) = client.receive(line(id=pending.id, **outcome))
    assert isinstance(event, Refused)
    assert event.code == -32603
    assert not client.pending


@pytest.mark.parametrize("id_", [None, [], {}, 1.5, "x" * 300, True])
def test_an_answer_under_a_strange_id_is_nobodys(id_: Any) -> None:
    client = wire()
    client.request("ping")
    assert client.receive(line(id=id_, result={})) == []
    assert client.receive(line(method="notifications/progress", params={"progressToken": id_, "progress": 1}))
    assert client.pending


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
