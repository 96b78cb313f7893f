"""A server without a fault, and one with each fault that is planted."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from mcpkit.cli.checking.finding import Looked
from mcpkit.client.contract.changes import Change
from mcpkit.client.contract.surface import Surface
from mcpkit.client.contract.verdict import Effect

CITY = {"type": "string", "description": "Where."}


def tool(name: str = "forecast", description: str = "Say the weather.", **more: Any) -> dict[str, Any]:
    return {"name": name, "description": description, "inputSchema": schema(city=CITY), **more}


def schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False}


def argument(**keywords: Any) -> dict[str, Any]:
    return tool(inputSchema=schema(city={"description": "Where.", **keywords}))


CLEAN = Surface(
    "weather",
    instructions="Coordinates are in degrees.",
    tools=[tool(), tool("delete_alarm", "Delete an alarm.", annotations={"destructiveHint": True})],
    resources=[
        {"uri": "weather://states", "name": "states", "description": "All.", "mimeType": "text/plain"}
    ],
    templates=[
        {"uriTemplate": "weather://{state}", "name": "state", "description": "One.", "mimeType": "text/plain"}
    ],
    prompts=[
        {"name": "trip", "description": "Plan.", "arguments": [{"name": "to", "description": "Where."}]}
    ],
)


def with_tools(*tools: dict[str, Any]) -> Looked:
    return Looked([replace(CLEAN, tools=list(tools))])


def with_template(uri: str) -> Looked:
    return Looked([replace(CLEAN, templates=[{**CLEAN.templates[0], "uriTemplate": uri}])])


def with_source(folder: Path, *lines: str, head: str = "import time, requests, subprocess") -> Looked:
    path = folder / "server.py"
    path.write_text("\n".join([head, "async def slow(item):", *(f"    {line}" for line in lines)]))
    return Looked([CLEAN], [path])


def changed(effect: Effect) -> Looked:
    return Looked([CLEAN], changes=[Change("tool forecast", "it is gone", effect)])


def nested(levels: int) -> dict[str, Any]:
    inner: dict[str, Any] = {"type": "string", "description": "Where."}
    for _ in range(levels - 1):
        inner = {**schema(city=inner), "description": "Where."}
    return schema(city=inner)


TREE = schema(city={"$ref": "#/$defs/tree", "description": "Where."}) | {
    "$defs": {"tree": schema(sub={"type": "array", "items": {"$ref": "#/$defs/tree"}})}
}
OLD = replace(CLEAN, revision="2025-11-25")

PLANTED: dict[str, list[Looked]] = {
    "name-not-specified": [with_tools(tool("get weather")), with_tools(tool("")), with_tools(tool("wetter/ä"))],
    "name-letters": [with_tools(tool("weather.forecast"))],
    "name-begins-oddly": [with_tools(tool("4cast"))],
    "name-too-long": [
        with_tools(tool("f" * 64)),
        with_tools(tool("f" * 51)),  # mcp__weather__ is 14 characters
        with_tools(tool("f" * 52)),
    ],
    "argument-name": [
        with_tools(tool(inputSchema=schema(**{"the city": CITY}))),
        with_tools(tool(inputSchema=schema(**{"c" * 65: CITY}))),
    ],
    "names-alike": [
        with_tools(tool("get_user"), tool("getUser", "Other.")),
        Looked([replace(CLEAN, prompts=[CLEAN.prompts[0], {**CLEAN.prompts[0], "name": "Trip"}])]),
    ],
    "name-repeated": [with_tools(tool(), tool())],
    "name-of-several-servers": [Looked([CLEAN, replace(CLEAN, server="climate")])],
    "prompt-named-as-tool": [Looked([replace(CLEAN, prompts=[{**CLEAN.prompts[0], "name": "Forecast"}])])],
    "description-missing": [
        with_tools(tool(description=" ")),
        Looked([replace(CLEAN, resources=[{**CLEAN.resources[0], "description": None}])]),
    ],
    "description-too-long": [with_tools(tool(description="x" * 2_049))],
    "description-repeated": [with_tools(tool(), tool("report"))],
    "argument-undescribed": [with_tools(tool(inputSchema=schema(place={"type": "string"})))],
    "prompt-argument-undescribed": [
        Looked([replace(CLEAN, prompts=[{**CLEAN.prompts[0], "arguments": [{"name": "to", "required": True}]}])])
    ],
    "instructions-too-long": [Looked([replace(CLEAN, instructions="x" * 2_049)])],
    "schema-invalid": [with_tools(argument(type="text")),
                       with_tools(tool(outputSchema={"type": "object", "required": 1}))],
    "input-not-object": [with_tools(tool(inputSchema={"type": "string"})), with_tools(tool(inputSchema={}))],
    "output-not-object": [Looked([replace(OLD, tools=[tool(outputSchema={"type": "array"})])])],
    "union-at-top": [with_tools(tool(inputSchema={**schema(city=CITY), "anyOf": [{"required": ["city"]}]}))],
    "default-invalid": [
        with_tools(argument(type="string", default=5)),
        with_tools(tool(inputSchema={**schema(city={**CITY, "$ref": "#/$defs/c", "default": "x"}),
                                     "$defs": {"c": {"type": "integer"}}})),
    ],
    "example-invalid": [with_tools(argument(type="string", examples=["Oslo", 5]))],
    "reference-elsewhere": [with_tools(argument(**{"$ref": "https://example.com/a.json"})),
                            with_tools(argument(**{"$ref": "#/$defs/absent"})),
                            with_tools(argument(type="object", properties={"default": {"$ref": "#/$defs/absent"}})),
                            with_tools(argument(anyOf=[{"properties": {"enum": {"items": {"$ref": "#/required"}}}}]))],
    "schema-recursive": [with_tools(tool(inputSchema=TREE))],
    "keyword-dropped": [
        with_tools(tool(inputSchema={"$schema": "https://json-schema.org/draft/2020-12/schema", **schema(city=CITY)})),
        with_tools(argument(type="object", patternProperties={"^a": {"type": "string"}})),
    ],
    "map-dropped": [with_tools(argument(type="object", additionalProperties={"type": "integer"}))],
    "default-dropped": [with_tools(argument(anyOf=[{"type": "string"}, {"type": "null"}], default="Oslo"))],
    "enum-not-texts": [with_tools(argument(enum=[1, 2])), with_tools(argument(const=True))],
    "types-cut": [with_tools(argument(type=["string", "integer"])),
                  with_tools(argument(type="array", prefixItems=[CITY]))],
    "one-of": [with_tools(argument(oneOf=[{"type": "string"}, {"type": "integer"}]))],
    "schema-too-large": [
        with_tools(tool(inputSchema=nested(11))),
        with_tools(argument(enum=[str(number) for number in range(1_001)])),
    ],
    "strict-mode": [
        replace(Looked([CLEAN]), strict_hosts=["openai-strict"]),
        replace(with_tools(argument(type="integer", minimum=1)), strict_hosts=["anthropic-strict"]),
        replace(with_tools(tool(inputSchema=TREE)), strict_hosts=["anthropic-strict"]),
    ],
    "annotations-contradict": [with_tools(tool(annotations={"readOnlyHint": True, "destructiveHint": True}))],
    "name-contradicts": [
        with_tools(tool("delete_user", annotations={"readOnlyHint": True})),
        with_tools(tool("removeUser", annotations={"destructiveHint": False})),
        with_tools(tool("get-user", annotations={"destructiveHint": True})),
    ],
    "uri-not-absolute": [with_template("states/{state}")],
    "template-variables": [with_template(f"weather://{uri}") for uri in ("{}", "{a}/{a}", "{a-b}", "all", "{a")],
    "tool-over-budget": [with_tools(tool(description="word " * 400), tool("c", "rain " * 1_200))],
    "total-over-budget": [replace(Looked([CLEAN]), budget=50)],
    "contract-broken": [changed(Effect.BREAKING)],
    "contract-untold": [changed(Effect.UNTOLD)],
    "contract-changed": [changed(Effect.COMPATIBLE)],
}  # fmt: skip
"""Each rule's faults; those of `blocks-the-loop`, which are in files, are below."""

