"""Reports of a real process, which a host has started with `python -m`: progress and log records over its pipes."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.helpers.process_client import ROOT, Host, environment
from tests.helpers.process_client import STATELESS_META as META
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

HANDSHAKE = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
STATELESS = "2026-07-28"

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="waits for pipes by select"),
    pytest.mark.long,
]


class ReportingHost(Host):
    """Starts the server, and speaks one revision to it.

    Args:
        revision: Of either era.
    """

    def __init__(self, revision: str) -> None:
        self.revision = revision
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.helpers.reporting_server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=ROOT,
            env=environment(),
            bufsize=0,
            start_new_session=True,
        )
        self.notes = b""
        self._received = bytearray()
        self._ids = itertools.count(1)
        if revision != STATELESS:
            client = {"name": "host", "version": "1"}
            params = {"protocolVersion": revision, "capabilities": {}, "clientInfo": client}
            answer = self.request("initialize", params)[-1]
            assert answer["result"]["protocolVersion"] == revision
            self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def start(self, method: str, params: dict[str, Any]) -> int:
        """Send a request, and return its id."""
        id_ = next(self._ids)
        self.send({"jsonrpc": "2.0", "id": id_, "method": method, "params": params})
        return id_

    def answer(self, id_: int) -> list[dict[str, Any]]:
        """Return all messages up to and with a response."""
        messages = [self.receive()]
        while messages[-1].get("id") != id_:
            messages.append(self.receive())
        return messages

    def request(self, method: str, params: dict[str, Any]) -> list[dict[str, Any]]:
        return self.answer(self.start(method, params))

    def start_call(
        self, name: str, *, level: str | None = None, token: str | None = TOKEN, **arguments: Any
    ) -> int:
        """Call a tool, at a level of the session or of the request, and return the id."""
        meta: dict[str, Any] = {} if token is None else {"progressToken": token}
        if self.revision == STATELESS:
            meta |= META | ({} if level is None else {"io.modelcontextprotocol/logLevel": level})
        elif level is not None:
            assert "result" in self.request("logging/setLevel", {"level": level})[-1]
        return self.start("tools/call", {"name": name, "arguments": arguments, "_meta": meta})

    def call(self, name: str, **options: Any) -> list[dict[str, Any]]:
        return self.answer(self.start_call(name, **options))


@pytest.fixture(scope="module", params=[*HANDSHAKE, STATELESS])
def host(request: pytest.FixtureRequest) -> Iterator[ReportingHost]:
    """One process for each revision, which ends as it should and has met no error of its own."""
    with ReportingHost(request.param) as host:
        yield host
        host.close_input()
        assert host.wait() == 0
        assert host.read_output() == b""
        assert "Traceback" not in host.read_notes()


@pytest.mark.parametrize("name", ["index", "index_in_thread"])
def test_progress_and_records_come_in_order(host: ReportingHost, name: str) -> None:
    check_track(host, name)


@pytest.mark.parametrize("name", ["hurry", "hurry_in_thread"])
def test_reports_that_come_too_fast_are_thinned_out(host: ReportingHost, name: str) -> None:
    check_rate(host, name)


def test_progress_increases(host: ReportingHost) -> None:
    check_increase(host)


def test_without_a_token_there_is_no_progress(host: ReportingHost) -> None:
    check_token(host)


@pytest.mark.parametrize("level", ["debug", "info", "notice", "error", "critical"])
@pytest.mark.parametrize("name", ["tell", "tell_in_thread"])
def test_records_come_from_the_level_on_that_was_asked_for(
    host: ReportingHost, name: str, level: str
) -> None:
    check_level(host, name, level)


def test_the_level_holds_for_the_session_or_for_one_request() -> None:
    """On one pipe: a session that wants errors alone, and a stateless request that wants everything."""
    with ReportingHost("2025-11-25") as host:
        assert len(told(host.call("tell", level="error"))) == 4
        assert len(told(host.call("tell"))) == 4
        host.revision = STATELESS
        assert len(told(host.call("tell", level="debug"))) == 10
        assert told(host.call("tell")) == ["answer"]
        host.revision = "2025-11-25"
        assert len(told(host.call("tell"))) == 4


def test_of_a_call_that_has_been_answered_nothing_more_is_heard(host: ReportingHost) -> None:
    assert told(host.call("leave", level="debug")) == [1, "answer"]
    check_released(host.call("release"))


def test_of_a_thread_whose_call_was_cancelled_nothing_more_is_heard(host: ReportingHost) -> None:
    id_ = host.start_call("block", level="debug")
    host.wait_for_note("it blocks")
    host.notes = b""
    assert told([host.receive()]) == [1]
    params = {"requestId": id_} | ({"_meta": META} if host.revision == STATELESS else {})
    host.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
    check_released(host.call("release"))
