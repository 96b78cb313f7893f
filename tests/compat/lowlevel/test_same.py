"""A low-level server says the same on mcpkit as on `mcp` 1.x: the same source, the same requests, over stdio."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.compat.lowlevel.conftest import Message, Talk, lab


def canonical(messages: list[Message]) -> str:
    return json.dumps(messages, sort_keys=True, indent=1, ensure_ascii=False)


def call(name: str, arguments: Any = None, **meta: Any) -> tuple[str, Message]:
    params: Message = {"name": name}
    if arguments is not None:
        params["arguments"] = arguments
    if meta:
        params["_meta"] = meta
    return "tools/call", params


def reading(uri: str) -> tuple[str, Message]:
    return "resources/read", {"uri": uri}


def completing(value: str, **more: Any) -> tuple[str, Message]:
    return "completion/complete", {
        "ref": {"type": "ref/prompt", "name": "p"},
        "argument": {"name": "who", "value": value},
        **more,
    }


CASES = [
    ("ping", None),
    ("tools/list", None),
    ("tools/list", {"cursor": "x"}),
    ("tools/list", {"cursor": 1}),
    ("resources/list", None),
    ("resources/list", {"cursor": "2"}),
    ("resources/list", {"cursor": "wrong"}),
    ("resources/templates/list", {}),
    ("prompts/list", None),
    call("greet a person", {"name": "Ada"}),
    call("greet a person", {"name": "A"}),
    call("greet a person", {"name": "Ada", "age": "3", "x": 1}),
    call("greet a person"),
    call("greet a person", [1]),
    *(call("add", {"a": 1, "b": how}) for how in ("dict", "wrong", "none", "both", "result", "?")),
    call("add", {"a": "1"}),
    call("broken", {}),
    call("contents", {}),
    call("nothing", {}),
    call("generated", {}),
    call("no such tool", {"a": 1}),
    ("tools/call", {}),
    ("tools/call", None),
    ("tools/call", {"name": 1}),
    *(call("fails", {"kind": kind}) for kind in ("value", "empty", "key", "mcp", "url")),
    call("context", {}, progressToken="t", own=1),
    call("context", {}, progressToken=3),
    call("context", {}),
    call("tells", {}, progressToken="p1"),
    *(
        call("asks", {"kind": kind})
        for kind in ("form", "old form", "page", "roots", "ping", "own", "sample", "sample with tools")
    ),
    *(reading(f"x:{name}") for name in ("text", "bytes", "parts", "other")),
    reading("no uri"),
    ("resources/read", {}),
    ("prompts/get", {"name": "p", "arguments": {"who": "Ada"}}),
    ("prompts/get", {"name": "p"}),
    ("prompts/get", {"name": "p", "arguments": {"who": 1}}),
    ("prompts/get", {"name": "other"}),
    completing("A"),
    completing("A", context={"arguments": {"a": "b"}}),
    completing("none"),
    ("completion/complete", {"ref": {"type": "ref/else"}, "argument": {"name": "who", "value": ""}}),
    ("logging/setLevel", {"level": "error"}),
    ("logging/setLevel", {"level": "loud"}),
    ("resources/subscribe", {"uri": "file:///a"}),
    ("resources/unsubscribe", {"uri": "file:///a"}),
    call("notes", {}),
]


@pytest.mark.parametrize(
    ("method", "params"), CASES, ids=[f"{number} {method}" for number, (method, _) in enumerate(CASES)]
)
def test_a_request_is_answered_as_by_mcp(reference: Talk, ours: Talk, method: str, params: Message | None):
    assert canonical(ours.request(method, params)) == canonical(reference.request(method, params))


def test_an_old_client_is_told_all_as_by_mcp():
    talks = [lab("mcp"), lab("mcpkit")]
    said = []
    for talk in talks:
        said.append([talk.begin("2024-11-05")])
        for each in (("tools/list", None), call("add", {"a": 1, "b": "dict"}), call("contents", {})):
            said[-1].append(talk.request(*each))
        assert talk.close() == 0
    assert said[0] == said[1]


def test_the_beginning_is_as_by_mcp():
    talks = [lab("mcp"), lab("mcpkit")]
    begun = [talk.begin() for talk in talks]
    assert begun[0] == begun[1]
    for talk in talks:
        talk.close()
