"""Clients of published servers, the requests that they send, and the comparison of two runs."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import queue
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Message = dict[str, Any]


START = (
    300.0  # seconds until a server has answered for the first time: some import for ten, and others work here
)


ANSWER = 120.0  # seconds for each other answer


STOP = 5.0


CAPABILITIES = {"roots": {"listChanged": True}, "sampling": {}, "elicitation": {}}


def replied(request: Message) -> Message:
    """Answer what a server asks, always the same."""
    said: Message = {"jsonrpc": "2.0", "id": request["id"]}
    match request["method"]:
        case "roots/list":
            return said | {"result": {"roots": [{"uri": "file:///roots/one", "name": "one"}]}}
        case "elicitation/create":
            return said | {"result": {"action": "decline"}}
        case "ping":
            return said | {"result": {}}
        case _:
            return said | {"error": {"code": -1, "message": "The user refused."}}


class Stdio:
    """A server as a child process, whose lines are messages."""

    def __init__(
        self, command: Sequence[str], settings: Mapping[str, str], folder: Path, notes: Path
    ) -> None:
        self._notes = notes.open("ab")
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._notes,
            env=dict(settings),
            cwd=folder,
            start_new_session=True,
        )
        self._heard: queue.Queue[Message | None] = queue.Queue()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with contextlib.suppress(ValueError):  # what a server prints beside is no message
                message = json.loads(line)
                if isinstance(message, dict):
                    self._heard.put(message)
        self._heard.put(None)

    def tell(self, message: Message) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()

    def ask(self, message: Message, patience: float = ANSWER) -> list[Message]:
        """Send a request and return all that is heard until it is answered, the answer last."""
        self.tell(message)
        heard: list[Message] = []
        deadline = time.monotonic() + patience
        while True:
            try:
                said = self._heard.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                return [*heard, {"no answer within": patience}]
            if said is None:
                self._heard.put(None)
                return [*heard, {"closed": True}]
            heard.append(said)
            if "method" not in said and said.get("id") == message["id"]:
                return heard
            if "method" in said and "id" in said:
                self.tell(replied(said))

    def close(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(STOP)
        except subprocess.TimeoutExpired:
            pass
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._listener.join(STOP)
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._notes.close()


class Http:
    """A server as a child process that listens: each request is a POST, answered by JSON or events."""

    def __init__(
        self,
        command: Sequence[str],
        settings: Mapping[str, str],
        folder: Path,
        notes: Path,
        port: int,
        path: str,
    ) -> None:
        self._port, self._path = port, path
        self._headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
        self._notes = notes.open("ab")
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=self._notes,
            stderr=self._notes,
            env=dict(settings),
            cwd=folder,
            start_new_session=True,
        )
        deadline = time.monotonic() + START
        while True:
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", port), 1).close()
                return
            if self._process.poll() is not None or time.monotonic() > deadline:
                break
            time.sleep(0.05)

    def _posted(self, message: Message, patience: float) -> Iterator[Message]:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=patience)
        try:
            connection.request("POST", self._path, json.dumps(message), self._headers)
            answer = connection.getresponse()
            if (session := answer.getheader("mcp-session-id")) is not None:
                self._headers["mcp-session-id"] = session
            kind = (answer.getheader("content-type") or "").partition(";")[0]
            if kind == "text/event-stream":
                for line in answer:
                    if line.startswith(b"data:") and line[5:].strip():
                        yield json.loads(line[5:])
            else:
                body = answer.read()
                if answer.status >= 300:
                    yield {"status": answer.status}
                if kind == "application/json" and body:
                    yield json.loads(body)
        except OSError as error:
            yield {"closed": type(error).__name__}
        finally:
            connection.close()

    def tell(self, message: Message) -> None:
        list(self._posted(message, ANSWER))

    def ask(self, message: Message, patience: float = ANSWER) -> list[Message]:
        heard = []
        for said in self._posted(message, patience):
            heard.append(said)
            if message["method"] == "initialize" and "result" in said:
                self._headers["mcp-protocol-version"] = said["result"]["protocolVersion"]
            if "method" in said and "id" in said:
                self.tell(replied(said))
        return heard

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGTERM)
        try:
            self._process.wait(STOP)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._notes.close()


def free_port() -> int:
    """Return a port that nobody listens at."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


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


