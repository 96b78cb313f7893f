"""What a tool promises to return, and what it really returns."""

# ruff: noqa: UP007, UP045 - the old spellings of unions are tested on purpose
from __future__ import annotations

import datetime as dt
import enum
import json
import math
from collections.abc import Awaitable, Coroutine, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, Optional, Union
from uuid import UUID

import annotated_types as at
import pytest
from pydantic import AwareDatetime, BaseModel, Field, NaiveDatetime, PlainSerializer, computed_field

from mcpkit.common.errors import OutputError, RegistrationError
from mcpkit.protocol.jsonrpc import encode
from mcpkit.schema import Output, UnresolvedHint
from mcpkit.schema.parameters import empty
from tests.helpers.structures import Place, Point


class Content:
    __mcp_content__ = True


class Picture:
    """Like an image of Pillow: no structure of its own."""


class Color(enum.Enum):
    RED = "red"


@dataclass
class Station:
    id: int
    since: dt.date | None = None


class Reading(BaseModel):
    value: float = Field(alias="v")
    raw: bytes = b""
    price: Decimal = Decimal(0)

    @computed_field
    def double(self) -> float:
        return self.value * 2


class Tree(BaseModel):
    value: int
    children: list[Tree] = []


class Broken(BaseModel):
    picture: Content

    model_config = {"arbitrary_types_allowed": True}


def of(annotation: Any) -> Output:
    output = Output.of(annotation)
    assert output is not None
    return output


@pytest.mark.parametrize(
    "annotation",
    [
        *(empty, Any, object, None, type(None), bytes, Content, Picture, list[Content], Optional[Content]),
        *(
            Union[str, Content],
            tuple[str, Content],
            list[str | Content],
            Sequence[Content],
            list[bytes],
        ),
        *(dict[str, Content], Annotated[Content, "text"], list[Picture], Optional[Picture], Optional[bytes]),
    ],
)
def test_what_promises_no_data_has_no_schema(annotation: Any) -> None:
    assert Output.of(annotation) is None


@pytest.mark.parametrize(
    "annotation", [dict[str, bytes], list[dict[str, bytes]], dict[str, list[bytes]], set[bytes]]
)
def test_bytes_inside_of_data_are_promised_as_base64(annotation: Any) -> None:
    assert '"contentEncoding": "base64"' in json.dumps(of(annotation).schema)


def test_a_structure_with_a_part_that_json_does_not_know_is_refused() -> None:
    with pytest.raises(RegistrationError, match="Broken"):
        Output.of(Broken)


def test_a_model_that_is_not_complete_can_be_tried_again() -> None:
    class Early(BaseModel):
        later: "Later"  # type: ignore[name-defined]  # noqa: F821, UP037 - what is tested

    with pytest.raises(UnresolvedHint):
        Output.of(Early)


def test_an_object_is_the_schema_of_every_revision() -> None:
    output = of(Place)
    assert not output.is_wrapped
    assert output.object_schema is output.schema
    assert output.schema == {
        "type": "object",
        "properties": {"name": {"type": "string"}, "size": {"type": "integer"}},
        "required": ["name"],
    }


def test_anything_else_is_wrapped_where_an_object_is_wanted() -> None:
    output = of(list[int])
    assert output.is_wrapped
    assert output.schema == {"type": "array", "items": {"type": "integer"}}
    assert output.object_schema == {
        "type": "object",
        "properties": {"result": {"type": "array", "items": {"type": "integer"}}},
        "required": ["result"],
    }


def test_definitions_stay_at_the_root() -> None:
    output = of(list[Tree])
    assert list(output.schema["$defs"]) == ["Tree"]
    assert output.object_schema["$defs"] is output.schema["$defs"]
    assert "$defs" not in output.object_schema["properties"]["result"]


def test_a_recursive_model_is_an_object() -> None:
    output = of(Tree)
    assert output.schema["type"] == "object"
    assert "$ref" not in output.schema
    assert not output.is_wrapped
    value = {"value": 1, "children": [{"value": 2, "children": []}]}
    assert output.dump(Tree(value=1, children=[Tree(value=2)])) == value
    with pytest.raises(OutputError, match=r"children\[0\]\.value: expected an integer, but it is missing"):
        output.dump({"value": 1, "children": [{}]})


