"""The access log says of each request what became of it, and nothing that could be secret."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from mcpkit import Principal, ProtocolError, Server, ToolError
from mcpkit.exceptions import ResourceNotFoundError
from mcpkit.middleware import AccessLog
from mcpkit.testing import connect
from tests.helpers.waiting import Work, over

pytestmark = pytest.mark.anyio

REVISIONS = ["2025-11-25", "2026-07-28"]


@pytest.fixture
def server() -> Server:
    server = Server("logged")
    server.middleware(AccessLog())

    @server.tool
    async def greet(name: str) -> str:
        return f"Hello {name}"

    @server.tool
    async def fail() -> str:
        raise ToolError("no")

    @server.resource("logged://{name}")
    async def lost(name: str) -> str:
        raise ResourceNotFoundError

    return server


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "mcpkit.access")
    return caplog


def fields(record: logging.LogRecord) -> dict[str, Any]:
    return {name[4:]: value for name, value in vars(record).items() if name.startswith("mcp_")}


@pytest.mark.parametrize("revision", REVISIONS)
async def test_access_log_writes_one_record_per_request(
    server: Server, revision: str, log: pytest.LogCaptureFixture
) -> None:
    async with connect(server, protocol_version=revision) as client:
        await client.call_tool("greet", {"name": "Ada"})
    opened, called = map(fields, log.records)
    assert opened["method"] == ("server/discover" if revision == REVISIONS[-1] else "initialize")
    milliseconds = called.pop("duration_ms")
    assert milliseconds > 0
    assert called == {
        "method": "tools/call",
        "target": "greet",
        "request_id": 2,
        "protocol_version": revision,
        "client": "mcpkit-testing",
        "outcome": "ok",
        "error_code": None,
        "error_type": None,
        "error_ref": None,
        "principal": None,
        "attempt": None,
    }
    assert log.records[1].getMessage() == f"tools/call 'greet' ok {milliseconds:.1f} ms"
    assert "Ada" not in log.text


async def test_access_log_distinguishes_errors(server: Server, log: pytest.LogCaptureFixture) -> None:
    async with connect(server, protocol_version="2025-11-25") as client:
        await client.call_tool("fail")
        with pytest.raises(ProtocolError):
            await client.call_tool("none")
        with pytest.raises(ProtocolError):
            await client.read_resource("logged://lost")
    ends = [(record["outcome"], record["error_code"]) for record in map(fields, log.records[1:])]
    assert ends == [("tool_error", None), ("error", -32602), ("error", -32002)]


async def test_a_cancelled_call_is_logged_as_such(server: Server, log: pytest.LogCaptureFixture) -> None:
    work = Work()
    server.tool(work.wait)
    async with connect(server) as client:
        call = asyncio.ensure_future(client.call_tool("wait"))
        await work.started.wait()
        await over(call)
        await client.list_tools()
    assert [fields(record)["outcome"] for record in log.records[1:]] == ["cancelled", "ok"]


async def test_access_log_escapes_line_breaks_of_clients(
    server: Server, log: pytest.LogCaptureFixture
) -> None:
    async with connect(server) as client:
        for method, name in [
            ("tools/call", "x\nINFO all well"),
            ("a\nINFO all well", "x"),
            ("m" * 999, "n" * 999),
        ]:
            with pytest.raises(ProtocolError):
                await client.request(method, {"name": name})
    messages = [record.getMessage() for record in log.records]
    assert not any("\n" in message for message in messages)
    assert max(map(len, messages)) < 500


async def test_access_log_names_the_verified_principal(server: Server, log: pytest.LogCaptureFixture) -> None:
    for principal in (Principal("ada"), Principal()):
        async with connect(server, principal=principal) as client:
            await client.call_tool("greet", {"name": "x"})
        assert {fields(record)["principal"] for record in log.records} == {principal.id}
        log.clear()