VARIES = "(differs from run to run)"


ABSENT = "(absent)"


@dataclass(frozen=True)
class Difference:
    """Where two answers are not the same.

    Attributes:
        label: The request.
        path: The place in what was heard, as `0.result.content.0.text`.
        own: What stands there under the library of the server.
        ours: What stands there under mcpkit.
    """

    label: str
    path: str
    own: str
    ours: str


@dataclass(frozen=True)
class Verdict:
    """What comparing two journeys told.

    Attributes:
        requests: How many were compared.
        equal: How many were answered the same.
        varying: How many have parts that differ between two runs under the server's own library, too: these parts
            are not compared.
        differences: The rest.
    """

    requests: int
    equal: int
    varying: int
    differences: Sequence[Difference]


def compare(own: Sequence[Step], again: Sequence[Step], ours: Sequence[Step], version: str) -> Verdict:
    """Compare a journey under mcpkit with two under the server's own library.

    Args:
        own: The journey under its own library.
        again: The same, a second time: what differs between these two differs by nature.
        ours: The journey under mcpkit.
        version: The version of the library, which it says is the server's where a server says none.
    """
    equal = varying = 0
    differences: list[Difference] = []
    for number, step in enumerate(own):
        twin = again[number].heard if number < len(again) else step.heard
        masked, heard = _masked(step.heard, twin, step.heard), step.heard
        varying += masked != heard
        found = ours[number].heard if number < len(ours) else [{"never reached": True}]
        is_first = step.label == "initialize"
        here = [
            Difference(step.label, path, one, other)
            for path, one, other in _differing(masked, _masked(step.heard, twin, found))
            if not (is_first and path.endswith("result.serverInfo.version") and one == json.dumps(version))
        ]
        equal += not here
        differences += here
    return Verdict(len(own), equal, varying, differences)


def _masked(own: Any, again: Any, value: Any) -> Any:
    """Replace in `value` what differs between the first two."""
    if isinstance(own, dict) and isinstance(again, dict) and own.keys() == again.keys():
        if not isinstance(value, dict):
            return value
        return {
            key: _masked(own[key], again[key], each) if key in own else each for key, each in value.items()
        }
    if isinstance(own, list) and isinstance(again, list) and len(own) == len(again):
        if not isinstance(value, list) or len(value) != len(own):
            return value
        return [_masked(*each) for each in zip(own, again, value, strict=True)]
    if isinstance(own, str) and isinstance(again, str) and own != again and isinstance(value, str):
        return _masked_text(own, again, value)
    return value if own == again else VARIES


def _masked_text(own: str, again: str, value: str) -> str:
    """Replace in a text the lines that differ, where they are as many; a text of JSON is compared as JSON."""
    try:
        parsed = [json.loads(each) for each in (own, again, value)]
    except ValueError:
        lines = [each.split("\n") for each in (own, again, value)]
        if len({len(each) for each in lines}) > 1 or len(lines[0]) == 1:
            return VARIES
        return "\n".join(
            third if first == second else VARIES for first, second, third in zip(*lines, strict=True)
        )
    return canonical(_masked(*parsed))


def _differing(own: Any, ours: Any, path: str = "") -> Iterator[tuple[str, str, str]]:
    if isinstance(own, dict) and isinstance(ours, dict):
        for key in sorted(own.keys() | ours.keys()):
            yield from _differing(own.get(key, ABSENT), ours.get(key, ABSENT), f"{path}.{key}".lstrip("."))
    elif isinstance(own, list) and isinstance(ours, list) and len(own) == len(ours):
        for number, (one, other) in enumerate(zip(own, ours, strict=True)):
            yield from _differing(one, other, f"{path}.{number}".lstrip("."))
    elif canonical(own) != canonical(ours):
        yield path, canonical(own), canonical(ours)


def canonical(value: Any) -> str:
    """Return a value as JSON with its keys in order."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
