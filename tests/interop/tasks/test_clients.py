"""Clients of others call tools as tasks, those of 2025-11-25 and those of 2026-07-28, and see the same work."""

from __future__ import annotations

import json

import pytest

from tests.interop.tasks.journey import CASES, HANDSHAKE, JOURNEY, STATELESS, SUPPORT, check_calls

WAYS = ["stdio", "http"]
TOLD = json.dumps(JOURNEY)


def check_support(listed):
    assert {name: support for name, support in listed.items() if support is not None} == SUPPORT


@pytest.mark.parametrize("way", WAYS)
def test_typescript_1(by_node, reach, way):
    seen = by_node("sdk_1.mjs", TOLD, *reach(way))
    check_support(seen["support"])
    check_calls(seen["calls"], HANDSHAKE)
    for name, call in seen["calls"].items():
        if CASES[name].is_task and "error" not in call:
            assert call["of"], name  # its result says of which task it is
    # What is asked before there is a task belongs to none; all that is asked in its midst does.
    assert seen["calls"]["sign"]["related"] == [True, True, True]
    assert seen["calls"]["reserve"]["related"] == [None, True]
    check_progress([each["progress"] for each in seen["progress"]])
    assert seen["trained"] == {"text": "3 epochs", "isError": False}
    assert seen["plain"]["code"] == -32601
    assert seen["cancel"]["status"] == "cancelled"
    assert seen["awaited"]["code"] is not None
    assert seen["stopped"] == "stopped"
    assert seen["again"]["code"] == seen["unknown"]["code"] == -32602
    assert seen["notified"]
    check_list(seen, way, {*seen["ids"]})


def check_progress(told):
    """The last report arrives; of those before it the latest of each second does."""
    assert told == sorted({*told})
    assert told[-1] == 3


def check_list(seen, way, ids):
    """Where callers are identified they may list their tasks, elsewhere nobody may."""
    assert seen["capabilities"] == {
        "cancel": {},
        "requests": {"tools": {"call": {}}},
        **({"list": {}} if way == "http" else {}),
    }
    if way == "http":
        assert ids <= {*seen["listed"]}
        assert len(seen["listed"]) == len({*seen["listed"]})
    else:
        assert seen["listed"]["code"] == -32601


@pytest.mark.parametrize("way", WAYS)
def test_python_1(by_python, reach, way):
    seen = by_python("mcp1", "mcp_1.py", TOLD, *reach(way))
    assert seen["revision"] == HANDSHAKE
    check_support(seen["support"])
    check_calls(seen["calls"], HANDSHAKE)
    for name, call in seen["calls"].items():
        if CASES[name].is_task and "error" not in call:
            assert call["of"], name
    assert seen["calls"]["sign"]["related"] == [True, True, True]
    check_progress(seen["trained"].pop("progress"))
    assert seen["trained"] == {"text": "3 epochs", "isError": False}
    assert seen["plain"]["code"] == -32601
    assert seen["cancel"] == "cancelled"
    assert seen["stopped"] == "stopped"
    assert seen["again"]["code"] == seen["unknown"]["code"] == -32602
    assert ("list" in seen["capabilities"]) == (way == "http")


@pytest.mark.parametrize("way", WAYS)
def test_fastmcp_4(by_python, reach, way):
    seen = by_python("fastmcp", "fastmcp_4.py", TOLD, *reach(way))
    seen["calls"]["reserve"]["status"] = "completed"  # which it does not show of a task that it hides
    check_calls(seen["calls"], STATELESS)
    assert seen["transparent"] == 9
    assert seen["created"] == "working"
    assert (seen["stopped"], seen["cancelled"]) == ("stopped", "cancelled")
    assert seen["unknown"]["code"] == -32602


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("mode", "revision"), [("legacy", HANDSHAKE), (STATELESS, STATELESS)])
def test_ext_tasks(by_node, reach, way, mode, revision):
    seen = by_node("ext_tasks.mjs", mode, TOLD, *reach(way))
    assert seen["revision"] == revision
    # A task of the older generation ends with a text there, of which this client makes an error without a code.
    for call in seen["calls"].values() if revision == HANDSHAKE else ():
        if "error" in call:
            message = call["error"]["message"]
            assert any(each.text in message for each in CASES.values()), message
            code = next(each.error for each in CASES.values() if each.text in message)
            call.update({"error": {**call["error"], "code": code}} if code else told_by_failure(call))
    check_calls(seen["calls"], revision)
    if revision == HANDSHAKE:
        check_support(seen["support"])
        assert seen["again"]["code"] == -32602
    else:
        assert {*seen["support"].values()} == {None}
        assert seen["again"] == "acknowledged"
    assert seen["created"] == "working"
    assert (seen["stopped"], seen["cancelled"]) == ("stopped", "cancelled")
    assert seen["unknown"]["code"] == -32602


def told_by_failure(call):
    """Return what a client is told of a tool that has failed, where it never sees the result."""
    text = call.pop("error")["message"]
    return {"text": text, "isError": True}
