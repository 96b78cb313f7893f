"""The wrong arguments of bench/corpus.json: what becomes of each is what docs/reference/mistakes.md says."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

CORPUS = runpy.run_path(str(Path(__file__).parents[2] / "bench" / "corpus.py"))
CASES = CORPUS["cases"]()
CALLS = [f"{case['tool']} {json.dumps(case['sent'])}" for case in CASES]


@pytest.fixture(scope="module")
def answers():
    return CORPUS["ask"](sys.executable, "mcpkit")


def test_there_are_sixty_wrong_calls():
    assert sum(case["kind"] != CORPUS["RIGHT"] for case in CASES) == 60
    assert len(set(CALLS)) == len(CALLS)


def test_the_page_says_what_happens(answers):
    kept = json.loads(CORPUS["ANSWERS"].read_text("utf-8"))
    page = CORPUS["page"]({"mcpkit": answers, **kept["answers"]}, kept["versions"])
    assert CORPUS["PAGE"].read_text("utf-8") == page, "run python bench/corpus.py"


def test_each_call_runs_as_meant_or_says_why(answers):
    intended = CORPUS["intended"]()
    judged = {
        call: CORPUS["judge"](*each) for call, *each in zip(CALLS, CASES, intended, answers, strict=True)
    }
    assert {call: what for call, what in judged.items() if what not in ("runs as meant", "says why")} == {}


def test_a_refusal_is_short_and_about_the_arguments(answers):
    for case, answer in zip(CASES, answers, strict=True):
        for line in answer.get("refused", "").splitlines():
            assert len(line) < 160
            assert not any(
                word in line for word in ("pydantic", "http", "Error", "Input should", "hunter2")
            ), case


@pytest.mark.parametrize(
    ("answer", "what"),
    [
        ({"ran": '{"a": 1.0}'}, "runs as meant"),
        ({"ran": '{"a": 2}'}, "runs otherwise"),
        ({"refused": "b[0].c: expected an integer"}, "says why"),
        ({"refused": "c: expected an integer"}, "refuses"),
        ({"failed": "b[0].c"}, "fails"),
    ],
)
def test_what_an_answer_is_worth(answer, what):
    assert CORPUS["judge"]({"field": "b[0].c"}, {"a": 1}, answer) == what
