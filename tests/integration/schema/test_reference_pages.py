"""Reference pages on types, mistakes and results: each page shows what the package does."""

from __future__ import annotations

import json
import runpy
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_core import from_json
from typing_extensions import TypedDict

from mcpkit.content.data import json_value
from mcpkit.protocol.jsonrpc import encode
from mcpkit.schema import Output

pytestmark = [pytest.mark.anyio, pytest.mark.long]


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
    judged = {
        call: CORPUS["judge"](*each) for call, *each in zip(CALLS, CASES, intended, answers, strict=True)
    }
    assert {call: what for call, what in judged.items() if what not in ("runs as meant", "says why")} == {}


RESULTS = runpy.run_path(str(Path(__file__).parents[3] / "bench" / "results.py"))


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
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


@dataclass
class DataclassHolder:
    value: Any


class ModelHolder(BaseModel):
    value: Any


class DictHolder(TypedDict):
    value: Any


HOLDERS = {
    "dict": lambda value: {"value": value}, "dataclass": DataclassHolder,
    "model": lambda value: ModelHolder(value=value), "deep": lambda value: {"value": [{"value": (value,)}]},
}  # fmt: skip


TYPES = {
    "dict": [dict[str, Any], DictHolder], "dataclass": [DataclassHolder], "model": [ModelHolder],
    "deep": [dict[str, list[dict[str, tuple[Any, ...]]]]],
}  # fmt: skip


@pytest.mark.parametrize("holder", HOLDERS)
def test_results_each_value_is_same_inside_data(holder: str) -> None:
    names = RESULTS["namespace"]()
    for row in RESULTS["ROWS"]:
        _, inside = RESULTS["expected"](row)
        wanted = {"value": [{"value": [inside]}]} if holder == "deep" else {"value": inside}
        for annotation in (None, *TYPES[holder]):
            value = HOLDERS[holder](eval(row[1], names))
            output = Output.of(annotation)
            data = json_value(value) if output is None else output.dump(value)
            assert from_json(encode(data)) == wanted, (row[1], annotation)
