from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from tests.compat.fastmcp.told import Conversation, Message, python_of, source_for

ASKED: tuple[tuple[str, Message | None], ...] = (
    ("tools/list", None),
    ("prompts/list", None),
    ("tools/call", {"name": "echo", "arguments": {"text": "hello"}}),
    ("tools/call", {"name": "echo", "arguments": {"text": "hello", "refuse": True}}),
    ("tools/call", {"name": "whole"}),
    ("tools/call", {"name": "content"}),
    ("tools/call", {"name": "dict"}),
    ("tools/call", {"name": "hidden_one", "arguments": {"a": 1}}),
    ("tools/call", {"name": "late"}),
    ("tools/call", {"name": "state"}),
    ("tools/call", {"name": "replaced"}),
    ("tools/call", {"name": "change", "arguments": {"name": "new"}}),
    ("tools/call", {"name": "new"}),
    ("tools/list", None),
    ("tools/call", {"name": "remove", "arguments": {"name": "new"}}),
    ("tools/call", {"name": "remove", "arguments": {"name": "new"}}),
    ("tools/call", {"name": "new"}),
    ("tools/call", {"name": "by hand"}),
    ("prompts/get", {"name": "own"}),
    ("prompts/get", {"name": "made"}),
    ("logging/setLevel", {"level": "debug"}),
    ("resources/subscribe", {"uri": "x://y"}),
    ("tools/call", {"name": "heard"}),
)


def test_servers_that_change_what_fastmcp_does_are_the_same(tmp_path: Path) -> None:
    said: dict[str, list[list[Message]]] = {}
    with ExitStack() as stack:
        for library in ("mcp", "mcpkit"):
            command = [python_of(library), str(source_for(library, "overriding.py", tmp_path))]
            talk = stack.enter_context(Conversation(command, {}))
            said[library] = [talk.begin({}), *(talk.ask(*each) for each in ASKED)]
            assert "served by itself" in talk.notes()
    for asked, mcp, mcpkit in zip((None, *ASKED), said["mcp"], said["mcpkit"], strict=True):
        assert mcpkit == mcp, asked
