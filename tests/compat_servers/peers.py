"""Clients of published servers, the requests that they send, and the comparison of two runs."""

import contextlib
import json
import os
import queue
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from tests.compat_servers.servers import Server
from tests.helpers.pipe import LISTS

Message = dict[str, Any]
Request = tuple[str, str, Message]
"""A label, a method and its parameters."""

START = 300.0
"""Seconds until the first response of a server: some import for ten, and the machine is busy."""
ANSWER = 120.0
"""Seconds for each other response."""
STOP = 5.0
CAPABILITIES = {"roots": {"listChanged": True}, "sampling": {}, "elicitation": {}}
RESULTS: dict[str, Message] = {
    "roots/list": {"roots": [{"uri": "file:///roots/one", "name": "one"}]},
    "elicitation/create": {"action": "decline"},
    "ping": {},
}
"""The results of requests of servers; any other request gets an error."""


def response_to(request: Message) -> Message:
    """Return the response to a request of a server."""
    refused = {"error": {"code": -1, "message": "The user refused."}}
    method = request["method"]
    outcome = {"result": RESULTS[method]} if method in RESULTS else refused
    return {"jsonrpc": "2.0", "id": request["id"], **outcome}


class Peer:
    """A server in a process group of its own."""

    def __init__(
        self, command: Sequence[str], settings: Mapping[str, str], folder: Path, notes: Path, **pipes: int
    ) -> None:
        with notes.open("ab") as log:
            streams: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log, **pipes}
            self.process = subprocess.Popen(
                command, env=dict(settings), cwd=folder, start_new_session=True, **streams
            )

    def close(self) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(STOP)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


