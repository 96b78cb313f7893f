"""The fast path for builtin types, and the work that arguments and results take.

The fast path makes the same JSON Schema and core schema as pydantic, except for a union with `Any`, of which it
publishes `{}`, and the place of null in a union.
"""

# ruff: noqa: UP007 - with `|` the names would have to be defined when the class is made
from __future__ import annotations

import collections.abc
import dataclasses
import datetime as dt
import enum
import sys
import types
import typing
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Literal, Optional, Union
from uuid import UUID

import annotated_types as at
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AfterValidator, AwareDatetime, BaseModel, Field, ValidationError
from pydantic_core import from_json
from typing_extensions import NotRequired

from mcpkit._utils.exceptions import ArgumentsError
from mcpkit.protocol.objects import ParamHeader
from mcpkit.schema import Arguments, type_schemas
from mcpkit.schema.fast_path_for_builtin_types import NotPlainError, describe_plain
from mcpkit.schema.patterns_and_formats import Email, Uri
from mcpkit.schema.validation_errors import MAX_PROBLEMS
from tests.helpers.schema_cases import Level, arguments_of, calls_of
from tests.helpers.tables import each_row


class Color(enum.Enum):
    """A color."""

    RED = "red"
    BLUE = "blue"


class Place(typing.TypedDict):
    """A place."""

    name: str
    size: NotRequired[Annotated[int, at.Ge(0)]]
    inner: Optional[list[Color]]  # noqa: UP045 - of values


LEAVES: list[Any] = [
    int, float, str, bool, bytes, list[Any], dict[str, Any], Decimal, UUID, Path, Email, Uri, Color, Level, Place,
    dt.date, dt.time, dt.datetime, dt.timedelta, Literal["a", "b"], Literal[1, 2], Literal["x", 1, None, True],
    Literal[Color.RED], list, dict, tuple, Annotated[int, at.Gt(3), at.Le(9)],
    Annotated[int, Field(ge=0, lt=10)], Annotated[str, Field(pattern="^[a-z]+$", title="A", description="B")],
    Annotated[str, Field(min_length=1), at.MaxLen(9)],
    Annotated[float, at.MultipleOf(0.5)], Annotated[str, at.Len(2, 4)], Annotated[str, "A text"],
    Annotated[str, ParamHeader("Region")], Annotated[list[int], "Numbers"], Annotated[Email, "Yours"],
]  # fmt: skip


def containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    wraps: list[Any] = [
        lambda item, _: list[item],
        lambda item, _: collections.abc.Sequence[item],
        lambda item, _: dict[str, item],
        lambda item, _: collections.abc.Mapping[str, item],
        lambda item, _: tuple[item, ...],
        lambda item, other: tuple[item, other],
        lambda item, _: Optional[item],  # noqa: UP045 - of values
        lambda item, other: Union[item, other],
        lambda item, _: Annotated[item, "A text"],
    ]
    return st.builds(lambda wrap, item, other: wrap(item, other), st.sampled_from(wraps), inner, inner)


ANNOTATIONS = st.recursive(st.sampled_from(LEAVES), containers, max_leaves=4)

_IGNORED = frozenset({"metadata", "ref", "serialization", "cls", "cls_name", "config", "computed_fields"})
"""Keys of core schemas that change nothing about accepted values."""


def comparable(core: Any, definitions: Any = types.MappingProxyType({})) -> Any:
    """Return a core schema without references, defaults and identities of functions."""
    if isinstance(core, dict):
        if core.get("type") == "definitions":
            return comparable(core["schema"], {each["ref"]: each for each in core["definitions"]})
        if core.get("type") == "definition-ref":
            return comparable(definitions[core["schema_ref"]], definitions)
        if core.get("type") == "any":
            return None
        parts = {key: comparable(inner, definitions) for key, inner in core.items() if key not in _IGNORED}
        if parts.get("extra_behavior") == "ignore":
            del parts["extra_behavior"]
        parts = {key: part for key, part in parts.items() if part is not None and part is not False}
        return None if parts == {"type": "nullable"} else parts
    if isinstance(core, (list, tuple)):
        return [comparable(inner, definitions) for inner in core]
    if core is Path or getattr(core, "__name__", "") == "path_validator":
        return "Path"
    if callable(core) and not isinstance(core, type):
        return getattr(core, "__qualname__", type(core).__qualname__)
    return core


