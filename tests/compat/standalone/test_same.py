"""The same source tells the same under fastmcp 4 and under mcpkit: whole lists, and whole answers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.helpers.standalone_asked import ASKED, CALLS, LISTS, PROMPTS, READ, named

ANSWERS = [
    *(named(*each) for each in CALLS),
    *(named("read", uri) for uri in READ),
    *(named(*each) for each in PROMPTS),
    *(named("complete", value) for value in "OX"),
    *(named("asks", kind) for kind in ASKED),
]
ADDED = ("resultType", "ttlMs", "cacheScope")
ONCE_PER_REQUEST = named("remembers", {"key": "k"})


def plain(answer: Any) -> Any:
    """Return an answer without what the stateless era adds to all."""
    result = answer.get("result", {})
    return {**answer, "result": {name: each for name, each in result.items() if name not in ADDED}}


def test_all_components_are_listed_in_the_same_order(theirs, ours):
    for member in LISTS:
        assert ours[f"names of {member}"] == theirs[f"names of {member}"]
        assert theirs[f"names of {member}"]


@pytest.mark.parametrize("method", LISTS.values())
def test_lists_are_the_same(theirs, ours, method):
    listed = [case for case in theirs if case.startswith(f"{method} ")]
    assert listed
    assert {case: ours[case] for case in listed} == {case: theirs[case] for case in listed}


@pytest.mark.parametrize("case", ANSWERS)
def test_answers_are_the_same(theirs, ours, case):
    if case == ONCE_PER_REQUEST and "only errors" not in ours:
        [block] = ours[case]["result"]["content"]
        assert block["text"] == '[null,"object"]', "there is no session"
    elif case == named("tells", {}) and "only errors" not in ours:
        progress = [each for each in theirs[case]["said"] if each[0] == "progress"]
        assert [each for each in ours[case]["said"] if each[0] == "progress"] == progress
    else:
        assert plain(ours[case]) == plain(theirs[case])


def test_servers_say_the_same_of_themselves(theirs, ours):
    assert ours["introduction"] == theirs["introduction"]


def test_a_client_hears_only_what_it_wants(theirs, ours):
    if "only errors" not in ours:
        pytest.skip("this era has no logging/setLevel")
    assert ours["only errors"]["said"][0][:2] == ["log", "error"]
    assert ours["only errors"] == theirs["only errors"]
