from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.compat.fastmcp.told import Conversation, Message, python_of, source_for

CAPABILITIES = {"elicitation": {"form": {}, "url": {}}}

LISTS = ("tools/list", "resources/list", "resources/templates/list", "prompts/list")

URIS = (
    "config://app",
    "config://text",
    "config://bytes",
    "config://nothing",
    "config://broken",
    "config://unknown",
    "greeting://Ada",
    "greeting://Ada%20Lovelace",
    "greeting://a/b",
    "sum://1/2",
    "sum://one/2",
    "sum://1/2/3",
    "broken://door",
    "plain://text",
    "plain://unnamed",
    "plain://bytes",
    "plain://lambda",
    "file:///notes",
    "file:///data",
    "file:///none",
    "no uri",
    "",
)

PROMPTS: tuple[tuple[str, Message | None], ...] = (
    ("review", {"code": "x = 1"}),
    ("review", {"code": "x = 1", "language": "perl"}),
    ("review", {}),
    ("review", None),
    ("review", {"language": "perl"}),
    ("review", {"code": "x", "more": "y"}),
    ("debug", {"error": "E"}),
    ("debug", {"error": "E", "line": "12"}),
    ("debug", {"error": "E", "line": "twelve"}),
    ("mixed", {}),
    ("odd", {"what": "number"}),
    ("odd", {"what": "none"}),
    ("odd", {"what": "list"}),
    ("odd", {"what": "tuple"}),
    ("odd", {"what": "dict"}),
    ("odd", {"what": "set"}),
    ("odd", {"what": "missing"}),
    ("counts", {"n": "1", "of": "a"}),
    ("counts", {"n": "-1", "of": "[]"}),
    ("counts", {"n": 1}),
    ("about", {"topic": "cats"}),
    ("unknown", {}),
    ("review", {"code": None}),
)

CALLS: tuple[tuple[str, Message], ...] = (
    ("speak", {"text": "hello", "times": 2}),
    ("speak", {"text": "hello", "times": "2", "unknown": 1}),
    ("speak", {}),
    ("ids", {}),
    ("ids", {"ctx": "mine"}),
    ("reread", {"uri": "config://app"}),
    ("reread", {"uri": "sum://3/4"}),
    ("reread", {"uri": "nowhere://"}),
    ("book", {}),
    ("nested", {}),
    ("visit", {}),
    ("named tool", {}),
    ("named tool", {"mode": "c", "n": 0}),
    ("fails", {"how": "tool"}),
    ("fails", {"how": "key"}),
    ("pictures", {}),
    ("unknown", {}),
)

COMPLETIONS: tuple[Message, ...] = (
    {"ref": {"type": "ref/prompt", "name": "review"}, "argument": {"name": "language", "value": "p"}},
    {"ref": {"type": "ref/prompt", "name": "review"}, "argument": {"name": "code", "value": "p"}},
    {
        "ref": {"type": "ref/resource", "uri": "sum://{a}/{b}"},
        "argument": {"name": "b", "value": ""},
        "context": {"arguments": {"a": "1"}},
    },
    {"ref": {"type": "ref/resource", "uri": "sum://{a}/{b}"}, "argument": {"name": "a", "value": ""}},
)

OTHERS: tuple[tuple[str, Message | None], ...] = (
    ("ping", None),
    ("tools/list", {"cursor": "x"}),
    ("logging/setLevel", {"level": "error"}),
    ("resources/subscribe", {"uri": "config://app"}),
    ("resources/read", {}),
    ("prompts/get", {}),
    ("prompts/get", {"name": 7}),
    ("tools/call", {"name": "speak", "arguments": []}),
    ("completion/complete", {}),
)


def answer_forms(message: Message) -> Message:
    if message["params"].get("mode") == "url":
        return {"action": "decline"}
    return {"action": "accept", "content": {"day": "Monday", "extras": ["quiet"]}}


class Reached:
    """Both servers, and what both have said of one thing."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        files = folder / "files"
        files.mkdir()
        (files / "notes.txt").write_text("some notes")
        (files / "data.bin").write_bytes(b"\x00\x01")
        self.both: dict[str, Conversation] = {}
        for library in ("mcp", "mcpkit"):
            command = [python_of(library), str(source_for(library, "everything.py", folder)), str(files)]
            talk = Conversation(command, {"elicitation/create": answer_forms})
            self.both[library] = stack.enter_context(talk)
        self.begun = {library: each.begin(CAPABILITIES) for library, each in self.both.items()}

    def ask(self, method: str, params: Message | None = None) -> tuple[Any, Any]:
        mcp, mcpkit = (self.both[library].ask(method, params) for library in ("mcp", "mcpkit"))
        return mcp, mcpkit


@pytest.fixture(scope="module")
def reached(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reached]:
    with ExitStack() as stack:
        reached = Reached(tmp_path_factory.mktemp("everything"), stack)
        yield reached
        for each in reached.both.values():
            each.close()
        assert {each.wait() for each in reached.both.values()} == {0}


def test_both_introduce_themselves_alike(reached: Reached) -> None:
    assert reached.begun["mcpkit"] == reached.begun["mcp"]


@pytest.mark.parametrize("method", LISTS)
def test_lists_are_alike(reached: Reached, method: str) -> None:
    mcp, mcpkit = reached.ask(method)
    assert mcpkit == mcp
    assert "result" in mcp[-1]


@pytest.mark.parametrize("uri", URIS)
def test_what_is_read_is_alike(reached: Reached, uri: str) -> None:
    mcp, mcpkit = reached.ask("resources/read", {"uri": uri})
    assert mcpkit == mcp


@pytest.mark.parametrize(("name", "arguments"), PROMPTS)
def test_prompts_are_alike(reached: Reached, name: str, arguments: Message | None) -> None:
    mcp, mcpkit = reached.ask(
        "prompts/get", {"name": name, "arguments": arguments} if arguments else {"name": name}
    )
    assert mcpkit == mcp


@pytest.mark.parametrize(("name", "arguments"), CALLS)
def test_calls_are_alike(reached: Reached, name: str, arguments: Message) -> None:
    meta = {"progressToken": "t", "client_id": "me", "x": 1}
    mcp, mcpkit = reached.ask("tools/call", {"name": name, "arguments": arguments, "_meta": meta})
    assert mcpkit == mcp


def test_without_a_progress_token_nothing_is_reported(reached: Reached) -> None:
    mcp, mcpkit = reached.ask("tools/call", {"name": "speak", "arguments": {"text": "hello"}})
    assert mcpkit == mcp
    assert {each.get("method") for each in mcp} == {"notifications/message", None}


@pytest.mark.parametrize("params", COMPLETIONS)
def test_completions_are_alike(reached: Reached, params: Message) -> None:
    mcp, mcpkit = reached.ask("completion/complete", params)
    assert mcpkit == mcp


@pytest.mark.parametrize(("method", "params"), OTHERS)
def test_what_is_wrong_is_answered_alike(reached: Reached, method: str, params: Message | None) -> None:
    mcp, mcpkit = reached.ask(method, params)
    assert mcpkit == mcp


def test_a_method_that_nobody_knows_is_refused_as_the_protocol_says(reached: Reached) -> None:
    mcp, mcpkit = reached.ask("no/such/method")
    assert mcp[-1]["error"]["code"] == -32602
    assert mcpkit[-1]["error"]["code"] == -32601
