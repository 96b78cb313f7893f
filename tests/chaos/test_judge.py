"""The judge of ledgers finds what it is there to find."""

from __future__ import annotations

from typing import Any

import pytest

from tests.helpers.cluster.judge import changes_unheard, effects_wrong, promises_broken

MADE = {"what": "created", "key": "k", "id": "1", "tool": "works"}


def seen(status: str, **more: Any) -> dict[str, Any]:
    return {"what": "seen", "id": "1", "task": {"taskId": "1", "status": status, **more}}


DONE = seen("completed", result=1)


def step(what: str, value: str, attempt: int = 1) -> dict[str, Any]:
    return {"what": what, "call": "c", "key": "k", "name": "fit", "value": value, "attempt": attempt}


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ([MADE, seen("working"), DONE, DONE], []),
        ([MADE, seen("working")], ["lost"]),
        ([MADE, {"what": "error", "id": "1", "code": -32602, "error": "?"}, DONE], ["lost"]),
        ([MADE, {"what": "error", "id": "1", "code": -32603, "error": "?"}, DONE], ["an error for 1"]),
        ([MADE, DONE, seen("working")], ["went on after its end"]),
        ([MADE, DONE, seen("failed", error={})], ["changed its end"]),
        ([MADE, DONE, seen("completed", result=2)], ["two results"]),
        ([MADE, {**MADE, "id": "2"}, DONE, {**DONE, "id": "2"}], ["created twice"]),
    ],
)
def test_what_was_told_of_tasks(lines: list[dict[str, Any]], found: list[str]) -> None:
    told = promises_broken(lines)
    assert [each.startswith(begin) for each, begin in zip(told, found, strict=True)] == [True] * len(found)


ONCE = {"what": "effect", "key": "k", "call": "c", "attempt": 1}
FAILURE = seen("failed", error={"code": -32603})


@pytest.mark.parametrize(
    ("tool", "asked", "effects", "found"),
    [
        ("works", [DONE], [ONCE], []),
        ("works", [DONE], [ONCE, ONCE], []),
        ("works", [DONE], [], ["completed and never done"]),
        ("works", [FAILURE], [ONCE], ["failed"]),
        ("risks", [DONE], [ONCE], []),
        ("risks", [FAILURE], [ONCE], []),
        ("risks", [FAILURE], [], []),
        ("risks", [seen("failed", error={"code": -32602})], [], ["failed"]),
        ("risks", [FAILURE], [ONCE, ONCE], ["done 2 times"]),
        ("risks", [], [ONCE, ONCE], ["done 2 times"]),
        ("steps", [DONE], [step("ran", "a"), step("ran", "b"), step("once", "b"), step("once", "b", 2)], []),
        ("steps", [DONE], [step("ran", "a"), step("once", "a"), step("ran", "b", 2)], ["done again"]),
        ("steps", [DONE], [step("ran", "a"), step("once", "a"), step("once", "b", 2)], ["another value"]),
    ],
)
def test_what_tools_have_done(
    tool: str, asked: list[dict[str, Any]], effects: list[dict[str, Any]], found: list[str]
) -> None:
    told = effects_wrong([{**MADE, "tool": tool}, *asked], effects)
    assert [each.startswith(begin) for each, begin in zip(told, found, strict=True)] == [True] * len(found)


def test_what_subscribers_know() -> None:
    touched = {"what": "touched", "name": "x", "version": 2}
    assert changes_unheard([touched, {"what": "read", "who": "s", "name": "x", "version": 2}]) == []
    assert changes_unheard([touched, {"what": "read", "who": "s", "name": "x", "version": 1}]) != []
