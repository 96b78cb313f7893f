"""Comparison of the lists and answers of a server as it was written and as it was migrated.

Compared are lists and answers after a normalisation:

- of tools: the name, the first paragraph of the description (a section such as `Args:` ends it), the names of
  arguments, their JSON types (of a union, all of them; null is left out where it is the default) and which are
  required. Titles, defaults, formats, output schemas and what the rest of a docstring says of arguments are left out,
  as mcpkit makes other schemas of the same signature;
- of prompts: the name, the first paragraph, the arguments and which are required;
- of resources and templates: URI, name and first paragraph;
- of a call: whether it failed, and its texts. A text that is JSON is compared as what it says; a list, of which version
  1 makes a text of each item, is one; `Error executing tool NAME: ` before the text of an error is left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.integration.compat.mcp1 import Conversation

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


def seen(command: Sequence[str], variables: Mapping[str, str], cwd: Path, calls: Calls = ()) -> Seen:
    """Return the normalised lists of a server and its answers to calls."""
    with Conversation(command, {}, cwd, **variables) as server:
        server.initialize({}, "2025-06-18")
        found: Seen = {}
        for method, member in LISTS.items():
            listed = server.request(method, {})[-1].get("result", {}).get(member, [])
            found[member] = {key(each): entry(each) for each in listed}
        found["calls"] = [
            answer(server.request("tools/call", {"name": name, "arguments": arguments})[-1])
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
