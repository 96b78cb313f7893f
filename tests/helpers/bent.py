"""Messages of the protocol with one thing wrong, generated from the official schemas.

Each member of each message can be bent: it is missing, null, empty, of a neighbouring type, doubled or not JSON, or the
object has a member that the schema does not know. The same seed always gives the same message.
"""

from __future__ import annotations

import copy
import json
import os
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
EXAMPLES = int(os.environ.get("MCPKIT_TEST_EXAMPLES", "50"))

Message = dict[str, Any]
Path_ = tuple[str | int, ...]

_META = "io.modelcontextprotocol/"
_INFO = {"name": "bent", "version": "1"}
_TEXT_KINDS = {
    "nan": b"NaN",
    "large": b"1e999",
    "half": rb'"cut \ud83d"',
    "control": b'"a\tb"',
    "bytes": b'"\xff"',
}
_KINDS = ("missing", "null", "empty", "neighbour", "doubled", "unknown", "cut", *_TEXT_KINDS)
_MARK = "\uf8ff"
_BY_FORMAT = {"uri": "note://one", "uri-template": "note://{name}", "byte": "YQ=="}

OVERLAYS: dict[str, Any] = {
    "tools/call": {"name": "add", "arguments": {"first": 1, "second": 2}},
    "resources/read": {"uri": "note://one"},
    "resources/subscribe": {"uri": "note://one"},
    "resources/unsubscribe": {"uri": "note://one"},
    "prompts/get": {"name": "greet", "arguments": {"name": "Ada"}},
    "completion/complete": {
        "ref": {"type": "ref/prompt", "name": "greet"},
        "argument": {"name": "name", "value": "A"},
        "context": {},
    },
}
"""The params of requests that a server understands; the rest of them is as the schema has it."""

_LEFT_OUT = {"cursor", "nextCursor", "task", "inputResponses", "requestState", "execution", "$schema"}
"""Members that ask for something else than the plain message does."""


class Bent(NamedTuple):
    """A message with one thing wrong.

    Args:
        text: The message as bytes.
        kind: What is wrong with it.
        path: Where.
        below: The paths of what lies below it, which is gone with it.
    """

    text: bytes
    kind: str
    path: Path_
    below: list[Path_]

    def is_named_in(self, problem: str) -> bool:
        """Return whether an error says where the fault is."""
        parts = [part for path in (self.path, *self.below) for part in path]
        names = [each.removeprefix(_META) for each in parts if isinstance(each, str)]
        words = problem.lower()
        words += words.replace(" ", "").replace("-", "")  # "protocol version" names protocolVersion
        return any(name.lower() in words for name in names) or "parse error" in words


class Schema:
    """The messages of one revision.

    Args:
        folder: The folder with the official schemas.
        revision: The revision.
    """

    def __init__(self, folder: Path, revision: str) -> None:
        document = json.loads((folder / revision / "schema.json").read_text(encoding="utf-8"))
        self.revision = revision
        self.definitions: Message = document.get("$defs") or document["definitions"]

    def methods(self, sender: str, kind: str) -> dict[str, str]:
        """Return the names of definitions by method.

        Args:
            sender: `Client` or `Server`.
            kind: `Request` or `Notification`.
        """
        union = self.definitions.get(sender + kind, {})
        names = [each["$ref"].rpartition("/")[2] for each in union.get("anyOf", ())]
        return {self.definitions[name]["properties"]["method"]["const"]: name for name in names}

    def sample(self, schema: Any, random: Random, depth: int = 0) -> Any:
        """Return a value that fits a schema, with all optional members."""
        if "$ref" in schema:
            return self.sample(self.definitions[schema["$ref"].rpartition("/")[2]], random, depth + 1)
        if "const" in schema:
            return schema["const"]
        for key in ("enum", "anyOf", "oneOf"):
            if key in schema:
                chosen = random.choice(schema[key])
                return chosen if key == "enum" else self.sample(chosen, random, depth + 1)
        if "allOf" in schema:
            parts = [self.sample(each, random, depth) for each in schema["allOf"]]
            return {name: value for part in parts for name, value in part.items()}
        type_ = schema.get("type", "object")
        type_ = random.choice(type_) if isinstance(type_, list) else type_
        if type_ == "object":
            required = schema.get("required", ())
            return {
                name: self.sample(member, random, depth + 1)
                for name, member in schema.get("properties", {}).items()
                if name in required or (depth < 8 and name not in _LEFT_OUT)
            }
        if type_ == "array":
            return [] if depth > 8 else [self.sample(schema["items"], random, depth + 1)]
        plain: Message = {"string": "a", "integer": 1, "number": 1.5, "boolean": False, "null": None}
        return _BY_FORMAT.get(schema.get("format"), plain[type_])

    def call(self, sender: str, method: str, random: Random, id_: Any = None) -> Message:
        """Return a request, or without an id a notification, that its receiver understands."""
        kind = "Notification" if id_ is None else "Request"
        message = self.sample(self.definitions[self.methods(sender, kind)[method]], random)
        message = {"jsonrpc": "2.0", **({} if id_ is None else {"id": id_}), **message}
        if id_ is not None:
            message["id"] = id_
        params = {**message.get("params", {}), **copy.deepcopy(OVERLAYS.get(method, {}))}
        if method == "initialize":
            params |= {"protocolVersion": self.revision, "clientInfo": dict(_INFO)}
        meta = params.get("_meta")
        if isinstance(meta, dict) and sender == "Client" and self.revision == REVISIONS[-1]:
            meta |= {f"{_META}protocolVersion": self.revision, f"{_META}clientInfo": dict(_INFO)}
        if params:
            message["params"] = params
        return message


