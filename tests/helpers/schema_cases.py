"""Types for the tests of schemas, and checks of a type."""

# ruff: noqa: UP007, UP045 - the old spellings of unions are tested on purpose
from __future__ import annotations

import datetime as dt
import enum
import gc
import sys
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Optional, Union
from uuid import UUID

import annotated_types as at
import pytest
from hypothesis import strategies as st
from pydantic import AwareDatetime, BaseModel, Field, NaiveDatetime
from pydantic_core import ValidationError, from_json
from typing_extensions import NotRequired, TypedDict

from mcpkit._utils.exceptions import ArgumentsError
from mcpkit.schema import Arguments
from mcpkit.schema.function_signatures import parameter

Case = tuple[Any, Any, list[tuple[Any, Any]], list[Any]]
"""A type, its schema, what it accepts with what that becomes, and what it refuses."""


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Point(NamedTuple):
    x: int
    y: float = 0.0


class Place(typing.TypedDict):
    name: str
    size: NotRequired[int]


def arguments_of(annotation: Any) -> Arguments:
    """Return the arguments of a function `f` that has one, `value`."""
    return Arguments.of_parameters("f", [parameter("value", annotation)])


def check_type(annotation: Any, schema: Any, accepted: list[tuple[Any, Any]], refused: list[Any]) -> None:
    """Check the schema of a type, and the conversion of values."""
    arguments = arguments_of(annotation)
    assert arguments.schema["properties"]["value"] == schema
    for value, converted in accepted:
        result = arguments.validate({"value": value})["value"]
        assert result == converted
        assert type(result) is type(converted)
    for value in refused:
        with pytest.raises(ValidationError):
            arguments._validator.validate_python({"value": value}, by_alias=True, by_name=False)
        if not holds_json(value):
            with pytest.raises(ArgumentsError, match=r"value"):
                arguments.validate({"value": value})


def calls_of(act: Callable[[], Any]) -> int:
    """Return the number of function calls, built-in functions included."""
    count = 0

    def profile(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    gc.disable()  # Hypothesis has a function called by each collection
    sys.setprofile(profile)
    try:
        act()
    finally:
        sys.setprofile(None)
        gc.enable()
    return count


def holds_json(value: Any) -> bool:
    """Return whether a string in a value is JSON of another type, which may be repaired."""
    if isinstance(value, str):
        try:
            return not isinstance(from_json(value, allow_inf_nan=False), str)
        except ValueError:
            return False
    if isinstance(value, dict):
        value = list(value.values())
    return isinstance(value, list) and any(map(holds_json, value))


def holds_integer(value: Any) -> bool:
    """Return whether a value contains a whole number, which may be read as text."""
    if isinstance(value, dict):
        value = list(value.values())
    return type(value) is int or (isinstance(value, list) and any(map(holds_integer, value)))


class Grade(enum.IntEnum):
    LOW = 0
    HIGH = 1


class Access(enum.Flag):
    READ = 1
    WRITE = 2


class Mixed(enum.Enum):
    A = "a"
    ONE = 1
    HALF = 0.5
    YES = True
    NOTHING = None


class Harbour(TypedDict):
    name: str
    at: NotRequired[dt.datetime]


@dataclass
class Station:
    id: int
    places: list[Harbour] = field(default_factory=list)
    tags: frozenset[int] = frozenset()


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int = 9


class Dog(BaseModel, extra="forbid"):
    kind: Literal["dog"]
    bark: bytes = b""
    height: Annotated[Decimal, Field(decimal_places=2)] = Decimal(1)


class Tree(BaseModel):
    value: Annotated[int, Field(ge=0)]
    since: dt.date | None = Field(None, alias="from")
    children: list[Tree] = []


LEAVES: list[Any] = [
    *(Any, int, float, str, bool, None, bytes, Color, Grade, Mixed),
    *(Literal["a", "b"], Literal[1, "a", True, None], Literal[0, 2]),
    *(dt.datetime, dt.date, dt.time, dt.timedelta, UUID, Decimal, Path),
    *(NaiveDatetime, AwareDatetime, dt.datetime | str, int | float, Access),
    *(dict[int, str], dict[bool, int], dict[Grade, str], dict[dt.date, int], dict[Literal[1, "a"], int]),
    Annotated[int, at.Ge(0), at.Lt(10)], Annotated[int, at.MultipleOf(3)],
    Annotated[float, at.Interval(gt=-1, le=1.5)], Annotated[str, at.MinLen(1), at.MaxLen(3)],
    Annotated[str, Field(pattern="^[a-z]+$")], Annotated[list[int], at.Len(1, 2)],
    Annotated[dict[str, int], at.MinLen(1)], *(Point, Harbour, Station, Cat, Dog, Tree),
    Annotated[Cat | Dog, Field(discriminator="kind")],
]  # fmt: skip


HASHABLE: list[Any] = [int, float, str, bool, None, Color, Grade, Mixed, dt.datetime, UUID, Path]


ANNOTATIONS = st.recursive(
    st.sampled_from(LEAVES)
    | st.sampled_from(HASHABLE).flatmap(lambda t: st.sampled_from([set[t], frozenset[t]])),
    lambda inner: st.one_of(
        inner.map(lambda t: list[t]),
        inner.map(lambda t: Sequence[t]),
        inner.map(lambda t: tuple[t, ...]),
        st.tuples(inner, inner).map(lambda ts: tuple[ts[0], ts[1]]),
        inner.map(lambda t: dict[str, t]),
        inner.map(lambda t: Mapping[str, t]),
        inner.map(lambda t: Optional[t]),
        st.tuples(inner, inner).map(lambda ts: Union[ts[0], ts[1]]),
    ),
    max_leaves=4,
)


SCALARS: list[Any] = [
    *(None, True, False, 0, 1, 2, 3, -1, 7, 2**70, 0.0, -0.0, 1.0, 5.0, 0.5, 5.5, 1e300, 2.0**60),
    *("", "a", "b", "red", "cat", "dog", "5", "5.0", "1e3", "-0.25", "null", "true", "é", "ab\n", "0.125"),
    *("2024-02-29", "2023-02-29", "20240229", "2024-02-29T10:00:00Z", "2024-02-29t10:00:00.5z"),
    *("2024-02-29T10:00:00", "2024-02-29 10:00:00Z", "2024-02-29T10:00:00+01:00", "2024-02-29T10:00:00+0100"),
    *("10:00:00Z", "10:00:00", "10:00Z", "10:00:00-05:30", "24:00:00Z", "1700000000", "٣"),
    *("PT1H", "P1D", "P1W", "P", "PT", "P1DT", "1 day", "PT0.5S", "P1Y2M3DT4H5M6S"),
    *("AAAA", "AAA=", "AAA", "-_-_", "AA AA"),
    *("123e4567-e89b-12d3-a456-426614174000", "123e4567e89b12d3a456426614174000"),
    *("urn:uuid:123e4567-e89b-12d3-a456-426614174000", "{123e4567-e89b-12d3-a456-426614174000}"),
]


JSON = st.recursive(
    st.sampled_from(SCALARS),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["a", "name", "at", "id", "kind", "value", "x", "y"]), inner, max_size=3
        )
    ),
    max_leaves=5,
)