class Stdio(Peer):
    """A server over stdio."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._received: queue.Queue[Message] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with contextlib.suppress(ValueError):  # other output of the server
                message = json.loads(line)
                if isinstance(message, dict):
                    self._received.put(message)
        self._received.put({"closed": True})

    def send(self, message: Message) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(message).encode() + b"\n")
            self.process.stdin.flush()

    def request(self, message: Message, timeout: float = ANSWER) -> list[Message]:
        self.send(message)
        received: list[Message] = []
        deadline = time.monotonic() + timeout
        while True:
            try:
                received.append(last := self._received.get(timeout=max(0.0, deadline - time.monotonic())))
            except queue.Empty:
                return [*received, {"no answer within": timeout}]
            if "closed" in last:
                self._received.put(last)
                return received
            if "method" not in last and last.get("id") == message["id"]:
                return received
            if "method" in last and "id" in last:
                self.send(response_to(last))

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        super().close()
        self._reader.join(STOP)
        self.process.stdout.close()


class Http(Peer):
    """A server that listens: each message is a POST, with a response of JSON or events."""

    def __init__(self, *arguments: Any, port: int, path: str) -> None:
        super().__init__(*arguments)
        self._url = f"http://127.0.0.1:{port}{path}"
        self._headers = {"Accept": "application/json, text/event-stream"}
        deadline = time.monotonic() + START
        while self.process.poll() is None and time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", port), 1).close()
                return
            time.sleep(0.05)

    def _post(self, message: Message, timeout: float) -> Iterator[Message]:
        try:
            with httpx2.stream(
                "POST", self._url, json=message, headers=self._headers, timeout=timeout, trust_env=False
            ) as response:
                if (session := response.headers.get("mcp-session-id")) is not None:
                    self._headers["mcp-session-id"] = session
                kind = response.headers.get("content-type", "").partition(";")[0]
                if kind == "text/event-stream":
                    events = (line[5:] for line in response.iter_lines() if line.startswith("data:"))
                    yield from (json.loads(event) for event in events if event.strip())
                    return
                if response.status_code >= 300:
                    yield {"status": response.status_code}
                if response.read() and kind == "application/json":
                    yield response.json()
        except httpx2.TransportError as error:
            yield {"closed": type(error).__name__}

    def send(self, message: Message) -> None:
        list(self._post(message, ANSWER))

    def request(self, message: Message, timeout: float = ANSWER) -> list[Message]:
        received = []
        for each in self._post(message, timeout):
            received.append(each)
            if message["method"] == "initialize" and "result" in each:
                self._headers["mcp-protocol-version"] = each["result"]["protocolVersion"]
            if "method" in each and "id" in each:
                self.send(response_to(each))
        return received

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGTERM)
        super().close()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


@dataclass(frozen=True)
class Step:
    """A request, and all messages up to its response."""

    label: str
    heard: list[Message]


def travel(peer, server, plan, revision, is_whole) -> list[Step]:
    """Make the whole journey, or only its beginning: the lists, and the calls of the table.

    The first journey fills the plan with requests of the lists that it receives; each further one makes the same.
    """
    journey: list[Step] = []

    def request(method: str, params: Message, label: str = "", timeout: float = ANSWER) -> Message:
        message = {"jsonrpc": "2.0", "id": len(journey) + 1, "method": method, "params": params}
        received = [
            {**each, "id": "chosen by the server"} if "method" in each and "id" in each else each
            for each in peer.request(message, timeout)
        ]
        journey.append(Step(label or method, received))
        return received[-1] if received else {}

    def items(method: str, name: str) -> Iterator[Message]:
        cursor: Message = {}
        while True:
            page = request(method, cursor).get("result", {})
            yield from page.get(name, [])
            if "nextCursor" not in page:
                return
            cursor = {"cursor": page["nextCursor"]}

    client = {"name": "journey", "version": "1"}
    params = {"protocolVersion": revision, "capabilities": CAPABILITIES, "clientInfo": client}
    if "result" in request("initialize", params, timeout=START):
        peer.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        listed = {name: [*items(method, name)] for method, name in LISTS.items()}
        plan[:] = plan or _requests(server, listed)
        for label, method, params in plan:
            if (is_whole or label.startswith("call")) and "closed" in request(method, params, label):
                break
    return journey


def _requests(server: Server, listed: Mapping[str, list[Message]]) -> Iterator[Request]:
    def call(label: str, name: str, **more: Any) -> Request:
        return f"{label} {name}", "tools/call", {"name": name, **more}

    tools = {tool["name"]: tool["inputSchema"] for tool in listed["tools"]}
    for number, (name, arguments) in enumerate(server.calls, 1):
        meta = {"progressToken": f"progress {number}"}
        yield call(f"call {number}", name, arguments=dict(arguments), _meta=meta)
    for number, (name, arguments) in enumerate(server.calls, 1):
        if name not in server.left_alone:
            yield call(f"unknown argument {number}", name, arguments={**arguments, "of_nobody": [1]})
    for name, schema in tools.items():
        if required := schema.get("required", []):
            yield call("missing", name, arguments={})
            yield call("missing without arguments", name)
            wrong = {key: _wrong_value(schema, schema["properties"].get(key, {})) for key in required}
            if any(value is not None for value in wrong.values()):
                arguments = {key: "text" if value is None else value for key, value in wrong.items()}
                yield call("wrong type", name, arguments=arguments)
        if name not in server.left_alone and name not in {called for called, _ in server.calls}:
            yield call("made up", name, arguments=_made_up(schema, schema))
    yield "no such tool", "tools/call", {"name": "no_such_tool", "arguments": {}}
    yield "call without a name", "tools/call", {"arguments": {}}
    for name in [*tools][:1]:
        yield call("arguments that are a list", name, arguments=[1])
    for uri in [*(each["uri"] for each in listed["resources"]), *server.reads]:
        yield f"read {uri}", "resources/read", {"uri": uri}
    yield "read what is not there", "resources/read", {"uri": "nowhere://nothing"}
    yield "read without a URI", "resources/read", {}
    yield "resources/subscribe", "resources/subscribe", {"uri": "nowhere://nothing"}
    for uri in (template["uriTemplate"] for template in listed["resourceTemplates"]):
        yield _completion(uri, {"type": "ref/resource", "uri": uri}, "x")
    for prompt in listed["prompts"]:
        name = prompt["name"]
        given = {each["name"]: "sample" for each in prompt.get("arguments") or []} | server.prompts.get(
            name, {}
        )
        for label, arguments in {
            "prompt": given,
            "prompt with more": given | {"of_nobody": "1"},
            "prompt of a number": dict.fromkeys(given, 1),
        }.items():
            yield f"{label} {name}", "prompts/get", {"name": name, "arguments": arguments}
        yield f"prompt with nothing {name}", "prompts/get", {"name": name}
        yield _completion(name, {"type": "ref/prompt", "name": name}, [*given, "x"][0])
    yield "no such prompt", "prompts/get", {"name": "no_such_prompt"}
    yield "ping", "ping", {}
    yield "no such method", "no/such", {}
    yield "logging/setLevel", "logging/setLevel", {"level": "debug"}


def _completion(label: str, reference: Message, argument: str) -> Request:
    params = {"ref": reference, "argument": {"name": argument, "value": "a"}}
    return f"complete {label}", "completion/complete", params


def _wrong_value(root: Message, schema: Message) -> Any:
    """Return a value that a schema rejects, or None where it takes anything."""
    kind = _resolved(root, schema).get("type")
    if kind == "string":
        return {"of": "another type"}
    return "of another type" if kind in {"integer", "number", "boolean", "array", "object"} else None


def _made_up(root: Message, schema: Message) -> Any:
    """Return a value that a schema takes: of objects only the required members."""
    schema = _resolved(root, schema)
    for key in ("default", "const"):
        if key in schema:
            return schema[key]
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type")
    if kind == "object":
        properties = schema.get("properties", {})
        return {key: _made_up(root, properties.get(key, {})) for key in schema.get("required", [])}
    if kind == "array":
        return [_made_up(root, schema.get("items", {}))]
    if kind in {"integer", "number"}:
        return schema.get("minimum", 1)
    return {"boolean": True, "null": None}.get(kind, "sample")


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


VARIES = "(differs from run to run)"
ABSENT = "(absent)"


@dataclass(frozen=True)
class Difference:
    """A place where two responses are not the same.

    Attributes:
        label: The request.
        path: The place, as `0.result.content.0.text`.
        own: The value under the library of the server.
        ours: The value under mcpserver.
    """

    label: str
    path: str
    own: str
    ours: str

    def reason(self, reasons: Mapping[str, str]) -> str | None:
        """Return the first reason of which the regular expression matches the request, the place and the values."""
        place = f"{self.label}: {self.path}: {self.own} / {self.ours}"
        return next((why for key, why in reasons.items() if re.search(key, place, re.DOTALL)), None)


@dataclass(frozen=True)
class Verdict:
    """The comparison of two journeys.

    Attributes:
        requests: How many were compared.
        equal: How many have equal responses.
        varying: How many have parts that differ between two runs under the own library, and are not compared.
        differences: The rest.
    """

    requests: int
    equal: int
    varying: int
    differences: Sequence[Difference]


def compare(own: Sequence[Step], again: Sequence[Step], ours: Sequence[Step], version: str = "") -> Verdict:
    """Compare a journey under mcpkit with two under the library of the server.

    Args:
        own: The journey under its own library.
        again: The same, a second time: differences between these two are not compared.
        ours: The journey under mcpserver.
        version: The version of the library, which it reports as the server's where a server has none.
    """
    equal = varying = 0
    differences: list[Difference] = []
    for number, step in enumerate(own):
        twin = again[number].heard if number < len(again) else step.heard
        found = ours[number].heard if number < len(ours) else [{"never reached": True}]
        masked = _masked(step.heard, twin, step.heard)
        varying += masked != step.heard
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
    """Replace in `value` the parts that differ between the first two."""
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


def _masked_text(*texts: str) -> str:
    """Replace in the last text the lines that differ between the first two; a text of JSON is compared as JSON."""
    try:
        return canonical(_masked(*map(json.loads, texts)))
    except ValueError:
        lines = [each.split("\n") for each in texts]
    if len({len(each) for each in lines}) > 1 or len(lines[0]) == 1:
        return VARIES
    return "\n".join(value if own == again else VARIES for own, again, value in zip(*lines, strict=True))


def _differing(own: Any, ours: Any, path: str = "") -> Iterator[tuple[str, str, str]]:
    if isinstance(own, dict) and isinstance(ours, dict):
        for key in sorted(own.keys() | ours.keys()):
            yield from _differing(own.get(key, ABSENT), ours.get(key, ABSENT), f"{path}.{key}".lstrip("."))
    elif isinstance(own, list) and isinstance(ours, list) and len(own) == len(ours):
        yield from _differing(dict(enumerate(own)), dict(enumerate(ours)), path)
    elif canonical(own) != canonical(ours):
        yield path, canonical(own), canonical(ours)


def canonical(value: Any) -> str:
    """Return a value as JSON with its keys in order."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
