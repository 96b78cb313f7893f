"""Tools written for agent SDKs, with the import changed: the agent receives the same.

The file is a program, too: with the name of an SDK it prints the exchange of an agent with the server of the SDK and
with that of mcpkit.
"""

import asyncio
import importlib
import json
import sys
from pathlib import Path
from typing import Annotated, Any, Optional, TypedDict, Union

import typing_extensions
from typing_extensions import NotRequired, Required

from mcpkit.compat import agent_sdk
from tests.helpers.agent_sdks import AGENTS, Environment, agent


class Place(TypedDict):
    name: Annotated[str, "Where it is", "never shown"]
    height: NotRequired[float]


class Backported(typing_extensions.TypedDict):
    name: str


class Journey(TypedDict, total=False):
    number: Required[int]
    stops: list[Place]
    by_train: bool | None
    extra: dict[str, int]


class Unknown:
    pass


KINDS = {
    "text": Annotated[str, "Some text"],
    "whole": int,
    "yes": bool,
    "many": list[int],
    "either": Union[int, str],  # noqa: UP007
    "maybe": Optional[str],  # noqa: UP045
    "newer": int | None,
    "three": Union[int, str, None],  # noqa: UP007
    "map": dict[str, int],
    "place": Place,
    "nested": list[Annotated[Place, "A place"]],
    "any": Any,
    "pair": tuple[int, str],
    "bytes": bytes,
    "odd": {"type": "string"},
}
SEARCH = {
    "type": "object",
    "properties": {"query": {"type": "string", "minLength": 2}, "limit": {"type": "integer", "maximum": 9}},
    "required": ["query"],
    "additionalProperties": False,
}
CALLS: dict[str, list[dict[str, Any]]] = {
    "greet": [{"name": "Ann"}, {}, {"name": 1}, {"name": "Ann", "more": 1}],
    "divide": [{"a": 1, "b": 0}, {"a": 1, "b": 4}, {"a": "1", "b": 2}],
    "journey": [
        *({}, {"number": 1, "stops": [{"name": "A", "height": 2}]}, {"number": 1, "stops": [{"height": 2}]}),
        {"number": 1, "by_train": None},
    ],
    "place": [{"name": "A"}, {"height": "high"}],
    "search": [
        {"query": "ab", "limit": 3},
        {"query": "a"},
        {"query": "ab", "limit": 10},
        {"query": "ab", "other": 1},
    ],
    "nothing": [{}, {"whatever": 1}],
    "mixed": [{"x": 1}],
    **{name: [{}] for name in ("torn", "kinds", "lost", "hinted", "backported")},
}


def text(content: str, **more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": content}], **more}


async def greet(args: dict[str, Any]) -> Any:
    return text(f"Hello, {args['name']}!")


async def divide(args: dict[str, Any]) -> Any:
    return (
        text("Error: Division by zero", is_error=True) if args["b"] == 0 else text(f"{args['a'] / args['b']}")
    )


async def echo(args: dict[str, Any]) -> Any:
    return text(json.dumps(args), is_error=False)


async def fail(args: dict[str, Any]) -> Any:
    raise RuntimeError("it went wrong")


async def mixed(args: dict[str, Any]) -> Any:
    link = {"type": "resource_link", "name": "doc", "uri": "file:///doc", "description": "A document"}
    return {
        "content": [
            {"type": "image", "data": "aGk=", "mimeType": "image/png"}, link, {"type": "resource_link"},
            {"type": "resource", "resource": {"uri": "file:///x", "text": "inside"}},
            {"type": "resource", "resource": {"uri": "file:///x", "blob": "aGk="}},
            {"type": "audio", "data": "aGk=", "mimeType": "audio/wav"}, {"type": "text", "text": "last"},
        ]
    }  # fmt: skip


async def torn(args: dict[str, Any]) -> Any:
    return {"content": [{"type": "text"}]}


def config_of(library: Any) -> Any:
    """Return a server with tools that are registered with an SDK or with mcpkit."""
    from mcp.types import ToolAnnotations

    tool = library.tool
    tools = [
        tool("greet", "Greet a user", {"name": str})(greet),
        tool("divide", "Divide two numbers", {"a": float, "b": float})(divide),
        tool("kinds", "  Types\n  of all kinds ", KINDS)(echo),
        tool("backported", "As the newest Python has it", Backported)(echo),
        tool("journey", "A journey", Journey)(echo),
        tool("place", "A place", Place)(echo),
        tool("search", "Search", SEARCH)(echo),
        tool("nothing", "Takes nothing", {})(fail),
        tool("mixed", "Takes an unknown type", Unknown)(mixed),
        tool("torn", "Has no text", {})(torn),
        tool("hinted", "Has hints", {}, annotations=ToolAnnotations(title="Hints", readOnlyHint=True))(fail),
    ]
    if library.__name__ != "qoder_agent_sdk":  # which has no such annotations
        hints = library.ToolAnnotations(
            read_only_hint=True, destructiveHint=False, maxResultSizeChars=500_000
        )
        tools.append(tool("large", "May be large", {"q": str}, hints)(greet))
    return library.create_sdk_mcp_server(name="examples", version="2.0.0", tools=tools)


async def exchange(sdk: str, library: Any) -> dict[str, Any]:
    config = config_of(library)
    async with agent(sdk, config) as client:
        info = (await client.begin())["result"]["serverInfo"]
        tools = {each["name"]: each for each in await client.tools()}
        calls = [[name, row, await client.call(name, **row)] for name, rows in CALLS.items() for row in rows]
    if sdk == "qoder":
        tools.pop("large", None)
    return {"config": [config["type"], config["name"]], "info": info, "tools": tools, "calls": calls}


def pytest_generate_tests(metafunc: Any) -> None:  # environments of SDKs have no pytest to import
    if "environment" in metafunc.fixturenames:
        metafunc.parametrize("environment", AGENTS, ids=str)


def test_sdk_tools_and_calls_equal_those_of_the_sdk(environment: Environment) -> None:
    outcomes = environment.outcomes(Path(__file__))
    for expected, actual in zip(outcomes["theirs"]["calls"], outcomes["ours"]["calls"], strict=True):
        assert actual == expected
    assert outcomes["ours"] == outcomes["theirs"]


if __name__ == "__main__":
    theirs = asyncio.run(exchange(sys.argv[1], importlib.import_module(f"{sys.argv[1]}_agent_sdk")))
    print(json.dumps({"theirs": theirs, "ours": asyncio.run(exchange(sys.argv[1], agent_sdk))}))
