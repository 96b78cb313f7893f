"""Official TypeScript clients call tools as tasks, in 2025-11-25 and in 2026-07-28."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from tests.helpers.serving import Served
from tests.integration.interop.conftest import Reach, Run
from tests.integration.interop.journey import HANDSHAKE, STATELESS
from tests.integration.interop.tasks_server import TOKENS

SERVER = "tasks_server.py"
TRANSPORTS = ["stdio", "http"]
ANSWERS: dict[str, Any] = {
    "Delete a.txt?": {"value": True},
    "Who signs first?": {"name": "Ada"},
    "Who signs second?": {"name": "Bob"},
    "Which seal?": {"value": "red"},
    "Your salary?": "decline",
    "Which table?": {"value": 7},
    "A quiet one?": {"value": True},
}
"""The entry of each form; a string is another action."""


class Case(NamedTuple):
    """One call and its expected end.

    Attributes:
        arguments: The arguments of the tool.
        text: The text of the result or of the error.
        questions: The messages of the forms, in order; a set where several are sent at once.
        is_error: Whether the result is an error of the tool.
        code: The code of the protocol error with which the task ends.
        is_task: Whether the call makes a task.
    """

    arguments: dict[str, Any]
    text: str
    questions: list[Any] = []
    is_error: bool = False
    code: int | None = None
    is_task: bool = True


CASES = {
    "greet": Case({"name": "Ada"}, "Hello, Ada!", is_task=False),
    "add": Case({"a": 2, "b": 3}, "5"),
    "fail": Case({}, "The printer is out of paper.", is_error=True),
    "collapse": Case({}, "The printer is gone.", code=-32050),
    "delete": Case({"filename": "a.txt"}, "a.txt is deleted", ["Delete a.txt?"]),
    "sign": Case({}, "Ada and Bob, red", [{"Who signs first?", "Who signs second?"}, "Which seal?"]),
    "refuse": Case({}, "decline", ["Your salary?"]),
    "reserve": Case({}, "table 7, quiet", ["Which table?", "A quiet one?"]),
}
SUPPORT = {
    **dict.fromkeys(["add", "fail", "collapse", "delete", "sign", "refuse", "hold"], "optional"),
    **dict.fromkeys(["train", "reserve"], "required"),
}
"""The `taskSupport` of the tools in 2025-11-25."""

JOURNEY = json.dumps({"answers": ANSWERS, "calls": {name: case.arguments for name, case in CASES.items()}})


@pytest.fixture(scope="module")
def http_server(command: list[str]) -> Iterator[Served]:
    """The server with tokens, which logs no traceback."""
    with Served([*command, "http"]) as served:
        yield served
        served.stop()
    assert "Traceback" not in served.notes


@pytest.fixture(scope="module")
def target(reach: Reach) -> Reach:
    """The target of a client by transport; over HTTP with a token."""
    return lambda transport: [*reach(transport), *(TOKENS if transport == "http" else [])][:3]


def check_calls(calls: dict[str, Any], version: str) -> None:
    """Assert the end of each call: by tool `text`, `isError`, `error`, `asked` and `status`, None for no task."""
    assert calls.keys() == CASES.keys()
    for name, case in CASES.items():
        call = calls[name]
        where = f"{name}: {call}"
        questions = call["asked"]
        for expected in case.questions:
            at_once = expected if isinstance(expected, set) else {expected}
            assert {*questions[: len(at_once)]} == at_once, where
            questions = questions[len(at_once) :]
        assert questions == [], where
        has_failed = case.code is not None or (case.is_error and version == HANDSHAKE)
        status = ("failed" if has_failed else "completed") if case.is_task else None
        assert call["status"] == status, where
        if case.code is not None:
            assert call["error"]["code"] == case.code, where
            assert call["error"]["message"].endswith(case.text), where
        else:
            assert (call["text"], call["isError"]) == (case.text, case.is_error), where


def check_handshake(seen: dict[str, Any], transport: str) -> None:
    """Assert what only clients of 2025-11-25 see."""
    assert {name: support for name, support in seen["support"].items() if support is not None} == SUPPORT
    check_calls(seen["calls"], HANDSHAKE)
    for name, call in seen["calls"].items():
        if CASES[name].is_task and "error" not in call:
            assert call["of"], f"{name}: the result does not name its task"
    # A request before the task exists belongs to none; requests during the task name it.
    assert seen["calls"]["sign"]["related"] == [True, True, True]
    assert seen["calls"]["reserve"]["related"] == [None, True]
    assert seen["plain"]["code"] == -32601
    assert seen["stopped"] == "stopped"
    assert seen["again"]["code"] == seen["unknown"]["code"] == -32602
    listing = {"list": {}} if transport == "http" else {}  # only identified callers may list their tasks
    expected = {"cancel": {}, "requests": {"tools": {"call": {}}}, **listing}
    assert seen["capabilities"] == expected


def check_progress(values: list[float]) -> None:
    """Assert that progress increases up to the total; not every value is sent."""
    assert values == sorted({*values})
    assert values[-1] == 3


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_tasks_typescript_sdk_1(run_driver: Run, target: Reach, transport: str) -> None:
    seen = run_driver("node/tasks_1.mjs", JOURNEY, *target(transport))
    check_handshake(seen, transport)
    check_progress([each["progress"] for each in seen["progress"]])
    assert seen["trained"] == {"text": "3 epochs", "isError": False}
    assert seen["cancel"]["status"] == "cancelled"
    assert seen["awaited"]["code"] is not None
    assert seen["notified"]
    if transport == "http":
        assert {*seen["ids"]} <= {*seen["listed"]}
        assert len(seen["listed"]) == len({*seen["listed"]})
    else:
        assert seen["listed"]["code"] == -32601


@pytest.mark.parametrize(
    ("transport", "mode", "version"),
    [("stdio", "legacy", HANDSHAKE), ("stdio", STATELESS, STATELESS), ("http", STATELESS, STATELESS)],
)
def test_tasks_typescript_ext_tasks(
    run_driver: Run, target: Reach, transport: str, mode: str, version: str
) -> None:
    seen = run_driver("node/tasks_ext.mjs", mode, JOURNEY, *target(transport))
    assert seen["revision"] == version
    # In 2025-11-25 this client turns the text of a failed task into an error without a code.
    for name, call in seen["calls"].items() if version == HANDSHAKE else ():
        if "error" in call:
            assert CASES[name].text in call["error"]["message"]
            if CASES[name].code is None:
                call |= {"text": call.pop("error")["message"], "isError": True}
            else:
                call["error"]["code"] = CASES[name].code
    check_calls(seen["calls"], version)
    if version == HANDSHAKE:
        assert {name: support for name, support in seen["support"].items() if support} == SUPPORT
        assert seen["again"]["code"] == -32602
    else:
        assert {*seen["support"].values()} == {None}
        assert seen["again"] == "acknowledged"
    assert seen["created"] == "working"
    assert (seen["stopped"], seen["cancelled"]) == ("stopped", "cancelled")
    assert seen["unknown"]["code"] == -32602