def fitting(schema: Any, root: Any, depth: int = 0) -> st.SearchStrategy[Any]:
    """Draw values that mostly fit a schema; what is wrong with the rest is near to right."""
    if "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rpartition("/")[2]]
    if depth > 5:
        return JSON
    if "anyOf" in schema:
        drawn = st.one_of([fitting(branch, root, depth + 1) for branch in schema["anyOf"]])
    elif "enum" in schema:
        drawn = st.sampled_from(schema["enum"])
    elif schema.get("type") == "array":
        if "prefixItems" in schema:
            drawn = st.tuples(*(fitting(item, root, depth + 1) for item in schema["prefixItems"])).map(list)
        else:
            drawn = st.lists(fitting(schema.get("items", {}), root, depth + 1), max_size=3)
    elif schema.get("type") == "object" and "properties" in schema:
        members = {name: fitting(inner, root, depth + 1) for name, inner in schema["properties"].items()}
        required = schema.get("required", [])
        drawn = st.fixed_dictionaries(
            {name: members[name] for name in required},
            optional={name: of for name, of in members.items() if name not in required} | {"extra": JSON},
        )
    elif schema.get("type") == "object":
        rest = schema.get("additionalProperties")
        inner = fitting(rest, root, depth + 1) if isinstance(rest, dict) else JSON
        names = ["a", "1", "true", "2024-02-29"] if "propertyNames" in schema else ["a", "b", "c"]
        drawn = st.dictionaries(st.sampled_from(names), inner, max_size=2)
    else:
        kinds = {"string": str, "integer": (int, float), "number": (int, float), "boolean": bool,
            "null": type(None)}  # fmt: skip
        of_kind = [v for v in SCALARS if isinstance(v, kinds.get(schema.get("type"), object))]
        drawn = st.sampled_from(of_kind)
    if "prefixItems" in schema:
        drawn = drawn | st.fixed_dictionaries({"x": st.just(1)})
    # Integers of two kinds and strings of any characters are drawn beside the known ones.
    return (
        drawn
        if depth
        else st.one_of(drawn, drawn, JSON, st.integers(), st.floats(-10, 10), st.text(max_size=3))
    )