def sorted_branches(schema: Any) -> Any:
    """Return a JSON Schema with null as the last branch of each union, where pydantic puts it."""
    if isinstance(schema, dict):
        parts = {key: sorted_branches(inner) for key, inner in schema.items()}
        if "anyOf" in parts:
            parts["anyOf"].sort(key=lambda branch: branch == {"type": "null"})
        return parts
    return [sorted_branches(inner) for inner in schema] if isinstance(schema, list) else schema


@given(ANNOTATIONS)
def test_plain_type_is_described_as_by_pydantic(annotation: Any) -> None:
    plain = describe_plain(annotation)
    other = type_schemas.describe(annotation, "validation")
    assert sorted_branches(plain.schema) == sorted_branches(other.schema)
    assert not other.definitions
    assert comparable(plain.core) == comparable(other.core)


def test_fast_path_leaves_other_types_to_pydantic() -> None:
    others: list[Any] = [
        Annotated[int, at.Ge(0), at.Predicate(bool)], Annotated[list[int], at.Len(1, 2)], dict[int, int],
        Annotated[str, at.MinLen(0)], Annotated[float, at.Le(float("inf"))], bytearray, range, set[int],
        Annotated[int, Field(ge=0, alias="b")], Annotated[int, Field(examples=[1])], Annotated[str, Field(strict=True)],
    ]  # fmt: skip
    for annotation in others:
        try:
            found = describe_plain(annotation)
        except NotPlainError:
            continue
        raise AssertionError(annotation, found)
    assert "pydantic" in sys.modules


# Work that arguments and results take: in proportion to their size, counted in calls of functions


MODULUS = sys.hash_info.modulus


visits = [0]


def visit(value: int) -> int:
    visits[0] += 1
    return value


Leaf = Annotated[int, AfterValidator(visit)]


class A(BaseModel):
    a: int = 0
    child: Union[A, B, C, Leaf]


class B(BaseModel):
    b: int = 0
    child: Union[A, B, C, Leaf]


class C(BaseModel):
    c: int = 0
    child: Union[A, B, C, Leaf]


@dataclasses.dataclass
class Left:
    child: Union[Left, Right, int]


@dataclasses.dataclass
class Right:
    child: Union[Left, Right, int]
    right: int = 0


def refusal(arguments: Arguments, value: Any) -> ArgumentsError:
    with pytest.raises(ArgumentsError) as caught:
        arguments.validate({"value": value})
    return caught.value


@each_row("leaf", [1, "x"])
@each_row("annotation", [Union[A, B, C, Leaf], Union[Left, Right]])
def test_work_recursive_union_is_linear_in_depth(annotation: Any, leaf: Any) -> None:
    arguments = arguments_of(annotation)

    def work(depth: int) -> int:
        value = leaf
        for _ in range(depth):
            value = {"child": value}

        def act() -> None:
            with suppress(ArgumentsError):
                arguments.validate({"value": value})

        return calls_of(act)

    work(3)
    visits[0] = 0
    assert work(40) < 4 * work(20)
    assert visits[0] < 1000


class Left1(BaseModel):
    x: int
    y: str


class Right1(BaseModel):
    x: str
    z: list[int]


CHOICES: Any = Literal.__getitem__(tuple(f"k{index}" for index in range(250)))


WRONG: list[tuple[Any, Callable[[int], Any]]] = [
    (list[int], lambda count: [[]] * count), (list[Union[Left1, Right1]], lambda count: [{}] * count),
    (list[str], lambda count: [1.5] * count), (list[int], lambda count: [*[1] * count, "x"]),
    (list[Union[Left1, Right1]], lambda count: [*[{"x": 1, "y": ""}] * count, {}]),
    (tuple[int, ...], lambda count: ["x"] * count),
    (set[int], lambda count: [f"no {index}" for index in range(count)]),
    (dict[str, int], lambda count: {f"{index}": "x" for index in range(count)}),
    (dict[str, Union[Left1, Right1]], lambda count: {f"{index}": {} for index in range(count)}),
    (dict[int, int], lambda count: {f"k{index}": 1 for index in range(count)}),
    (list[list[list[int]]], lambda count: [[["x"]]] * count),
    (list[dict[str, Union[list[Left1], list[Right1]]]], lambda count: [{"a": [{}]}] * count),
    (Left1, lambda count: {f"k{index}": 1 for index in range(count)}),
    (list[CHOICES], lambda count: [f"z{index}" for index in range(count)]),
]  # fmt: skip


