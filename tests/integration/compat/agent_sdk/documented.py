"""The examples that the SDKs document, and schemas of all kinds, as a program that differs in one import alone.

Run with the name of an SDK it prints what the agent gets to see, by the own server of the SDK and by that of mcpkit.
Run with `stdio` it is the server of mcpkit.
"""

import asyncio
import importlib
import json
import runpy
import sys
from typing import Annotated, Any, Optional, TypedDict, Union

import typing_extensions
from typing_extensions import NotRequired, Required

from tests.helpers.agent_sdks import agent

SDK = sys.argv[1]
THEIRS = f"{SDK}_agent_sdk"
MAKER = globals().get("MAKER", "mcpkit.compat.agent_sdk")
maker: Any = importlib.import_module(MAKER)
tool = maker.tool


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


# Of the docstring of `tool`


@tool("greet", "Greet a user", {"name": str})
async def greet(args):
    return {"content": [{"type": "text", "text": f"Hello, {args['name']}!"}]}


@tool("add", "Add two numbers", {"a": float, "b": float})
async def add_numbers(args):
    result = args["a"] + args["b"]
    return {"content": [{"type": "text", "text": f"Result: {result}"}]}


@tool("divide", "Divide two numbers", {"a": float, "b": float})
async def divide(args):
    if args["b"] == 0:
        return {"content": [{"type": "text", "text": "Error: Division by zero"}], "is_error": True}
    return {"content": [{"type": "text", "text": f"Result: {args['a'] / args['b']}"}]}


# Of that of `create_sdk_mcp_server`


class DataStore:
    def __init__(self):
        self.items = []


store = DataStore()


@tool("add_item", "Add item to store", {"item": str})
async def add_item(args):
    store.items.append(args["item"])
    return {"content": [{"type": "text", "text": f"Added: {args['item']}, {store.items}"}]}


# What else may be declared, returned and raised


@tool(
    "kinds",
    "  Types\n  of all kinds ",
    {
        "text": Annotated[str, "Some text"],
        "whole": int,
        "yes": bool,
        "many": list[int],
        "list": list,
        "either": Union[int, str],  # noqa: UP007
        "maybe": Optional[str],  # noqa: UP045
        "newer": int | None,
        "three": Union[int, str, None],  # noqa: UP007
        "map": dict[str, int],
        "plain": dict,
        "place": Place,
        "nested": list[Annotated[Place, "A place"]],
        "any": Any,
        "pair": tuple[int, str],
        "bytes": bytes,
        "odd": {"type": "string"},
    },
)
async def kinds(args):
    return {"content": []}


@tool("backported", "As the newest Python has it", Backported)
async def backported(args):
    return {"content": [{"type": "text", "text": "x"}]}


@tool("journey", "A journey", Journey)
async def journey(args):
    return {"content": [{"type": "text", "text": json.dumps(args)}]}


@tool("place", "A place", Place)
async def place(args):
    return {"content": [{"type": "text", "text": json.dumps(args)}], "is_error": False}


@tool(
    "search",
    "Search",
    {
        "type": "object",
        "properties": {
            "query": {"type": "string", "minLength": 2},
            "limit": {"type": "integer", "maximum": 9},
        },
        "required": ["query"],
        "additionalProperties": False,
    },
)
async def search(args):
    return {"content": [{"type": "text", "text": json.dumps(args)}]}


@tool("nothing", "Takes nothing", {})
async def nothing(args):
    raise RuntimeError("it went wrong")


class Strange:
    pass


@tool("strange", "Takes what nobody knows", Strange)
async def strange(args):
    return {
        "content": [
            {"type": "image", "data": "aGk=", "mimeType": "image/png"},
            {"type": "resource_link", "name": "doc", "uri": "file:///doc", "description": "A document"},
            {"type": "resource_link"},
            {"type": "resource", "resource": {"uri": "file:///x", "text": "inside"}},
            {"type": "resource", "resource": {"uri": "file:///x", "blob": "aGk="}},
            {"type": "audio", "data": "aGk=", "mimeType": "audio/wav"},
            {"type": "text", "text": "last"},
        ]
    }


@tool("torn", "Has no text", {})
async def torn(args):
    return {"content": [{"type": "text"}]}


from mcp.types import ToolAnnotations  # noqa: E402

hinted = tool("hinted", "Has hints", {}, annotations=ToolAnnotations(title="Hints", readOnlyHint=True))(
    nothing.handler
)
TOOLS = [
    greet,
    add_numbers,
    divide,
    add_item,
    kinds,
    backported,
    journey,
    place,
    search,
    nothing,
    strange,
    torn,
    hinted,
]
if maker.__name__ != "qoder_agent_sdk":
    annotations = maker.ToolAnnotations(
        read_only_hint=True, destructiveHint=False, maxResultSizeChars=500_000
    )
    TOOLS.append(tool("large", "May be large", {"q": str}, annotations)(greet.handler))
CALLS = [
    ("greet", {"name": "Ann"}), ("greet", {}), ("greet", {"name": 1}), ("greet", {"name": "Ann", "more": 1}),
    ("add", {"a": 1, "b": 2.5}), ("add", {"a": "1", "b": 2}), ("divide", {"a": 1, "b": 0}),
    ("divide", {"a": 1, "b": 4}),
    ("add_item", {"item": "x"}), ("add_item", {"item": "y"}),
    ("journey", {}), ("journey", {"number": 1, "stops": [{"name": "A", "height": 2}]}),
    ("journey", {"number": 1, "stops": [{"height": 2}]}), ("backported", {}),
    ("journey", {"number": 1, "by_train": None}), ("place", {"name": "A"}), ("place", {"height": "high"}),
    ("search", {"query": "ab", "limit": 3}), ("search", {"query": "a"}), ("search", {"query": "ab", "limit": 10}),
    ("search", {"query": "ab", "other": 1}), ("nothing", {}), ("nothing", {"whatever": 1}), ("strange", {"x": 1}),
    ("torn", {}), ("kinds", {}), ("lost", {}), ("hinted", {}),
]  # fmt: skip


config = maker.create_sdk_mcp_server(name="examples", version="2.0.0", tools=TOOLS)


async def seen() -> dict[str, Any]:
    async with agent(SDK, config) as here:
        introduced = (await here.begin())["result"]["serverInfo"]
        tools = {each["name"]: each for each in await here.tools()}
        calls = [[call, await here.call(call[0], **call[1])] for call in CALLS]
    if SDK == "qoder":
        tools.pop("large", None)  # it has no annotations of its own to say that
    return {
        "config": [config["type"], config["name"]],
        "introduced": introduced,
        "tools": tools,
        "calls": calls,
    }


if __name__ == "__main__":
    if SDK == "stdio":
        config["instance"].server.run()
    else:
        theirs = runpy.run_path(__file__, {"MAKER": THEIRS})
        print(json.dumps({"theirs": asyncio.run(theirs["seen"]()), "ours": asyncio.run(seen())}))
