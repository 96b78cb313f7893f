"""Components, exceptions, principals and options in another process that was spawned, not forked."""

import pickle
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import pytest

import mcpkit
from mcpkit import (
    CacheHint,
    HttpOptions,
    Limits,
    Principal,
    Prompt,
    Resource,
    Scope,
    ServerOptions,
    Text,
    Timeouts,
    Tool,
    ToolResult,
    exceptions,
)

pytestmark = pytest.mark.slow


@mcpkit.tool
def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


@mcpkit.resource("data://numbers")
def numbers() -> str:
    """Numbers."""
    return "1 2 3"


def describe(value: Any) -> Any:
    """Return what identifies a value in either process."""
    if isinstance(value, BaseException):
        return type(value), str(value), value.args, vars(value)
    if isinstance(value, Tool):
        return value.key, value.title, value.description
    if isinstance(value, Resource | Prompt):
        return value.key, value.description
    return value if callable(value) else repr(value)


VALUES: list[Any] = [
    add,
    numbers,
    Tool(add, title="Adds"),
    Resource(numbers, uri="data://numbers"),
    Prompt(numbers, name="numbers"),
    Limits(worker_threads=3),
    Timeouts(call=3),
    HttpOptions(cors=False),
    ServerOptions(),
    ServerOptions(cache={"tools/list": CacheHint(ttl=5)}),
    Principal(
        "ada", {"notes:read"}, client_id="c", issuer="https://id.example.com", claims={"org": ["acme"]}
    ),
    Principal(),
    Scope("Read notes", implies=["notes:list"]),
    Text("text"),
    ToolResult("text", is_error=True),
    exceptions.ToolError("no"),
    exceptions.ProtocolError(-32602, "no", {"field": "a"}),
    exceptions.ResourceNotFoundError("data://x"),
    exceptions.CallTimeoutError(3),
    exceptions.MissingCapabilityError(["sampling"], {"sampling": {}}),
    exceptions.InsufficientScopeError(["notes:write"], "Bearer"),
]


def test_public_objects_survive_a_spawned_process() -> None:
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        described = list(pool.map(describe, VALUES))
        returned = list(pool.map(_same, VALUES))
    assert described == [describe(value) for value in VALUES]
    assert [describe(value) for value in returned] == described


def _same(value: Any) -> Any:
    return value


async def test_unpickled_tool_serves_calls() -> None:
    from mcpkit import Client, Server

    server = Server("numbers")
    server.catalog.tools.add(pickle.loads(pickle.dumps(Tool(add))))
    async with Client(server) as client:
        assert (await client.call_tool("add", {"a": 2})).data == 3
