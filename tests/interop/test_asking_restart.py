"""A stateless call whose server is killed between two rounds goes on with the next one."""

from __future__ import annotations

import json
import signal
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from interop.asking_journey import COMMAND, FORMS
from serving import PATIENCE, Served
from wire.pipe import stateless_meta

SECRET = "a secret of sixteen bytes and more"


def call(served: Served, name: str, **params: Any) -> dict[str, Any]:
    """Make one round of a call, and return the response."""
    capabilities = {"elicitation": {"form": {}}, "sampling": {}}
    meta = stateless_meta() | {"io.modelcontextprotocol/clientCapabilities": capabilities}
    message = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": name, "arguments": {}, "_meta": meta, **params},
    }
    headers = {
        "accept": "application/json, text/event-stream",
        "content-type": "application/json",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "tools/call",
        "mcp-name": name,
    }
    request = Request(f"{served.origin}/mcp", json.dumps(message).encode(), headers)
    try:
        with urlopen(request, timeout=PATIENCE) as response:
            return json.load(response)
    except HTTPError as refusal:
        with refusal:
            return json.load(refusal)


def answers(result: dict[str, Any]) -> dict[str, Any]:
    """Return the params of the round after this one."""
    responses = {
        key: {"action": "accept", "content": FORMS[request["params"]["message"]]}
        for key, request in result["inputRequests"].items()
    }
    return {"inputResponses": responses, "requestState": result["requestState"]}


def kill(served: Served) -> None:
    served.signal(signal.SIGKILL)
    assert served.wait() == -signal.SIGKILL


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no SIGKILL")
def test_a_restart_between_two_rounds_loses_nothing() -> None:
    """The order is placed in the first process, and not again in the second."""
    with Served([*COMMAND, "http"], MCPKIT_SECRET=SECRET) as first:
        result = call(first, "order")["result"]
        result = call(first, "order", **answers(result))["result"]
        assert result["resultType"] == "input_required"
        kill(first)
    with Served([*COMMAND, "http"], MCPKIT_SECRET=SECRET) as second:
        result = call(second, "order", **answers(result))["result"]
    assert result["resultType"] == "complete"
    assert result["content"][0]["text"] == "tea with sugar, number 1, ordered here 0 times"


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no SIGKILL")
def test_without_a_secret_of_its_own_the_new_process_says_that_the_state_is_not_its() -> None:
    with Served([*COMMAND, "http"]) as first:
        result = call(first, "order")["result"]
        kill(first)
    with Served([*COMMAND, "http"]) as second:
        error = call(second, "order", **answers(result))["error"]
    assert error["code"] == -32602
    assert "none that this server has given" in error["message"]