@each_row(("annotation", "make"), WRONG)
def test_work_of_explaining_a_thousand_faults_is_bounded(annotation: Any, make: Callable[[int], Any]) -> None:
    arguments = arguments_of(annotation)
    refusal(arguments, make(100))
    few = calls_of(lambda: refusal(arguments, make(5_000)))
    many = calls_of(lambda: refusal(arguments, make(20_000)))
    assert many < 300_000
    assert many - few < 15_000  # but for the first thousands, all are passed over
    assert len(refusal(arguments, make(20_000)).problems) <= MAX_PROBLEMS


@each_row(("annotation", "make"), [row for row in WRONG if row[0] is not Left1])
def test_work_validator_stops_after_few_faults(annotation: Any, make: Callable[[int], Any]) -> None:
    with pytest.raises(ValidationError) as caught:
        arguments_of(annotation)._validator.validate_python({"value": make(10_000)})
    assert caught.value.error_count() < 10


@each_row(("annotation", "text"), [
    *((kind, lambda index: str(index * MODULUS)) for kind in (set[int], frozenset[int])),
    (set[UUID], lambda index: f'"{UUID(int=index * MODULUS)}"'),
    (set[Decimal], lambda index: f'"{index * MODULUS}"'),
])  # fmt: skip
def test_work_set_of_equal_hashes_is_refused(annotation: Any, text: Callable[[int], str]) -> None:
    arguments = arguments_of(annotation)
    colliding = from_json(f"[{','.join(map(text, range(1, 2_000)))}]")
    assert "have the same hash" in str(refusal(arguments, colliding))
    assert len(arguments.validate({"value": colliding[:100]})["value"]) == 100


@each_row(("key", "make"), [(int, str), (UUID, lambda number: str(UUID(int=number)))])
def test_work_keys_of_equal_hashes_are_refused(key: Any, make: Callable[[int], str]) -> None:
    arguments, numbers = arguments_of(dict[key, int]), range(1, 2_000)
    colliding = {make(index * MODULUS): 1 for index in numbers}
    assert "have the same hash" in str(refusal(arguments, colliding))
    assert len(arguments.validate({"value": {make(index): 1 for index in numbers}})["value"]) == 1_999


class Tone(enum.Enum):
    LOW = "low"
    HIGH = "high"


DAY = '"2026-01-31T09:30:00Z"'


FITTING: list[tuple[Any, str]] = [
    *((dt.datetime, DAY), (dt.datetime, '"2026-01-31T09:30:00"'), (AwareDatetime, DAY)),
    *((dt.date, '"2026-01-31"'), (dt.time, '"09:30:00Z"'), (dt.timedelta, '"PT1H30M"')),
    *([(UUID, f'"{UUID(int=7)}"')] if version("pydantic-core") >= "2.42" else []),
    # older ones call Python
    *((Decimal, '"12.50"'), (Email, '"a@example.org"'), (Uri, '"urn:a:b"')),
    *((int, "1"), (int, "1.0"), (int, "1e300"), (float, "1"), (str, '""'), (bool, "true")),
    *((Tone, '"low"'), (Level, "1"), (Level, "2.0"), (Literal["a", "b"], '"b"'), (int | str, '"a"')),
    *((Left1, '{"x":1,"y":"a"}'), (Left1 | Right1, '{"x":"a","z":[1]}'), (Annotated[int, Field(ge=0)], "5")),
    *((tuple[int, str], '[1,"a"]'), (dict[str, int], '{"a":1}'), (list[dt.date], '["2026-01-31"]')),
    *([(bytes, '"AP8="')] if sys.version_info >= (3, 11) else []),
]  # fmt: skip


@each_row(("annotation", "text"), FITTING)
def test_work_valid_items_need_no_python_call_each(annotation: Any, text: str) -> None:
    arguments = arguments_of(list[annotation])

    def validate(count: int) -> Callable[[], Any]:
        value = from_json(f"[{','.join([text] * count)}]")
        return lambda: arguments.validate({"value": value})

    validate(1)()
    assert calls_of(validate(2_000)) < calls_of(validate(1_000)) + 20
