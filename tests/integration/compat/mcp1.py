"""Source that is written for `mcp` 1.x, run by `mcp` 1.30 in an environment of its own, and by mcpkit."""

from __future__ import annotations

import json
import os
import re
import select
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
SOURCES = Path(__file__).parent / "mcp_fastmcp" / "sources"
REFERENCE = ROOT / ".servers" / "mcp1" / ("Scripts" if sys.platform == "win32" else "bin") / "python"
DEFAULT_TIMEOUT = 60.0

Message = dict[str, Any]
Calls = Sequence[tuple[str, Mapping[str, Any]]]
LISTS = {
    "tools/list": "tools",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
}


def command_of(library: str, script: Path, *arguments: str) -> list[str]:
    """Return the command that runs a script with a library, `mcp` or `mcpkit`; without it, skip."""
    if library == "mcpkit":
        return [sys.executable, "-m", "mcpkit.compat", str(script), *arguments]
    if not REFERENCE.exists():
        pytest.skip("the environment of mcp 1.x is not there: run `make setup`")
    return [str(REFERENCE), str(script), *arguments]


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "FASTMCP"))}
    return {**kept, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "0", **more}


class Conversation:
    """A server over stdio and its client, which answers the requests of the server.

    Args:
        command: The command of the server.
        answers: The results of the server's requests by method.
        cwd: The folder of the server.
        variables: Further environment variables.
    """

    def __init__(
        self, command: Sequence[str], answers: Mapping[str, Any], cwd: Path | None = None, **variables: str
    ) -> None:
        self.answers = answers
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - `__exit__` closes it
        self.process = subprocess.Popen(
            command, stdin=PIPE, stdout=PIPE, stderr=self._log, env=environment(**variables), cwd=cwd
        )
        self._buffer = b""
        self._id = 0

    def send(self, message: Message) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()

    def receive(self) -> Message:
        """Return the next message; if it is a request, answer it."""
        assert self.process.stdout is not None
        while True:
            while b"\n" not in self._buffer:
                ready, _, _ = select.select([self.process.stdout], [], [], DEFAULT_TIMEOUT)
                chunk = os.read(self.process.stdout.fileno(), 65536) if ready else b""
                if not chunk:
                    self._log.seek(0)
                    raise AssertionError(f"no message from the server: {self._log.read().decode()}")
                self._buffer += chunk
            line, _, self._buffer = self._buffer.partition(b"\n")
            if line.startswith(b"{"):
                break
        message: Message = json.loads(line)
        if {"id", "method"} <= message.keys():
            answer = self.answers[message["method"]]
            self.send({"id": message["id"], "result": answer(message) if callable(answer) else answer})
        return message

    def request(self, method: str, params: Message | None = None) -> list[Message]:
        """Return all messages up to the response, without their ids."""
        self._id += 1
        self.send({"id": self._id, "method": method, **({} if params is None else {"params": params})})
        messages = [self.receive()]
        while "method" in messages[-1]:
            messages.append(self.receive())
        assert messages[-1]["id"] == self._id
        return [{key: value for key, value in each.items() if key != "id"} for each in messages]

    def initialize(self, capabilities: Message, revision: str = "2025-11-25") -> list[Message]:
        client = {"clientInfo": {"name": "tester", "version": "1"}, "capabilities": capabilities}
        messages = self.request("initialize", {"protocolVersion": revision, **client})
        self.send({"method": "notifications/initialized"})
        return messages

    def close(self) -> int:
        """Close the input of the server and return its exit status."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(DEFAULT_TIMEOUT)

    def __enter__(self) -> Conversation:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        for each in (self.process.stdin, self.process.stdout, self._log):
            assert each is not None
            each.close()


def run_source(library: str, name: str, folder: Path) -> Any:
    """Return the output of a script, which is JSON."""
    finished = subprocess.run(
        command_of(library, SOURCES / name),
        stdin=subprocess.DEVNULL,  # a script that does not run its server is served over stdio at its end
        capture_output=True,
        cwd=folder,
        encoding="utf-8",
        env=environment(),
        timeout=DEFAULT_TIMEOUT,
    )
    assert finished.returncode == 0, finished.stderr
    return json.loads(finished.stdout)


_SECTION = re.compile(
    r"^\s*(?:Args|Arguments|Parameters|Returns|Raises|Yields|Examples?|Notes?):\s*$", re.MULTILINE
)
_PREFIX = re.compile(r"^Error executing tool [^:]*: ")


def normalized(
    command: Sequence[str], variables: Mapping[str, str], cwd: Path, calls: Calls = ()
) -> dict[str, Any]:
    """Return the normalized lists of a server and its responses to calls.

    - Tools: the name, the first paragraph of the description (a section such as `Args:` ends it), the names of
      arguments, their JSON types (of a union, all of them; null is left out where it is the default) and which are
      required. mcpkit makes other titles, defaults, formats and output schemas of the same signature.
    - Prompts: the name, the first paragraph, the arguments and which are required.
    - Resources and templates: URI, name and first paragraph.
    - Calls: whether they failed, and their texts. A text that is JSON is compared as its value; a list, of which
      version 1 makes a text of each item, is one; the prefix `Error executing tool NAME: ` is left out.
    """
    with Conversation(command, {}, cwd, **variables) as server:
        server.initialize({}, "2025-06-18")
        found: dict[str, Any] = {}
        for method, member in LISTS.items():
            listed = server.request(method, {})[-1].get("result", {}).get(member, [])
            found[member] = {
                each.get("uri") or each.get("uriTemplate") or each["name"]: entry(each) for each in listed
            }
        requests = [{"name": name, "arguments": arguments} for name, arguments in calls]
        found["calls"] = [answer(server.request("tools/call", each)[-1]) for each in requests]
        return found


def entry(listed: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is compared of something that is listed."""
    found: dict[str, Any] = {"name": listed["name"], "description": _paragraph(listed.get("description"))}
    if "inputSchema" in listed:
        schema = listed["inputSchema"]
        found["arguments"] = {
            name: sorted(_types(each, schema) - ({"null"} if each.get("default", 0) is None else set()))
            for name, each in schema.get("properties", {}).items()
        }
        found["required"] = sorted(schema.get("required", ()))
    elif "uri" not in listed and "uriTemplate" not in listed:
        arguments = listed.get("arguments") or ()
        found["arguments"] = {each["name"]: bool(each.get("required")) for each in arguments}
    return found