@cache
def schema_of(folder: Path, revision: str) -> Schema:
    """Return the messages of a revision."""
    return Schema(folder, revision)


def bend(message: Message, random: Random) -> Bent:
    """Return a message with one thing wrong.

    Args:
        message: The message.
        random: What is chosen by chance.
    """
    message = copy.deepcopy(message)
    kind = random.choice(_KINDS)
    path = random.choice(_paths(message))
    holder: Any = message
    for key in path[:-1]:
        holder = holder[key]
    key = path[-1]
    value: Any = holder[key]
    below = _paths(value)
    if kind == "cut":
        text = json.dumps(message).encode()
        return Bent(text[: random.randrange(2, len(text))], kind, (), [])
    if kind == "missing":
        del holder[key]
    elif kind == "null":
        holder[key] = None
    elif kind == "empty":
        holder[key] = random.choice(["", 0, {}, [], False])
    elif kind == "neighbour":
        holder[key] = _neighbour(value, random)
    elif kind == "doubled":
        if isinstance(holder, list):
            holder.append(value)
        else:
            holder[f"{key}{_MARK}"] = _neighbour(value, random)
    elif kind == "unknown":
        target = value if isinstance(value, dict) else message
        name = random.choice(["x", "", "__proto__", "$ref", "id2", "ä" * 300])
        target[name] = random.choice([None, 1, {"a": []}])
    else:
        holder[key] = _MARK
        return Bent(json.dumps(message).encode().replace(b'"\\uf8ff"', _TEXT_KINDS[kind]), kind, path, below)
    return Bent(json.dumps(message).encode().replace(b"\\uf8ff", b""), kind, path, below)


def _paths(value: Any, path: Path_ = ()) -> list[Path_]:
    """Return the paths of all members, at any depth."""
    members = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    return [each for key, member in members for each in ((*path, key), *_paths(member, (*path, key)))]


def _neighbour(value: Any, random: Random) -> Any:
    """Return a value of another type that a careless implementation writes."""
    choices: Any = ["null", 0, {}]
    if isinstance(value, str):
        choices = [1, [value], {"value": value}, True, value + "x", [1]]
    elif isinstance(value, bool):
        choices = [str(value).lower(), int(value), str(value)]
    elif isinstance(value, (int, float)):
        choices = [str(value), float(value), value + 0.5, True, [value], -value, 10**30, f"0{value}"]
    elif isinstance(value, list):
        choices = [{}, "x", value[0] if value else 0, [None], [[value]], {"0": value}]
    elif isinstance(value, dict):
        choices = [list(value.values()), "x", 1, [value], json.dumps(value), True]
    return random.choice(choices)
