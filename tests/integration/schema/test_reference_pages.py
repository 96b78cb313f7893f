"""Reference pages on types, mistakes and results: each page shows what the package does."""

import json
import runpy
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long


def test_types_page_is_current() -> None:
    script = runpy.run_path(str(Path(__file__).parents[3] / "bench" / "types_page.py"))
    assert script["PAGE"].read_text("utf-8") == script["page"](), "run python bench/types_page.py"


CORPUS = runpy.run_path(str(Path(__file__).parents[3] / "bench" / "corpus.py"))


CASES = CORPUS["cases"]()


CALLS = [f"{case['tool']} {json.dumps(case['sent'])}" for case in CASES]


@pytest.fixture(scope="module")
def answers():
    return CORPUS["ask"](sys.executable, "mcpkit")


def test_mistakes_page_is_current(answers):
    kept = json.loads(CORPUS["ANSWERS"].read_text("utf-8"))
    page = CORPUS["page"]({"mcpkit": answers, **kept["answers"]}, kept["versions"])
    assert CORPUS["PAGE"].read_text("utf-8") == page, "run python bench/corpus.py"


def test_mistakes_each_call_runs_as_intended_or_is_explained(answers):
    intended = CORPUS["intended"]()
    classes = {
        call: CORPUS["classify"](*each) for call, *each in zip(CALLS, CASES, intended, answers, strict=True)
    }
    assert {
        call: what for call, what in classes.items() if what not in ("runs as meant", "names the field")
    } == {}


RESULTS = runpy.run_path(str(Path(__file__).parents[3] / "bench" / "results.py"))


async def test_results_each_value_is_as_expected(revision):
    wrong = {}
    for row, got in zip(RESULTS["ROWS"], await RESULTS["outcomes"](revision), strict=True):
        for where, each, wanted in zip(("alone", "inside"), got, RESULTS["expected"](row), strict=True):
            if not RESULTS["is_same"](each, wanted):
                wrong[row[1], where] = each
    assert wrong == {}


async def test_results_page_is_current():
    page = RESULTS["page"](await RESULTS["outcomes"]())
    assert RESULTS["PAGE"].read_text("utf-8") == page, "run python bench/results.py"