@pytest.mark.parametrize(
    ("annotation", "value", "dumped"),
    [
        (str, "é", "é"),
        (int, 2**70, 2**70),
        (float, 1, 1),
        (bool, True, True),
        (Optional[str], None, None),
        (list[int], [1], [1]),
        (list[int], (1, 2), [1, 2]),
        (Sequence[int], range(2), [0, 1]),
        (tuple[int, str], (1, "a"), [1, "a"]),
        (set[int], {1}, [1]),
        (dict[str, float], {"a": 0.5}, {"a": 0.5}),
        (dict[str, Any], {"a": dt.date(2026, 1, 31), "b": {Color.RED}}, {"a": "2026-01-31", "b": ["red"]}),
        (Literal["a"], "a", "a"),
        (Color, Color.RED, "red"),
        (Color, "red", "red"),
        (UUID, UUID(int=0), "00000000-0000-0000-0000-000000000000"),
        (Path, Path("/a"), "/a"),
        (Decimal, Decimal("1E+3"), "1E+3"),
        (dt.timedelta, dt.timedelta(hours=1), "PT1H"),
        (dt.timedelta, dt.timedelta(-1, 0, 1), "-PT23H59M59.999999S"),
        (dt.datetime, dt.datetime(2026, 1, 31), "2026-01-31T00:00:00"),
        (dt.datetime, dt.datetime(2026, 1, 31, tzinfo=dt.timezone.utc), "2026-01-31T00:00:00Z"),
        (Place, {"name": "a"}, {"name": "a"}),
        (Point, Point(1), [1, 0.0]),
        (Station, Station(1, dt.date(2026, 1, 31)), {"id": 1, "since": "2026-01-31"}),
        (list[Station], [Station(1)], [{"id": 1, "since": None}]),
        (
            Reading,
            Reading(v=0.5, raw=b"\xff\xfe", price=Decimal("1E+2")),
            {"v": 0.5, "raw": "//4=", "price": "100", "double": 1.0},
        ),
        (Annotated[int, PlainSerializer(str, return_type=str)], 5, "5"),
    ],
)
def test_a_value_becomes_json(annotation: Any, value: Any, dumped: Any) -> None:
    result = of(annotation).dump(value)
    assert result == dumped
    assert type(result) is type(dumped)


@pytest.mark.parametrize(
    ("annotation", "value", "message"),
    [
        (str, 1, "expected a string, got 1"),
        (int, "1", 'expected an integer, got "1"'),
        (int, True, "expected an integer, got true"),
        (Place, {}, "name: expected a string, but it is missing"),
        (Place, {"name": 1}, "name: expected a string, got 1"),
        (Place, None, "expected an object, got null"),
        (list[int], [1, "a"], r"\[1\]: expected an integer, got"),
        (dict[str, int], {"a": "b"}, "a: expected an integer"),
        (Annotated[int, at.Ge(0)], -1, "expected an integer of at least 0, got -1"),
        (Point, [1, 2, 3], "expected an array of 1 to 2 items"),
        (Station, {"id": "1"}, "id: expected an integer"),
        (Color, "green", 'expected "red", got "green"'),
        (dt.datetime, dt.date(2026, 1, 31), "expected a date and time such as 2026-01-31T09:30:00 or"),
        (
            NaiveDatetime,
            dt.datetime(2026, 1, 31, tzinfo=dt.timezone.utc),
            "expected a date and time without offset",
        ),
        (AwareDatetime, dt.datetime(2026, 1, 31), "expected a date and time with offset"),
        (float, math.nan, "result has no form in JSON: NaN"),
        (list[float], [math.inf], r"result\[0\] has no form in JSON: Infinity"),
        (str, "\ud800", "has no form in JSON"),
        (list[str], ["\ud800"], "has no form in JSON"),
        (dict[str, str], {"\ud800": ""}, "has no form in JSON"),
        (dict[str, Any], {"a": object()}, "has no form in JSON"),
        (Decimal, Decimal("NaN"), "result has no form in JSON: NaN"),
    ],
)
def test_a_value_that_does_not_fit_is_an_error(annotation: Any, value: Any, message: str) -> None:
    with pytest.raises(OutputError, match=message):
        of(annotation).dump(value)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_numbers_that_json_does_not_know_are_null_where_null_fits(value: float) -> None:
    assert of(Optional[float]).dump(value) is None
    assert encode(of(dict[str, Any]).dump({"a": [value]})) == b'{"a":[null]}'


def test_the_schema_is_that_of_what_leaves() -> None:
    schema = of(Reading).schema
    assert list(schema["properties"]) == ["v", "raw", "price", "double"]
    assert schema["properties"]["price"]["type"] == "string"


def test_a_simple_value_is_returned_as_it_is() -> None:
    value = {"a": [1, 2]}
    assert of(dict[str, list[int]]).dump(value) is value


@pytest.mark.parametrize("annotation", [Awaitable[int], Coroutine[Any, Any, int]])
def test_what_is_awaited_is_what_is_promised(annotation: Any) -> None:
    output = Output.of(annotation)
    assert output is not None
    assert output.schema == {"type": "integer"}