BLOCKING = [
    ("time.sleep(1)", "import time"),
    ("pause(1)", "from time import sleep as pause"),
    ("requests.get(item)", "import requests"),
    ("r.post(item)", "import requests as r"),
    ("subprocess.run(['ls'])", "import subprocess"),
    ("return open(item).read()", ""),
    ("with open(item) as file: return file.read()", ""),
    ("for _ in range(3): urllib.request.urlopen(item)", "import urllib.request"),
    ("return input('who?')", ""),
]
AT_EASE = [
    ("await asyncio.sleep(1)", "import asyncio"),
    ("await asyncio.to_thread(time.sleep, 1)", "import asyncio, time"),
    ("def later(): time.sleep(1)", "import time"),
    ("sleep(1)", "from trio import sleep"),
    ("return item.read()", ""),
    ("requests = item; requests.get(1)", ""),
]

SERVING = """
import json, sys
LISTS = json.loads({lists!r})
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    kind = {{"tools/list": "tools", "prompts/list": "prompts"}}.get(asked["method"])
    if asked["method"] == "initialize":
        result = {{"protocolVersion": "2025-11-25", "serverInfo": {{"name": "planted", "version": "1"}},
                   "capabilities": {{"tools": {{}}, "prompts": {{}}}}}}
    elif kind:
        result = {{kind: LISTS[kind]}}
    else:
        error = {{"code": -32601, "message": "there is no such method"}}
        print(json.dumps({{"jsonrpc": "2.0", "id": asked["id"], "error": error}}), flush=True)
        continue
    print(json.dumps({{"jsonrpc": "2.0", "id": asked["id"], "result": result}}), flush=True)
"""


def serving(**lists: list[dict[str, Any]]) -> str:
    """Return the code of a server that lists what no framework would let it: it speaks the protocol by hand."""
    return SERVING.format(lists=json.dumps({"tools": [], "prompts": [], **lists}))
