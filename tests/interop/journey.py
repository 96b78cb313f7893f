"""What every client must have seen at the end of its journey through `server.py`."""

from __future__ import annotations

import base64
import sys
from pathlib import Path
from typing import Any

HANDSHAKE = "2025-11-25"
STATELESS = "2026-07-28"

SERVER = Path(__file__).with_name("server.py")
TRANSPORTS = ["stdio", "http", "sse"]
COMMAND = [sys.executable, str(SERVER)]
TOOLS = [
    "add",
    "divide",
    "picture",
    "count",
    "enough",
    "part",
    "hang",
    "release",
    "stir",
    "locate",
    "imagine",
    "invite",
]


def check_identity(seen: dict[str, Any]) -> None:
    assert seen["server"]["name"] == "interop"
    assert seen["server"]["version"] == "1.2.3"
    assert seen["server"]["title"] == "Interoperability"
    assert seen["instructions"] == "Call add before anything else."


def check(seen: dict[str, Any], revision: str, *, not_found: int | None = None) -> None:
    """Assert all that was seen.

    Args:
        seen: The client's account.
        revision: What must have been negotiated.
        not_found: The code of the error for a missing resource, if not what is on the wire.
    """
    assert seen["revision"] == revision
    check_tools(seen, stateless=revision == STATELESS)
    check_calls(seen, stateless=revision == STATELESS)
    check_messages_during_a_call(seen)
    check_cancellation(seen)
    check_changes(seen)
    check_resources(seen)
    code = -32602 if revision == STATELESS else -32002
    assert seen["missing"] == {"code": not_found or code, "data": {"uri": "interop://nowhere"}}
    assert seen["unknown"]["code"] == -32602
    check_missing_capability(seen, stateless=revision == STATELESS)
    assert seen["nothing"]["code"] == -32601
    check_prompts(seen)
    check_completion(seen)


def check_end(seen: dict[str, Any], *, has_session: bool) -> None:
    """Assert that a session which its client has deleted is gone."""
    assert seen.get("afterDelete") == (404 if has_session else None)


def check_tools(seen: dict[str, Any], *, stateless: bool) -> None:
    assert [tool["name"] for tool in seen["tools"]] == TOOLS
    tools = {tool["name"]: tool for tool in seen["tools"]}
    add = tools["add"]
    assert add["description"] == "Add two numbers."
    assert add["annotations"] == {"readOnlyHint": True}
    assert add["inputSchema"]["properties"] == {
        "a": {"type": "integer", "description": "The first term."},
        "b": {"type": "integer", "description": "The second term."},
    }
    assert add["inputSchema"]["required"] == ["a", "b"]
    assert sorted(add["outputSchema"]["properties"]) == ["terms", "total"]
    assert tools["divide"]["outputSchema"]["type"] == ("number" if stateless else "object")
    assert "outputSchema" not in tools["picture"]
    assert list(tools["count"]["inputSchema"]["properties"]) == ["to"]


def check_calls(seen: dict[str, Any], *, stateless: bool) -> None:
    assert seen["add"]["structuredContent"] == {"total": 5, "terms": [2, 3]}
    assert seen["quotient"]["structuredContent"] == (0.25 if stateless else {"result": 0.25})
    assert not seen["quotient"].get("isError")
    assert seen["divide"]["isError"] is True
    assert text_of(seen["divide"]) == "b must not be 0"
    assert seen["wrong"]["isError"] is True
    assert text_of(seen["wrong"]).startswith("a: ")
    assert text_of(seen["locate"]) == "somewhere in São Paulo"
    [image] = seen["picture"]["content"]
    assert (image["type"], image["mimeType"]) == ("image", "image/png")
    assert base64.b64decode(image["data"]).startswith(b"\x89PNG")


def check_messages_during_a_call(seen: dict[str, Any]) -> None:
    assert [(each["progress"], each["total"], each["message"]) for each in seen["progress"]] == [
        (1, 3, "at 1"),
        (2, 3, "at 2"),
        (3, 3, "at 3"),
    ]
    [log] = seen["logs"]
    assert (log["level"], log["logger"], log["data"]) == ("warning", "counter", {"counted": 3})
    assert text_of(seen["count"]) == "counted to 3"
    assert text_of(seen["part"]) == "met again"


def check_cancellation(seen: dict[str, Any]) -> None:
    assert seen["hang"] == "cancelled"
    assert text_of(seen["release"]) == "released"


def check_changes(seen: dict[str, Any]) -> None:
    assert seen["changes"] == ["interop://greeting", "tools"]


def check_missing_capability(seen: dict[str, Any], *, stateless: bool) -> None:
    if stateless:
        needed = {"requiredCapabilities": {"sampling": {}}}
        assert seen["imagine"] == {"code": -32021, "data": needed}
    else:
        assert seen["imagine"]["isError"] is True
        assert "sampling" in text_of(seen["imagine"])


def check_resources(seen: dict[str, Any]) -> None:
    [resource] = seen["resources"]
    assert resource["uri"] == "interop://greeting"
    assert (resource["name"], resource["title"], resource["mimeType"]) == (
        "greeting",
        "A greeting",
        "text/plain",
    )
    [template] = seen["templates"]
    assert template["uriTemplate"] == "interop://greetings/{language}"
    [content] = seen["read"]["contents"]
    assert (content["uri"], content["text"]) == ("interop://greeting", "Hello, world")
    [content] = seen["readTemplate"]["contents"]
    assert (content["uri"], content["text"]) == ("interop://greetings/dutch", "Hallo")


def check_prompts(seen: dict[str, Any]) -> None:
    [prompt] = seen["prompts"]
    assert prompt["name"] == "welcome"
    name, style = prompt["arguments"]
    assert (name["name"], name["description"], name["required"]) == ("name", "Whom to welcome.", True)
    assert (style["name"], style.get("required", False)) == ("style", False)
    assert [(each["role"], each["content"]["text"]) for each in seen["prompt"]["messages"]] == [
        ("user", "Write a friendly welcome for Ada."),
        ("assistant", "With pleasure."),
    ]


def check_completion(seen: dict[str, Any]) -> None:
    assert seen["completePrompt"]["completion"]["values"] == ["formal", "friendly"]
    assert seen["completeTemplate"]["completion"]["values"] == ["danish", "dutch"]


def text_of(result: dict[str, Any]) -> str:
    [block] = result["content"]
    return block["text"]
