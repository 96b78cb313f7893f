"""The ordinary values of bench/results.py: each is what is obvious for it, and what docs/reference/results.md says."""

from __future__ import annotations

import runpy
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

RESULTS = runpy.run_path(str(Path(__file__).parents[2] / "bench" / "results.py"))
pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_each_is_what_is_obvious_for_it(revision):
    wrong = {}
    for row, got in zip(RESULTS["ROWS"], await RESULTS["outcomes"](revision), strict=True):
        for where, each, wanted in zip(("alone", "inside"), got, RESULTS["expected"](row), strict=True):
            if not RESULTS["is_same"](each, wanted):
                wrong[row[1], where] = each
    assert wrong == {}


async def test_the_page_says_what_happens():
    page = RESULTS["page"](await RESULTS["outcomes"]())
    assert RESULTS["PAGE"].read_text("utf-8") == page, "run python bench/results.py"


@dataclass
class Held:
    value: Any


class HeldByModel(BaseModel):
    value: Any


class HeldByDict(TypedDict):
    value: Any


HOLDERS = {
    "dict": lambda value: {"value": value},
    "dataclass": Held,
    "model": lambda value: HeldByModel(value=value),
    "deep": lambda value: {"value": [{"value": (value,)}]},
}
TYPES = {
    "dict": [dict[str, Any], HeldByDict],
    "dataclass": [Held],
    "model": [HeldByModel],
    "deep": [dict[str, list[dict[str, tuple[Any, ...]]]]],
}


@pytest.mark.parametrize("holder", HOLDERS)
def test_each_is_the_same_inside_of_any_data(holder: str) -> None:
    names = RESULTS["namespace"]()
    for row in RESULTS["ROWS"]:
        _, inside = RESULTS["expected"](row)
        wanted = {"value": [{"value": [inside]}]} if holder == "deep" else {"value": inside}
        for annotation in (None, *TYPES[holder]):
            value = HOLDERS[holder](eval(row[1], names))
            output = Output.of(annotation)
            data = json_value(value) if output is None else output.dump(value)
            assert from_json(encode(data)) == wanted, (row[1], annotation)
