"""The expected results of a client that has used everything of `server.py` once."""

from __future__ import annotations

import base64
from typing import Any

HANDSHAKE = "2025-11-25"
STATELESS = "2026-07-28"
TRANSPORTS = ["stdio", "http", "sse"]
TOOLS = [
    *("add", "divide", "picture", "count", "enough", "part"),
    *("hang", "release", "stir", "locate", "imagine", "invite"),
]


def text_of(result: dict[str, Any]) -> str:
    [block] = result["content"]
    return str(block["text"])


def fields(value: dict[str, Any], *names: str) -> list[Any]:
    return [value.get(name) for name in names]


def check_identity(seen: dict[str, Any]) -> None:
    """Assert what a client knows of the server after it has connected."""
    assert fields(seen["server"], "name", "version", "title") == ["interop", "1.2.3", "Interoperability"]
    assert seen["instructions"] == "Call add before anything else."


def check(
    seen: dict[str, Any], version: str, *, not_found: int | None = None, has_session: bool = False
) -> None:
    """Assert everything that a client has seen.

    Args:
        seen: The results by request.
        version: What must have been negotiated.
        not_found: The code of the error for an unknown resource, where the client changes it.
        has_session: Whether the client has deleted a session.
    """
    is_stateless = version == STATELESS
    assert seen["revision"] == version
    assert [tool["name"] for tool in seen["tools"]] == TOOLS
    check_tools({tool["name"]: tool for tool in seen["tools"]}, is_stateless=is_stateless)
    check_calls(seen, is_stateless=is_stateless)
    check_resources_and_prompts(seen)
    code = not_found or (-32602 if is_stateless else -32002)
    assert seen["missing"] == {"code": code, "data": {"uri": "interop://nowhere"}}
    assert (seen["unknown"]["code"], seen["nothing"]["code"]) == (-32602, -32601)
    assert seen.get("afterDelete") == (404 if has_session else None)


def check_tools(tools: dict[str, Any], *, is_stateless: bool) -> None:
    add = tools["add"]
    assert fields(add, "description", "annotations") == ["Add two numbers.", {"readOnlyHint": True}]
    assert add["inputSchema"]["properties"] == {
        "a": {"type": "integer", "description": "The first term."},
        "b": {"type": "integer", "description": "The second term."},
    }
    assert add["inputSchema"]["required"] == ["a", "b"]
    assert sorted(add["outputSchema"]["properties"]) == ["terms", "total"]
    assert tools["divide"]["outputSchema"]["type"] == ("number" if is_stateless else "object")
    assert "outputSchema" not in tools["picture"]
    assert list(tools["count"]["inputSchema"]["properties"]) == ["to"]


def check_calls(seen: dict[str, Any], *, is_stateless: bool) -> None:
    assert seen["add"]["structuredContent"] == {"total": 5, "terms": [2, 3]}
    assert seen["quotient"]["structuredContent"] == (0.25 if is_stateless else {"result": 0.25})
    assert not seen["quotient"].get("isError")
    assert (seen["divide"]["isError"], text_of(seen["divide"])) == (True, "b must not be 0")
    assert seen["wrong"]["isError"] is True
    assert text_of(seen["wrong"]).startswith("a: ")
    assert text_of(seen["locate"]) == "somewhere in São Paulo"
    [image] = seen["picture"]["content"]
    assert fields(image, "type", "mimeType") == ["image", "image/png"]
    assert base64.b64decode(image["data"]).startswith(b"\x89PNG")
    progress = [fields(each, "progress", "total", "message") for each in seen["progress"]]
    assert progress == [[1, 3, "at 1"], [2, 3, "at 2"], [3, 3, "at 3"]]
    [log] = seen["logs"]
    assert fields(log, "level", "logger", "data") == ["warning", "counter", {"counted": 3}]
    assert [text_of(seen[name]) for name in ("count", "part", "release")] == [
        "counted to 3",
        "met again",
        "released",
    ]
    assert seen["hang"] == "cancelled"
    assert seen["changes"] == ["interop://greeting", "tools"]
    if is_stateless:
        assert seen["imagine"] == {"code": -32021, "data": {"requiredCapabilities": {"sampling": {}}}}
    else:
        assert seen["imagine"]["isError"] is True
        assert "sampling" in text_of(seen["imagine"])


def check_resources_and_prompts(seen: dict[str, Any]) -> None:
    [resource] = seen["resources"]
    expected = ["interop://greeting", "greeting", "A greeting", "text/plain"]
    assert fields(resource, "uri", "name", "title", "mimeType") == expected
    [template] = seen["templates"]
    assert template["uriTemplate"] == "interop://greetings/{language}"
    contents = [seen[name]["contents"] for name in ("read", "readTemplate")]
    assert [fields(content, "uri", "text") for [content] in contents] == [
        ["interop://greeting", "Hello, world"],
        ["interop://greetings/dutch", "Hallo"],
    ]
    [prompt] = seen["prompts"]
    assert prompt["name"] == "welcome"
    name, style = prompt["arguments"]
    assert fields(name, "name", "description", "required") == ["name", "The guest.", True]
    assert (style["name"], style.get("required", False)) == ("style", False)
    assert [(each["role"], each["content"]["text"]) for each in seen["prompt"]["messages"]] == [
        ("user", "Write a friendly welcome for Ada."),
        ("assistant", "With pleasure."),
    ]
    assert seen["completePrompt"]["completion"]["values"] == ["formal", "friendly"]
    assert seen["completeTemplate"]["completion"]["values"] == ["danish", "dutch"]
