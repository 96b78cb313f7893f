"""What every client calls as a task, what it enters where it is asked, and what it must have seen at the end."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, NamedTuple

from tests.interop.tasks.server import TOKENS

HANDSHAKE = "2025-11-25"
STATELESS = "2026-07-28"
COMMAND = [sys.executable, str(Path(__file__).with_name("server.py"))]
ADA, BOB = TOKENS

ANSWERS: dict[str, Any] = {
    "Delete a.txt?": {"value": True},
    "Who signs first?": {"name": "Ada"},
    "Who signs second?": {"name": "Bob"},
    "Which seal?": {"value": "red"},
    "Your salary?": "decline",
    "Which table?": {"value": 7},
    "A quiet one?": {"value": True},
}
"""What is entered, or which way out is taken."""


class Case(NamedTuple):
    """One call.

    Attributes:
        arguments: What the tool takes.
        text: What its result says, and what went wrong where it has failed.
        asked: What the client is asked; a set where several things are asked at once.
        is_error: Whether its result says that the tool has failed.
        error: The code of the error of the protocol that it ends with.
        is_task: Whether it is a task.
    """

    arguments: dict[str, Any]
    text: str
    asked: list[Any] = []
    is_error: bool = False
    error: int | None = None
    is_task: bool = True


CASES = {
    "greet": Case({"name": "Ada"}, "Hello, Ada!", is_task=False),
    "add": Case({"a": 2, "b": 3}, "5"),
    "fail": Case({}, "The printer is out of paper.", is_error=True),
    "collapse": Case({}, "The printer is gone.", error=-32050),
    "delete": Case({"filename": "a.txt"}, "a.txt is deleted", ["Delete a.txt?"]),
    "sign": Case({}, "Ada and Bob, red", [{"Who signs first?", "Who signs second?"}, "Which seal?"]),
    "refuse": Case({}, "decline", ["Your salary?"]),
    "reserve": Case({}, "table 7, quiet", ["Which table?", "A quiet one?"]),
}
SUPPORT = {
    **dict.fromkeys(["add", "fail", "collapse", "delete", "sign", "refuse", "hold"], "optional"),
    **dict.fromkeys(["train", "reserve"], "required"),
}
"""What the tools say of themselves in 2025-11-25."""

JOURNEY = {"answers": ANSWERS, "calls": {name: case.arguments for name, case in CASES.items()}}
"""What a driver needs to know."""


def check_calls(seen: dict[str, Any], revision: str) -> None:
    """Assert what came of the calls.

    Args:
        seen: By tool `text`, `isError`, `error`, `asked`, and the `status` in which a task has ended; None for no task.
        revision: What was negotiated.
    """
    assert seen.keys() == CASES.keys()
    for name, case in CASES.items():
        call = seen[name]
        where = f"{name}: {call}"
        assert in_order(call["asked"], case.asked), where
        assert (call["status"] is not None) == case.is_task, where
        if case.is_task:
            has_failed = case.error is not None or (case.is_error and revision == HANDSHAKE)
            assert call["status"] == ("failed" if has_failed else "completed"), where
        if case.error is not None:
            assert call["error"]["code"] == case.error, where
            assert call["error"]["message"].endswith(case.text), where
        else:
            assert (call["text"], call["isError"]) == (case.text, case.is_error), where


def in_order(asked: list[str], expected: list[Any]) -> bool:
    """Say whether all was asked, each once, and what was asked at once in any order."""
    rest = list(asked)
    for each in expected:
        at_once = each if isinstance(each, set) else {each}
        if set(rest[: len(at_once)]) != at_once:
            return False
        rest = rest[len(at_once) :]
    return not rest
