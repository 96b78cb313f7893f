"""Bent messages to a server: each request ends in time, with a result or with an error that names the member."""

import asyncio
import copy
import json
import os
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from mcpkit import Context, Server
from mcpkit.engine.message_dispatch import Connection
from tests.helpers.pipe import META, REVISIONS, initialize, message, stateless_meta

EXAMPLES = int(os.environ.get("MCPKIT_TEST_EXAMPLES", "50"))

Message = dict[str, Any]
Path_ = tuple[str | int, ...]

_INFO = {"name": "bent", "version": "1"}
_TEXT_KINDS = {
    "nan": b"NaN", "large": b"1e999", "half": rb'"cut \ud83d"', "control": b'"a\tb"', "bytes": b'"\xff"',
}  # fmt: skip
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
        """Return whether an error names the place of the fault."""
        parts = [part for path in (self.path, *self.below) for part in path]
        names = [each.removeprefix(META) for each in parts if isinstance(each, str)]
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
            meta |= {f"{META}protocolVersion": self.revision, f"{META}clientInfo": dict(_INFO)}
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


DEADLINE = 10.0
PROBE = message("server/discover", {"_meta": stateless_meta()}, "probe")
OTHER_REASONS = ("not found", "Unknown ", "before initialize", "no Mcp-Session-Id header", "requestState")
"""Errors of well-formed messages that name an unknown thing or come too early."""


def make_server() -> Server:
    server = Server("bent")

    @server.tool
    async def add(first: int, second: int, ctx: Context) -> int:
        return first + second

    @server.resource("note://one")
    def note() -> str:
        return "one"

    @server.resource("note://{name}/more")
    def more(name: str) -> str:
        return name

    @server.prompt(complete={"name": lambda value: [value]})
    def greet(name: str) -> str:
        return name

    return server


class Case:
    """One bent message to a server, and what comes before it.

    Args:
        folder: The folder with the official schemas.
        number: The number of the case, from which all else follows.

    Attributes:
        revision: The revision that is spoken.
        before: Messages that are sent first, now and then in the wrong order.
        bent: The message as it is sent.
    """

    def __init__(self, folder: Path, number: int) -> None:
        random = Random(number)
        self.revision = random.choice(REVISIONS)
        schema = schema_of(folder, self.revision)
        is_stateless = self.revision == REVISIONS[-1]
        opening = [initialize(self.revision), message("notifications/initialized", None, None)]
        self.before = [] if is_stateless else opening
        if is_stateless or random.random() < 0.8:
            sent = schema.call("Client", random.choice([*schema.methods("Client", "Request")]), random, 7)
        else:
            sent = schema.call("Client", random.choice([*schema.methods("Client", "Notification")]), random)
        if sent["method"] == "initialize":
            self.before = []
        if random.random() < 0.2:
            random.shuffle(self.before)
            self.before = self.before[: random.randrange(3)]
        self.bent = bend(sent, random)

    def __repr__(self) -> str:
        return f"{self.revision} {self.bent.kind} {self.bent.path} {self.bent.text[:600]!r} after {len(self.before)}"


def expects_answer(text: bytes) -> bool:
    """Return whether a message is a request, or not readable as anything."""
    try:
        message = json.loads(text)
    except ValueError:
        return True
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        return True
    if message.get("method") is None and ("result" in message or "error" in message):
        return False
    return "id" in message or type(message.get("method")) is not str


def judge(case: Case, answers: list[Message]) -> str | None:
    """Return what is wrong with the answers to a bent message."""
    if expects_answer(case.bent.text) and not answers:
        return "no answer"
    for answer in answers:
        result = answer.get("result", {})
        problem = json.dumps(answer.get("error") or (result["content"] if result.get("isError") else ""))
        is_named = problem == '""' or case.bent.is_named_in(problem)
        if not is_named and not any(each in problem for each in OTHER_REASONS):
            return f"does not name the member: {problem}"
    return None


async def send_bent(server: Server, case: Case) -> str | None:
    """Send a bent message over a pipe; return what is wrong with what comes back."""
    received: list[Message] = []
    has_answered = asyncio.Event()

    def receive(line: bytes) -> None:
        received.append(json.loads(line))
        if received[-1].get("id") == "probe":
            has_answered.set()

    connection = Connection(server, receive)
    try:
        for each in case.before:
            connection.receive(json.dumps(each).encode())
        received.clear()
        connection.receive(case.bent.text)
        await asyncio.wait_for(connection.drain(), DEADLINE)
        verdict = judge(case, [each for each in received if "method" not in each or "id" not in each])
        connection.receive(json.dumps(PROBE).encode())
        await asyncio.wait_for(has_answered.wait(), DEADLINE)
        return verdict
    except asyncio.TimeoutError:
        return "no end within the deadline"
    finally:
        await connection.aclose()


async def test_bent_message_is_answered_or_error_names_the_member(schema_dir: Path) -> None:
    server = make_server()
    faults: list[str] = []
    async with server.running():
        for number in range(EXAMPLES):
            case = Case(schema_dir, number)
            if (fault := await send_bent(server, case)) is not None:
                faults.append(f"case {number}: {fault}: {case}")
    assert not faults, f"{len(faults)} of {EXAMPLES}:\n" + "\n".join(faults[:20])
