"""Work that arguments and results take: in proportion to their size, counted in calls of functions."""

# ruff: noqa: UP007 - with `|` the names would have to be defined when the class is made
from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import sys
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from importlib.metadata import version
from typing import Annotated, Any, Literal, Union
from uuid import UUID

import pytest
from pydantic import AfterValidator, AwareDatetime, BaseModel, Field, ValidationError
from pydantic_core import from_json

from mcpkit._utils.exceptions import ArgumentsError
from mcpkit.schema import Arguments
from mcpkit.schema.patterns_and_formats import Email, Uri
from mcpkit.schema.validation_errors import MAX_PROBLEMS
from tests.helpers.schema_cases import arguments_of, calls_of
from tests.helpers.tables import each_row

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


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


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
