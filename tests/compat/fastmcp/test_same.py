"""Functions as tools, beside mcp 1.x itself: schemas, conversions, texts of errors and refusals are the same."""

from __future__ import annotations

from typing import Any

import pytest

from .cases import CASES


@pytest.fixture(scope="module")
def both(theirs, ours) -> dict[str, tuple[Any, Any]]:
    answer = theirs(list(CASES.values()))
    return dict(zip(CASES, zip(ours(list(CASES.values())), answer(), strict=True), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_a_function_is_the_same_tool(name, both):
    our, their = both[name]
    assert our == their
