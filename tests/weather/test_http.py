"""The weather server over HTTP, as `--http` serves it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from urllib.request import Request, urlopen

import pytest

from tests.helpers.serving import serving

from .conftest import EXAMPLE

REVISION = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": REVISION,
    "io.modelcontextprotocol/clientCapabilities": {},
}
TIME_OUT = 30


@pytest.fixture(scope="module")
def origin() -> Iterator[str]:
    with serving([sys.executable, str(EXAMPLE / "server.py"), "--sample", "--http", "0"]) as served:
        yield served.origin


def test_it_answers_at_mcp(origin):
    params = {"name": "get_alerts", "arguments": {"state": "CO"}, "_meta": META}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    headers = {
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
        "MCP-Protocol-Version": REVISION,
        "Mcp-Method": "tools/call",
        "Mcp-Name": "get_alerts",
    }
    request = Request(f"{origin}/mcp", json.dumps(call).encode(), headers)
    with urlopen(request, timeout=TIME_OUT) as response:
        result = json.load(response)["result"]
    assert result["structuredContent"]["state"] == "Colorado"


def test_it_opens_a_stream_at_sse(origin):
    with urlopen(f"{origin}/sse", timeout=TIME_OUT) as response:
        assert response.headers["Content-Type"].startswith("text/event-stream")
        assert response.readline().strip() == b"event: endpoint"
