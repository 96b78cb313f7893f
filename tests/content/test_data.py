"""Telling results that are JSON already from all others."""

from __future__ import annotations

import datetime as dt
from collections import OrderedDict
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import from_json, to_json

from mcpkit.common.errors import OutputError
from mcpkit.content.data import json_value, may_hold_huge_number, text_of
from mcpkit.content.plain import DEEPEST, is_json

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=12) | st.dictionaries(st.text(), inner), max_leaves=40
)
ODD: list[Any] = [
    *(b"", bytearray(), (), (1,), set(), dt.date(2026, 1, 1), Decimal(1), 1j, object(), OrderedDict(a=1)),
    *({1: 2}, {None: 1}, {True: 1}, range(1), "".join, type("Text", (str,), {})("a")),
]


@given(JSON)
def test_json_is_itself(value: Any) -> None:
    assert is_json(value)
    assert json_value(value) is value


@given(JSON, st.sampled_from(ODD), st.integers(0, 30))
def test_anything_else_is_found_wherever_it_is(value: Any, odd: Any, place: int) -> None:
    rows: list[Any] = [{"a": [value], "b": {"c": 1}} for _ in range(31)]
    rows[place] = {"a": [value], "b": {"c": [odd]}}
    assert not is_json(odd)
    for holder in ([odd], {"a": odd}, rows, {"a": rows}, [[1] * 20, [value] * 20, [1] * 19 + [odd]]):
        assert not is_json(holder)


@given(st.recursive(SCALARS | st.sampled_from(ODD), lambda inner: st.lists(inner) | st.tuples(inner, inner)))
def test_whatever_it_is_there_is_json_or_an_error_with_a_place(value: Any) -> None:
    problem = ""
    data: Any = None
    try:
        data = json_value(value)
    except OutputError as error:
        problem = str(error)
    assert not problem or problem.startswith("result")
    assert is_json(data)
    assert from_json(to_json(data)) == data


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels - 1):
        value = [value]
    return value


def test_levels_are_counted() -> None:
    assert is_json(nested(DEEPEST))
    assert not is_json(nested(DEEPEST + 1))
    wide = [nested(DEEPEST - 1) for _ in range(20)]
    assert is_json(wide)
    assert not is_json([wide])
    with pytest.raises(OutputError, match="more than 190 levels"):
        json_value([wide])


@pytest.mark.parametrize("width", [2, *(pytest.param(width, marks=pytest.mark.long) for width in (9, 200))])
def test_what_holds_itself_many_times_is_found_at_once(width: int) -> None:
    circle: list[Any] = []
    circle += [circle] * width
    assert not is_json(circle)
    with pytest.raises(OutputError, match=r"result\[0\] has no form in JSON: it is result again"):
        json_value(circle)


@pytest.mark.parametrize("before", range(25))
def test_a_huge_number_is_found_at_any_place_of_a_text(before: int) -> None:
    data = ["x" * before, 10**310]
    assert may_hold_huge_number(to_json(data))
    with pytest.raises(OutputError, match=r"result\[1\] has no form in JSON: an integer of 1,030 bits"):
        text_of(data)


def test_digits_in_a_text_are_no_number() -> None:
    data = {"pi": "3" * 1000, "n": 10**300}
    assert may_hold_huge_number(to_json(data))
    assert from_json(text_of(data)) == data
