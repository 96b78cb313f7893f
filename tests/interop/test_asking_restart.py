"""A stateless call whose server is killed between two rounds goes on with the next one."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import anyio
import pytest
from mcp import Client
from mcp.types import ElicitResult

from tests.helpers.pipe import stateless_meta
from tests.helpers.serving import PATIENCE, Served
from tests.interop.asking_journey import COMMAND, FORMS

SECRET = "a secret of sixteen bytes and more"

needs_kill = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no SIGKILL")


class Way(NamedTuple):
    """A request that asks, by its method and what names its handler.

    Attributes:
        method: The method.
        params: What names the handler, of which the value is in the header too.
        ends: Reads the text of the result.
    """

    method: str
    params: dict[str, Any]
    ends: Callable[[dict[str, Any]], str]


ORDER = Way("tools/call", {"name": "order"}, lambda result: result["content"][0]["text"])
WAYS = {
    "tool": (ORDER, "tea with sugar, number 1, ordered here 0 times"),
    "prompt": (
        Way("prompts/get", {"name": "greet"}, lambda result: result["messages"][0]["content"]["text"]),
        "Greet Ada warmly.",
    ),
    "resource": (
        Way("resources/read", {"uri": "notes://day"}, lambda result: result["contents"][0]["text"]),
        "day notes of Bob, yesterday",
    ),
}


def call(served: Served, way: Way, **params: Any) -> dict[str, Any]:
    """Make one round of a call, and return the response."""
    capabilities = {"elicitation": {"form": {}}, "sampling": {}}
    meta = stateless_meta() | {"io.modelcontextprotocol/clientCapabilities": capabilities}
    message = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": way.method,
        "params": {**way.params, "_meta": meta, **params},
    }
    headers = {
        "accept": "application/json, text/event-stream",
        "content-type": "application/json",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": way.method,
        "mcp-name": next(iter(way.params.values())),
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
        key: {"action": "accept", "content": FORMS[request["params"]["message"]][0]}
        for key, request in result["inputRequests"].items()
    }
    return {"inputResponses": responses, "requestState": result["requestState"]}


def kill(served: Served) -> None:
    served.signal(signal.SIGKILL)
    assert served.wait() == -signal.SIGKILL


@needs_kill
@pytest.mark.parametrize(("way", "text"), WAYS.values(), ids=WAYS)
def test_a_restart_between_two_rounds_loses_nothing(way: Way, text: str) -> None:
    """What happened between two questions, in the first process, does not happen again in the second."""
    with Served([*COMMAND, "http"], MCPKIT_SECRET=SECRET) as first:
        result = call(first, way)["result"]
        result = call(first, way, **answers(result))["result"]
        assert result["resultType"] == "input_required"
        kill(first)
    with Served([*COMMAND, "http"], MCPKIT_SECRET=SECRET) as second:
        result = call(second, way, **answers(result))["result"]
    assert result["resultType"] == "complete"
    assert way.ends(result) == text


@needs_kill
def test_the_official_client_does_not_notice_the_restart() -> None:
    """The server is killed while the user thinks about the second question, and another one takes its place."""
    servers: list[Served] = []

    async def answer(_context: Any, params: Any) -> ElicitResult:
        if params.message == "With sugar?":
            await anyio.to_thread.run_sync(replace)
        return ElicitResult(action="accept", content=FORMS[params.message][0])

    def start(port: str) -> None:
        servers.append(stack.enter_context(Served([*COMMAND, "http", port], MCPKIT_SECRET=SECRET)))

    def replace() -> None:
        port = servers[0].origin.rpartition(":")[2]
        kill(servers[0])
        start(port)
        assert servers[1].origin == servers[0].origin

    async def use() -> Any:
        with anyio.fail_after(PATIENCE):
            async with Client(f"{servers[0].origin}/mcp", elicitation_callback=answer) as client:
                return (await client.call_tool("order")).content

    with ExitStack() as stack:
        start("0")
        (content,) = anyio.run(use)
    assert content.text == "tea with sugar, number 1, ordered here 0 times"


@needs_kill
def test_without_a_secret_of_its_own_the_new_process_says_that_the_state_is_not_its() -> None:
    with Served([*COMMAND, "http"]) as first:
        result = call(first, ORDER)["result"]
        kill(first)
    with Served([*COMMAND, "http"]) as second:
        error = call(second, ORDER, **answers(result))["error"]
    assert error["code"] == -32602
    assert "none that this server has given" in error["message"]
