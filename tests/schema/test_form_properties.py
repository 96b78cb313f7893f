"""Properties of forms: a value that is dumped is read back, and what is read is what was asked for."""

# ruff: noqa: UP045 - the old spellings of unions are tested on purpose
from __future__ import annotations

import dataclasses
import datetime as dt
import json
import typing
from typing import Annotated, Any, Optional

import annotated_types as at
import pydantic
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator, FormatChecker
from typing_extensions import TypedDict

from mcpkit.common.errors import ArgumentsError, Problem
from mcpkit.schema.form import Form
from tests.helpers.form_types import Color, Plan, Size

FIELDS: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (str, st.text(max_size=5)),
    (int, st.integers(-(10**6), 10**6)),
    (float, st.floats(allow_nan=False, allow_infinity=False)),
    (bool, st.booleans()),
    (dt.date, st.dates()),
    (dt.datetime, st.datetimes(timezones=st.just(dt.timezone.utc))),
    (Color, st.sampled_from(Color)),
    (Size, st.sampled_from(Size)),
    (Plan, st.sampled_from(["free", "pro"])),
    (list[Size], st.lists(st.sampled_from(Size), max_size=3)),
    (set[Color], st.sets(st.sampled_from(Color))),
    (Annotated[str, at.MinLen(1), at.MaxLen(3)], st.text(min_size=1, max_size=3)),
    (Annotated[int, at.Gt(-3), at.Le(3)], st.integers(-2, 3)),
]
KINDS = ["dataclass", "named tuple", "typed dict", "model"]


def build(kind: str, fields: dict[str, Any]) -> Any:
    if kind == "dataclass":
        return dataclasses.make_dataclass("Answer", fields.items())
    if kind == "named tuple":
        return typing.NamedTuple("Answer", list(fields.items()))
    if kind == "typed dict":
        return TypedDict("Answer", fields)
    return pydantic.create_model("Answer", **{name: (hint, ...) for name, hint in fields.items()})


@st.composite
def answers(draw: st.DrawFn) -> tuple[Any, Any]:
    """Draw a type and a value of it."""
    chosen = draw(st.lists(st.tuples(st.sampled_from(FIELDS), st.booleans()), max_size=4))
    fields = {
        f"f{number}": (Optional[hint], st.none() | value) if is_optional else (hint, value)
        for number, ((hint, value), is_optional) in enumerate(chosen)
    }
    cls = build(draw(st.sampled_from(KINDS)), {name: hint for name, (hint, _) in fields.items()})
    return cls, cls(**{name: draw(value) for name, (_, value) in fields.items()})


@settings(max_examples=150, deadline=None)
@given(answers())
def test_a_value_that_is_dumped_is_read_back(answer):
    cls, value = answer
    dumped = json.loads(pydantic.TypeAdapter(cls).dump_json(value))
    content = (
        dict(zip(cls._fields, dumped, strict=True))
        if hasattr(cls, "_fields") and isinstance(dumped, list)
        else dumped
    )
    assert Form.of(cls).read(content) == value
    # Who leaves out what is null says the same.
    assert Form.of(cls).read({name: item for name, item in content.items() if item is not None}) == value


def complaints(form: Form, content: Any) -> tuple[Problem, ...]:
    """Return what is wrong with an answer; nothing when it is read."""
    try:
        form.read(content)
    except ArgumentsError as error:
        return error.problems
    return ()


CONTENTS = st.dictionaries(
    st.sampled_from(["f0", "f1", "more"]),
    st.sampled_from(
        [
            *("", "a", "abcd", "red", "s", "free", "a@b", "2026-01-31", "2026-02-30", "2026-01-31T09:30:00Z"),
            *(
                True,
                False,
                0,
                1,
                -3,
                3.0,
                3.5,
                4,
                1e300,
                [],
                ["s"],
                ["s", "l"],
                ["x"],
                ["s", 1],
                {},
                {"a": 1},
            ),
        ]
    ),
)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(FIELDS), st.booleans()), max_size=2), CONTENTS, st.sampled_from(KINDS)
)
def test_what_is_read_is_what_the_form_asks_for(chosen, content, kind):
    hints = [hint for (hint, _), _ in chosen]
    fields = {
        f"f{number}": Optional[hint] if is_optional else hint
        for number, (hint, (_, is_optional)) in enumerate(zip(hints, chosen, strict=True))
    }
    form = Form.of(build(kind, fields))
    judge = Draft202012Validator(form.schema("2025-11-25"), format_checker=FormatChecker())
    wrong = [
        error.path[0] if error.path else error.message.split("'")[1] for error in judge.iter_errors(content)
    ]
    required = form.schema("2025-11-25").get("required", [])
    # An empty text for a field that may be left out is as good as none.
    wrong = [name for name in wrong if content.get(name) != "" or name in required]
    assert {problem.field.partition("[")[0] for problem in complaints(form, content)} == set(wrong)
