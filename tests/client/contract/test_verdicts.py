"""What changes of schemas do to clients, judged by calls: what fits the old schema is held against the new one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator, FormatChecker

from mcpkit.client.contract.schemas import closed
from mcpkit.client.contract.verdict import Effect, Verdict, of_input, of_output

from .pairs import ARGUMENTS
from .values import schemas, values

FORMATS = FormatChecker()


def fits(schema: Any, value: Any) -> bool:
    return Draft202012Validator(schema, format_checker=FORMATS).is_valid(value)


def check_example(verdict: Verdict, old: Any, new: Any) -> None:
    """Hold the example of a breaking change against both schemas, as others read them."""
    assert (verdict.effect is Effect.BREAKING) == (verdict.example is not None)
    assert (verdict.effect is Effect.COMPATIBLE) == (not verdict.obstacles)
    if verdict.example is not None:
        assert fits(old, verdict.example.value)
        assert not fits(new, verdict.example.value)


@pytest.mark.parametrize(
    ("old", "new", "effect"), [pair[1:] for pair in ARGUMENTS], ids=[pair[0] for pair in ARGUMENTS]
)
def test_changes_of_arguments(old: Any, new: Any, effect: str) -> None:
    verdict = of_input(old, new)
    assert verdict.effect.value == effect, verdict
    check_example(verdict, closed(old), new)


@pytest.mark.parametrize(
    ("old", "new"), [pair[1:3] for pair in ARGUMENTS], ids=[pair[0] for pair in ARGUMENTS]
)
def test_changes_of_results_are_those_of_arguments_the_other_way_round(old: Any, new: Any) -> None:
    assert of_output(new, old).effect is of_input(old, new).effect


COMPATIBLE = [pair for pair in ARGUMENTS if pair[3] == "compatible"]


@pytest.mark.parametrize(
    ("old", "new"), [pair[1:3] for pair in COMPATIBLE], ids=[pair[0] for pair in COMPATIBLE]
)
def test_recorded_calls_fit_after_a_compatible_change(old: Any, new: Any) -> None:
    @settings(max_examples=20, deadline=None, database=None, derandomize=True)
    @given(values(closed(old)))
    def replay(arguments: Any) -> None:
        if fits(closed(old), arguments):
            assert fits(new, arguments)

    replay()


@settings(max_examples=100, deadline=None, database=None)
@given(st.data(), schemas(), schemas())
def test_no_verdict_is_refuted_by_a_call(data: st.DataObject, old: Any, other: Any) -> None:
    new = data.draw(
        st.sampled_from([other, {"anyOf": [old, other]}, {"allOf": [old, other]}, {**old, **other}])
    )
    verdict = of_input(old, new)
    check_example(verdict, closed(old), new)
    if verdict.effect is Effect.COMPATIBLE:
        for value in data.draw(st.lists(values(closed(old)), min_size=5, max_size=5)):
            assert not fits(closed(old), value) or fits(new, value)


def test_what_is_in_the_way_is_said_with_its_place() -> None:
    old = {"type": "object", "properties": {"stops": {"type": "array", "items": {"type": "object", "properties": {
        "city": {"type": "string"}}}}}}  # fmt: skip
    new = {"type": "object", "properties": {"stops": {"type": "array", "items": {"type": "object", "properties": {
        "city": {"type": "string", "maxLength": 3}, "day": {"type": "integer"}}, "required": ["day"]}}}}  # fmt: skip
    told = [f"{found.path}: {found.why}" for found in of_input(old, new).obstacles]
    assert told == [
        "stops[].day: it is required",
        "stops[].city: it has to have at most 3 characters",
    ]


@pytest.mark.parametrize(
    "schema",
    [{"type": 5}, {"type": "object", "properties": []}, [], "x", {"$ref": "#"}, {"anyOf": [{"$ref": "#"}]}],
)
def test_what_is_no_schema_is_not_told(schema: Any) -> None:
    assert of_input({"type": "object"}, schema).effect is Effect.UNTOLD


@pytest.mark.slow
def test_large_schemas_end() -> None:
    many = {
        "anyOf": [{"type": "object", "properties": {f"p{number}": {"$ref": "#"}}} for number in range(60)]
    }
    assert of_input(many, {**many, "description": "changed", "anyOf": many["anyOf"][::-1]}).effect in Effect
