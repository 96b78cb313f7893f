"""What is asked of each server: its lists, its calls, and every sort of wrong argument."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.helpers.published.peers import ANSWER, CAPABILITIES, START, Http, Message, Stdio

Peer = Stdio | Http
LISTS = {
    "tools/list": "tools",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
}


@dataclass(frozen=True)
class Kit:
    """What there is to try beside what the lists tell.

    Attributes:
        calls: Tools and their arguments, in the order in which they are called.
        reads: URIs beside those that are listed.
        prompts: Arguments of prompts, where made-up ones say little.
        left_alone: Tools that are not called with made-up arguments: they would install something, or wait.
    """

    calls: Sequence[tuple[str, Mapping[str, Any]]] = ()
    reads: Sequence[str] = ()
    prompts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    left_alone: Sequence[str] = ()


@dataclass(frozen=True)
class Step:
    """A request, and what was heard until it was answered."""

    label: str
    heard: list[Message]


class Plan:
    """The requests of a journey: made from what the first server lists, the same for each further one."""

    def __init__(self, kit: Kit) -> None:
        self._kit = kit
        self._made: list[tuple[str, str, Message]] | None = None

    def steps(self, listed: Mapping[str, list[Message]]) -> list[tuple[str, str, Message]]:
        if self._made is None:
            self._made = [*_steps(self._kit, listed)]
        return self._made


def travel(peer: Peer, plan: Plan, revision: str, is_whole: bool) -> list[Step]:
    """Make the whole journey, or only its beginning: the lists, and the calls of the kit."""
    numbers = iter(range(1, 1_000_000))
    journey: list[Step] = []

    def ask(method: str, params: Message, label: str = "", patience: float = ANSWER) -> Message:
        message = {"jsonrpc": "2.0", "id": next(numbers), "method": method, "params": params}
        heard = peer.ask(message, patience)
        journey.append(Step(label or method, [_without_its_id(each) for each in heard]))
        return heard[-1] if heard else {}

    client = {"name": "journey", "version": "1"}
    began = ask(
        "initialize",
        {"protocolVersion": revision, "capabilities": CAPABILITIES, "clientInfo": client},
        patience=START,
    )
    if "result" not in began:
        return journey
    peer.tell({"jsonrpc": "2.0", "method": "notifications/initialized"})
    listed = {name: [*_paged(ask, method, name)] for method, name in LISTS.items()}
    for label, method, params in plan.steps(listed):
        if is_whole or label.startswith("call"):
            last = ask(method, params, label)
            if "closed" in last:
                break
    return journey


def _without_its_id(message: Message) -> Message:
    """Leave the id out of what a server asks: it chooses it as it likes."""
    return {**message, "id": "its own"} if "method" in message and "id" in message else message


def _paged(ask: Callable[..., Message], method: str, name: str) -> Iterator[Message]:
    cursor: Message = {}
    while True:
        page = ask(method, cursor).get("result", {})
        yield from page.get(name, [])
        if "nextCursor" not in page:
            return
        cursor = {"cursor": page["nextCursor"]}


def _steps(kit: Kit, listed: Mapping[str, list[Message]]) -> Iterator[tuple[str, str, Message]]:
    tools = {tool["name"]: tool["inputSchema"] for tool in listed["tools"]}
    for number, (name, arguments) in enumerate(kit.calls, 1):
        asked = {"name": name, "arguments": dict(arguments), "_meta": {"progressToken": f"progress {number}"}}
        yield f"call {number} {name}", "tools/call", asked
    for number, (name, arguments) in enumerate(kit.calls, 1):
        if name not in kit.left_alone:
            asked = {"name": name, "arguments": {**arguments, "of_nobody": [1]}}
            yield f"unknown argument {number} {name}", "tools/call", asked
    for name, schema in tools.items():
        yield from _wrong(name, schema)
        if name not in kit.left_alone and name not in {called for called, _ in kit.calls}:
            yield f"made up {name}", "tools/call", {"name": name, "arguments": _made_up(schema, schema)}
    yield "no such tool", "tools/call", {"name": "no_such_tool", "arguments": {}}
    yield "call without a name", "tools/call", {"arguments": {}}
    for name in [*tools][:1]:
        yield f"arguments that are a list {name}", "tools/call", {"name": name, "arguments": [1]}
    yield from _resources(kit, listed)
    yield from _prompts(kit, listed)
    yield "ping", "ping", {}
    yield "no such method", "no/such", {}
    yield "logging/setLevel", "logging/setLevel", {"level": "debug"}


def _wrong(name: str, schema: Message) -> Iterator[tuple[str, str, Message]]:
    required = schema.get("required", [])
    if not required:
        return
    yield f"missing {name}", "tools/call", {"name": name, "arguments": {}}
    yield f"missing without arguments {name}", "tools/call", {"name": name}
    wrong = {key: _wrong_value(schema, schema["properties"].get(key, {})) for key in required}
    if any(value is not None for value in wrong.values()):
        arguments = {key: "text" if value is None else value for key, value in wrong.items()}
        yield f"wrong type {name}", "tools/call", {"name": name, "arguments": arguments}


def _wrong_value(root: Message, schema: Message) -> Any:
    """Return what a schema surely refuses, or None where it takes anything."""
    schema = _resolved(root, schema)
    match schema.get("type"):
        case "string":
            return {"of": "another type"}
        case "integer" | "number" | "boolean" | "array" | "object":
            return "of another type"
        case _:
            return None


def _made_up(root: Message, schema: Message) -> Any:
    """Return a value that a schema takes: of objects only what is required."""
    schema = _resolved(root, schema)
    if "default" in schema:
        return schema["default"]
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return schema["enum"][0]
    match schema.get("type"):
        case "object":
            properties = schema.get("properties", {})
            return {key: _made_up(root, properties.get(key, {})) for key in schema.get("required", [])}
        case "array":
            return [_made_up(root, schema.get("items", {}))]
        case "integer" | "number":
            return schema.get("minimum", 1)
        case "boolean":
            return True
        case "null":
            return None
        case _:
            return "sample"


def _resolved(root: Message, schema: Message) -> Message:
    while True:
        if "$ref" in schema:
            found: Any = root
            for part in schema["$ref"].removeprefix("#/").split("/"):
                found = found[part]
            schema = found
        elif "anyOf" in schema:
            schema = schema["anyOf"][0]
        else:
            return schema


def _resources(kit: Kit, listed: Mapping[str, list[Message]]) -> Iterator[tuple[str, str, Message]]:
    for uri in [*(each["uri"] for each in listed["resources"]), *kit.reads]:
        yield f"read {uri}", "resources/read", {"uri": uri}
    yield "read what is not there", "resources/read", {"uri": "nowhere://nothing"}
    yield "read without a URI", "resources/read", {}
    yield "resources/subscribe", "resources/subscribe", {"uri": "nowhere://nothing"}
    for template in listed["resourceTemplates"]:
        reference = {"type": "ref/resource", "uri": template["uriTemplate"]}
        yield (
            f"complete {template['uriTemplate']}",
            "completion/complete",
            {"ref": reference, "argument": {"name": "x", "value": "a"}},
        )


def _prompts(kit: Kit, listed: Mapping[str, list[Message]]) -> Iterator[tuple[str, str, Message]]:
    for prompt in listed["prompts"]:
        name = prompt["name"]
        given = {one["name"]: "sample" for one in prompt.get("arguments") or []} | kit.prompts.get(name, {})
        yield f"prompt {name}", "prompts/get", {"name": name, "arguments": given}
        yield (
            f"prompt with more {name}",
            "prompts/get",
            {"name": name, "arguments": given | {"of_nobody": "1"}},
        )
        yield f"prompt with nothing {name}", "prompts/get", {"name": name}
        yield (
            f"prompt of a number {name}",
            "prompts/get",
            {"name": name, "arguments": dict.fromkeys(given, 1)},
        )
        reference = {"type": "ref/prompt", "name": name}
        yield (
            f"complete {name}",
            "completion/complete",
            {"ref": reference, "argument": {"name": [*given, "x"][0], "value": "a"}},
        )
    yield "no such prompt", "prompts/get", {"name": "no_such_prompt"}
