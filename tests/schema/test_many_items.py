"""Many items take no call of Python each, neither where they fit nor where one of them does not.

Work is counted in calls of functions, so that a slow machine changes nothing.
"""

from __future__ import annotations

import datetime as dt
import enum
import sys
from collections.abc import Callable
from decimal import Decimal
from importlib.metadata import version
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from pydantic import AwareDatetime, BaseModel, Field
from pydantic_core import from_json

from mcpkit.common.errors import ArgumentsError
from mcpkit.schema import Arguments, Output
from mcpkit.schema.texts import Email, Uri
from tests.helpers.structures import arguments_of, calls_of


def refused(arguments: Arguments, value: Any) -> ArgumentsError:
    with pytest.raises(ArgumentsError) as caught:
        arguments.validate({"value": value})
    return caught.value


class P(BaseModel):
    x: int
    y: str


class Q(BaseModel):
    x: str
    z: list[int]


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
    pytest.param(
        UUID,
        f'"{UUID(int=7)}"',
        marks=pytest.mark.skipif(version("pydantic-core") < "2.42", reason="by older pydantic's own call"),
    ),
    *((Decimal, '"12.50"'), (Email, '"a@example.org"'), (Uri, '"urn:a:b"')),
    *((int, "1"), (int, "1.0"), (int, "1e300"), (float, "1"), (str, '""'), (bool, "true")),
    *(
        (Tone, '"low"'),
        (Level, "1"),
        (Level, "2.0"),
        (Literal["a", "b"], '"b"'),
        (Literal[1, 2], "2"),
        (Literal[True], "true"),
    ),
    *((int | str, "1"), (int | str, '"a"'), (dt.date | str, '"2026-01-31"')),
    *((P, '{"x":1,"y":"a"}'), (P | Q, '{"x":"a","z":[1]}'), (Annotated[int, Field(ge=0)], "5")),
    *((tuple[int, str], '[1,"a"]'), (dict[str, int], '{"a":1}'), (list[dt.date], '["2026-01-31"]')),
    pytest.param(bytes, '"AP8="', marks=pytest.mark.skipif(sys.version_info < (3, 11), reason="by Python")),
]


@pytest.mark.parametrize(("annotation", "text"), FITTING)
def test_what_fits_is_validated_without_a_call_of_python_for_each_item(annotation: Any, text: str) -> None:
    arguments = arguments_of(list[annotation])

    def validate(count: int) -> Callable[[], Any]:
        value = from_json(f"[{','.join([text] * count)}]")
        return lambda: arguments.validate({"value": value})

    validate(1)()
    assert calls_of(validate(2_000)) < calls_of(validate(1_000)) + 20


@pytest.mark.parametrize(
    ("annotation", "make"),
    [
        (set[int], lambda count: list(range(count))),
        (frozenset[str], lambda count: [f"{n}" for n in range(count)]),
        (set[float], lambda count: [n / 7 for n in range(count)]),
    ],
)
def test_a_set_is_made_without_a_call_of_python_for_each_item(
    annotation: Any, make: Callable[[int], Any]
) -> None:
    arguments, few, many = arguments_of(annotation), make(1_000), make(2_000)
    arguments.validate({"value": few})
    assert calls_of(lambda: arguments.validate({"value": many})) < 40


@pytest.mark.parametrize(
    ("annotation", "make"),
    [
        (list[int], lambda count: [*[1] * count, "x"]),
        (list[P | Q], lambda count: [*[{"x": 1, "y": ""}] * count, {}]),
        (list[dt.date], lambda count: [*["2026-01-31"] * count, "x"]),
        (tuple[int, ...], lambda count: [*[1] * count, "x"]),
        (dict[str, int], lambda count: {**{f"{index}": 1 for index in range(count)}, "last": "x"}),
        (dict[int, int], lambda count: {**{f"{index}": 1 for index in range(count)}, "last": 1}),
    ],
)
def test_one_wrong_item_is_found_among_many_in_slices(annotation: Any, make: Callable[[int], Any]) -> None:
    arguments, few, many = arguments_of(annotation), make(5_000), make(20_000)
    refused(arguments, few)
    assert calls_of(lambda: refused(arguments, many)) < calls_of(lambda: refused(arguments, few)) + 1_500
    (problem,) = refused(arguments, many).problems
    assert problem.field in ("value[20000]", "value.last")


def test_many_keys_that_do_not_fit_are_told_as_keys() -> None:
    error = refused(arguments_of(dict[int, int]), {f"k{index}": 1 for index in range(50)})
    assert {problem.message for problem in error.problems} == {
        "the key is not a string that matches ^-?[0-9]+$"
    }
    assert len(error.problems) == 50


def test_tuples_in_a_result_take_few_calls_each() -> None:
    output = Output.of(list[tuple[int, str]])
    assert output is not None
    few, many = ([(1, "a")] * count for count in (100, 200))
    assert output.dump(few) == [[1, "a"]] * 100
    assert calls_of(lambda: output.dump(many)) - calls_of(lambda: output.dump(few)) <= 25 * 100
