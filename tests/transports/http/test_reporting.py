"""Reports of a real uvicorn: progress and log records on the stream of the call, in sessions and without."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.helpers.event_streams import META, EventStream, stateless_meta
from tests.helpers.reported import (
    TOKEN,
    check_increase,
    check_level,
    check_rate,
    check_released,
    check_token,
    check_track,
    told,
)
from tests.helpers.serving import ROOT, Served, serving

pytestmark = pytest.mark.long

SESSIONS = ["2025-03-26", "2025-06-18", "2025-11-25"]
STATELESS = "2026-07-28"
COMMAND = [
    sys.executable,
    "-m",
    "uvicorn",
    "--app-dir",
    str(ROOT),
    "--port",
    "0",
    "tests.helpers.reporting_server:app",
]


class Client:
    """Speaks one revision over real connections, of which each request has its own.

    Args:
        served: The server.
        revision: Of either era.
    """

    def __init__(self, served: Served, revision: str) -> None:
        self.revision = revision
        self._url = f"{served.origin}/mcp"
        self._ids = itertools.count(1)
        self._headers: dict[str, str] = {}
        if revision != STATELESS:
            client = {"name": "client", "version": "1"}
            params = {"protocolVersion": revision, "capabilities": {}, "clientInfo": client}
            stream, _ = self.open("initialize", params)
            answer = messages_of(stream)[-1]
            assert answer["result"]["protocolVersion"] == revision
            session = stream.response.headers["Mcp-Session-Id"]
            assert session
            self._headers = {"Mcp-Session-Id": session, "MCP-Protocol-Version": revision}
            self.notify("notifications/initialized", {})

    def open(self, method: str, params: dict[str, Any]) -> tuple[EventStream, int]:
        """Send a request, and return its answer, as yet unread, and its id."""
        headers = dict(self._headers)
        if self.revision == STATELESS:
            headers = {"MCP-Protocol-Version": STATELESS, "Mcp-Method": method, "Mcp-Name": params["name"]}
        id_ = next(self._ids)
        message = {"jsonrpc": "2.0", "id": id_, "method": method, "params": params}
        return EventStream(self._url, "POST", message, headers), id_

    def notify(self, method: str, params: dict[str, Any]) -> None:
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        with EventStream(self._url, "POST", message, self._headers) as stream:
            assert stream.response.status == 202

    def start_call(
        self, name: str, *, level: str | None = None, token: str | None = TOKEN, **arguments: Any
    ) -> tuple[EventStream, int]:
        """Call a tool, at a level of the session or of the request."""
        meta: dict[str, Any] = {} if token is None else {"progressToken": token}
        if self.revision == STATELESS:
            meta |= stateless_meta() | ({} if level is None else {META + "logLevel": level})
        elif level is not None:
            stream, _ = self.open("logging/setLevel", {"level": level})
            assert "result" in messages_of(stream)[-1]
        return self.open("tools/call", {"name": name, "arguments": arguments, "_meta": meta})

    def call(self, name: str, **options: Any) -> list[dict[str, Any]]:
        return messages_of(self.start_call(name, **options)[0])


def messages_of(stream: EventStream) -> list[dict[str, Any]]:
    """Return all that answers a request, as one JSON message or as a stream."""
    with stream:
        if stream.response.headers.get_content_type() == "application/json":
            return [json.load(stream.response)]
        return stream.rest()


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    """One uvicorn for all, which ends as it should and has met no error of its own."""
    with serving(COMMAND) as served:
        yield served
    assert "Traceback" not in served.notes


@pytest.fixture(params=[*SESSIONS, STATELESS])
def client(request: pytest.FixtureRequest, served: Served) -> Client:
    return Client(served, request.param)


@pytest.mark.parametrize("name", ["index", "index_in_thread"])
def test_progress_and_records_come_in_order(client: Client, name: str) -> None:
    check_track(client, name)


@pytest.mark.parametrize("name", ["hurry", "hurry_in_thread"])
def test_reports_that_come_too_fast_are_thinned_out(client: Client, name: str) -> None:
    check_rate(client, name)


def test_progress_increases(client: Client) -> None:
    check_increase(client)


def test_without_a_token_there_is_no_progress(client: Client) -> None:
    check_token(client)


@pytest.mark.parametrize("level", ["debug", "info", "notice", "error", "critical"])
@pytest.mark.parametrize("name", ["tell", "tell_in_thread"])
def test_records_come_from_the_level_on_that_was_asked_for(client: Client, name: str, level: str) -> None:
    check_level(client, name, level)


def test_the_level_holds_for_one_session_or_one_request(served: Served) -> None:
    quiet, loud, stateless = (Client(served, revision) for revision in [*SESSIONS[-2:], STATELESS])
    assert len(told(quiet.call("tell", level="error"))) == 4
    assert len(told(loud.call("tell", level="debug"))) == 10
    assert len(told(stateless.call("tell", level="warning"))) == 6
    assert len(told(quiet.call("tell"))) == 4
    assert len(told(loud.call("tell"))) == 10
    assert told(stateless.call("tell")) == ["answer"]


def test_of_a_call_that_has_been_answered_nothing_more_is_heard(client: Client) -> None:
    assert told(client.call("leave", level="debug")) == [1, "answer"]
    check_released(client.call("release"))


def test_of_a_thread_whose_call_was_cancelled_nothing_more_is_heard(served: Served, client: Client) -> None:
    times = served.notes.count("it blocks")
    stream, id_ = client.start_call("block", level="debug")
    with stream:
        served.wait_for("it blocks", times=times + 1)
        assert told([stream.message()]) == [1]
        if client.revision != STATELESS:  # without sessions it is the end of the connection that cancels
            client.notify("notifications/cancelled", {"requestId": id_})
            assert stream.rest() == []
    check_released(client.call("release"))
