"""Starts a server as it was written and as it was migrated, and compares what a client sees of both.

Compared are lists and answers after a normalisation:

- of tools: the name, the first paragraph of the description (a section such as `Args:` ends it), the names of
  arguments, their JSON types (of a union, all of them; null is left out where it is the default) and which are
  required. Titles, defaults, formats, output schemas and what the rest of a docstring says of arguments are left out,
  as mcpkit makes other schemas of the same signature;
- of prompts: the name, the first paragraph, the arguments and which are required;
- of resources and templates: URI, name and first paragraph;
- of a call: whether it failed, and its texts. A text that is JSON is compared as what it says; a list, of which version
  1 makes a text of each item, is one; `Error executing tool NAME: ` before the text of an error is left out.

`python judge.py FOLDER -- COMMAND` starts COMMAND twice, the second time with FOLDER first on the path of Python.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Seen = dict[str, Any]
Calls = Sequence[tuple[str, Mapping[str, Any]]]

LISTS = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}
_SECTION = re.compile(
    r"^\s*(?:Args|Arguments|Parameters|Returns|Raises|Yields|Examples?|Notes?):\s*$", re.MULTILINE
)
_PREFIX = re.compile(r"^Error executing tool [^:]*: ")


class Peer:
    """A server process that is spoken to by hand, in revision 2025-06-18.

    Args:
        command: What starts it.
        env: Its environment.
        cwd: Its folder.
    """

    def __init__(self, command: Sequence[str], env: Mapping[str, str], cwd: Path) -> None:
        self._said: list[str] = []
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env=dict(env),
            cwd=cwd,
        )
        self._reader = threading.Thread(target=self._listen, daemon=True)
        self._reader.start()
        self._number = 0

    def __enter__(self) -> Peer:
        about = {"name": "judge", "version": "1"}
        params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": about}
        self.capabilities = self.ask("initialize", params)["result"]["capabilities"]
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return self

    def __exit__(self, *_: object) -> None:
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.close()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._reader.join()
        process.stdout.close()
        process.stderr.close()

    def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request, and return its response."""
        self._number += 1
        self._send({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                message = json.loads(line)
                if message.get("id") == self._number and "method" not in message:
                    return message
        self._reader.join(10)
        raise EOFError("".join(self._said)[-3000:])

    def _send(self, message: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message) + "\n")
        self._process.stdin.flush()

    def _listen(self) -> None:
        assert self._process.stderr is not None
        self._said.extend(self._process.stderr)


def seen(command: Sequence[str], env: Mapping[str, str], cwd: Path, calls: Calls = ()) -> Seen:
    """Return what a client sees of a server, normalised.

    Args:
        command: What starts it.
        env: Its environment.
        cwd: Its folder.
        calls: What is called, in order.

    Raises:
        EOFError: It has ended; the text is what it said on standard error.
    """
    with Peer(command, env, cwd) as peer:
        found: Seen = {}
        for method, member in LISTS.items():
            response = peer.ask(method, {})
            listed = response.get("result", {}).get(member, [])
            found[member] = {key(each): entry(each) for each in listed}
        found["calls"] = [
            answer(peer.ask("tools/call", {"name": name, "arguments": arguments}))
            for name, arguments in calls
        ]
        return found


def differences(before: Seen, after: Seen) -> list[str]:
    """Return what differs between two normalised sights, a line each."""
    found: list[str] = []
    for member in LISTS.values():
        for key in sorted({*before[member], *after[member]}):
            one, other = before[member].get(key), after[member].get(key)
            if one is None or other is None:
                found.append(f"{member} {key}: {'is new' if one is None else 'is missing'}")
                continue
            found += [
                f"{member} {key}: {part}: {one[part]!r} became {other[part]!r}"
                for part in one
                if one[part] != other[part]
            ]
    for index, (one, other) in enumerate(zip(before["calls"], after["calls"], strict=True)):
        if one != other:
            found.append(f"call {index}: {one!r} became {other!r}")
    return found


def key(listed: Mapping[str, Any]) -> str:
    """Return what a list has of each sort once."""
    found: str = listed.get("uri") or listed.get("uriTemplate") or listed["name"]
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


def main(arguments: Sequence[str]) -> int:
    """Compare two runs of a command."""
    folder, _, *command = arguments
    calls: Calls = json.loads(os.environ.get("JUDGE_CALLS", "[]"))
    before = seen(command, os.environ, Path.cwd(), calls)
    after_env = {**os.environ, "PYTHONPATH": folder}
    after = seen(command, after_env, Path.cwd(), calls)
    found = differences(before, after)
    print(*found, sep="\n")
    print({member: len(before[member]) for member in (*LISTS.values(), "calls")}, len(found), "differences")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