def _paragraph(text: str | None) -> str:
    paragraph = re.split(r"\n\s*\n", (text or "").strip())[0]
    return " ".join(_SECTION.split(paragraph)[0].split())


def _types(schema: Mapping[str, Any], whole: Mapping[str, Any]) -> set[str]:
    if "$ref" in schema:
        target: Any = whole
        for part in schema["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        return _types(target, whole)
    for word in ("anyOf", "oneOf", "allOf"):
        if word in schema:
            return set().union(*(_types(each, whole) for each in schema[word]))
    kinds = schema.get("type", [])
    values = schema.get("enum", [schema["const"]] if "const" in schema else [])
    if values:
        return {json.dumps(value) for value in values}
    return {kinds} if isinstance(kinds, str) else set(kinds)


def answer(response: Mapping[str, Any]) -> Any:
    """Return what is compared of the response to a call."""
    if "error" in response:
        return {"error": response["error"]["message"]}
    result = response["result"]
    failed = bool(result.get("isError"))
    texts = [each["text"] if each["type"] == "text" else each["type"] for each in result["content"]]
    if failed:
        return {"failed": _PREFIX.sub("", "\n".join(texts))}
    values = [_value(text) for text in texts]
    return values[0] if len(values) == 1 and isinstance(values[0], list) else values


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
