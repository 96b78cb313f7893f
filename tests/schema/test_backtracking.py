"""Patterns that look around or refer back: what they take has a bound; ordinary ones accept what they did."""

# Without `from __future__ import annotations`: the annotations name what is local to a test.
import logging
import re
import sys
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from mcpkit import Server
from mcpkit.common.errors import ArgumentsError
from mcpkit.common.installation import install_command
from mcpkit.schema import backtracking, explicit, patterns, values
from mcpkit.testing import connect

pytestmark = pytest.mark.anyio

EXPONENTIAL = "^(?:(?=a)a+)+$"
ORDINARY = [
    r"^(?=.*[A-Z])(?=.*[0-9])[A-Za-z0-9]{8,}$",
    r"^(?!admin$)[a-z]+$",
    r"^(?!.*(.)\1)[a-z]*$",
    r"^([a-z]+)-\1$",
    r"(?<=\$)[0-9]+(?!\.)",
    r"^(?!.*\.\.)[\w.]+$",
    r"^(?P<quote>['\"]).*(?P=quote)$",
    r"\b(?!foo\b)\w+\B",
    r"^(?:(?!ab).)*$",
]


def server_of(pattern: str) -> Server:
    server = Server("s")

    @server.tool
    async def hints(texts: list[Annotated[str, Field(pattern=pattern)]]) -> str:
        return "fits"

    @server.tool(input_schema={
        "type": "object",
        "properties": {"texts": {"type": "array", "items": {"type": "string", "pattern": pattern}}},
        "required": ["texts"],
    })  # fmt: skip
    async def written(arguments: dict[str, Any]) -> str:
        return "fits"

    return server


@pytest.mark.parametrize("name", ["hints", "written"])
@pytest.mark.parametrize("count", [1, 1000])
async def test_a_text_that_takes_too_many_steps_does_not_fit(
    name: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = 0
    took_long = backtracking._may_take_long

    def counted() -> bool:
        nonlocal steps
        may_take_long = took_long()
        steps += may_take_long
        return may_take_long

    async with connect(server_of(EXPONENTIAL)) as client:
        assert (await client.call(name, {"texts": ["a" * 40]})).text == "fits"
        monkeypatch.setattr(backtracking, "_may_take_long", counted)
        result = await client.call(name, {"texts": ["a" * 40 + "b"] * count})
        assert result.is_error
        assert "texts[0]: expected a string that matches" in result.text
        assert result.text.count("; telling whether it does takes too many steps") == min(
            count, ArgumentsError.MOST
        )
        short = await client.call(name, {"texts": ["a" * 3 + "b"]})
        assert short.is_error
        assert "too many steps" not in short.text
    assert steps <= backtracking.MOST_LONG


@pytest.mark.parametrize("pattern", ORDINARY)
@given(text=st.text("aAbB09-.$'\"fo \n\u00e9", max_size=60))
def test_an_ordinary_pattern_accepts_what_it_did(pattern: str, text: str) -> None:
    known = patterns.read(pattern)
    assert known is not None
    is_match = backtracking.matcher(backtracking.written(known.rust))
    assert is_match is not None
    assert is_match(text) == (re.search(known.python, text) is not None)


@pytest.mark.parametrize("length", [0, 1, 2, 100, 10_000, 300_000])
@pytest.mark.parametrize(
    ("pattern", "text"),
    [(r"^(?!.*\.\.)[a-z.]*$", "a"), (r"^(?:(?!ab).)*$", "b"), (r"(?=x)x|^$|a(?!b)", "a")],
)
def test_a_long_text_has_steps_for_each_of_its_characters(length: int, pattern: str, text: str) -> None:
    is_match = backtracking.matcher(pattern)
    assert is_match is not None
    assert is_match(text * length)


def test_so_many_texts_of_a_call_may_take_long(monkeypatch: pytest.MonkeyPatch) -> None:
    quadratic = backtracking.matcher(r"^(?!.*?(.+)\1)[a-z]*$")
    assert quadratic is not None
    request = object()
    token = backtracking.current.set(request)
    try:
        text = "".join(chr(97 + number % 26) for number in range(26))
        assert all(quadratic(text) for _ in range(backtracking.MOST_LONG))
    finally:
        backtracking.current.reset(token)


def test_half_of_a_surrogate_pair_fits_nothing() -> None:
    assert not values.matches("^(?!a)")("\ud800")


@pytest.mark.parametrize("pattern", ["(?i)^(?!admin)", "^(?>a+)b(?!c)"])
def test_what_has_no_bound_is_said(pattern: str, caplog: pytest.LogCaptureFixture) -> None:
    patterns.warn_of_time.cache_clear()
    values._engine.cache_clear()
    try:
        re.compile(pattern)
    except re.error:
        pytest.skip("newer than this Python")
    with caplog.at_level(logging.WARNING):
        values.string(pattern=pattern)
    assert "can take unbounded time" in caplog.text


def test_without_the_engine_python_checks_and_it_is_said(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for cached in (patterns.warn_of_time, values._engine, backtracking.matcher):
        cached.cache_clear()
    monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
    try:
        assert values.string(pattern="^(?!admin)")["regex_engine"] == "python-re"  # type: ignore[typeddict-item]
        assert install_command("jsonschema") in caplog.text
    finally:
        for cached in (patterns.warn_of_time, values._engine, backtracking.matcher):
            cached.cache_clear()


def test_a_pattern_of_names_has_steps_too() -> None:
    schema = {
        "type": "object",
        "patternProperties": {EXPONENTIAL: {"type": "integer"}},
        "additionalProperties": False,
    }
    checked = explicit.CheckedSchema(schema, "input_schema")
    assert checked.fits({"a" * 40: 1})
    assert not checked.fits({"a" * 60 + "b": 1})


def test_data_of_a_schema_is_no_pattern() -> None:
    schema = {
        "type": "object",
        "properties": {
            "pattern": {"const": {"pattern": "(?=a)"}},
            "x": {"pattern": "^(?!a)", "allOf": [{"maxLength": 3}]},
        },
    }
    read = explicit.arguments(schema)
    assert read.validate({"pattern": {"pattern": "(?=a)"}, "x": "bcd"})
    for wrong in ({"pattern": {}}, {"x": "abc"}, {"x": "bcde"}):
        with pytest.raises(ArgumentsError):
            read.validate(wrong)
