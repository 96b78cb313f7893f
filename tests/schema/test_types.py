"""Types: the published schema, and the values that are accepted or refused by it."""

import base64
import binascii
import collections
import datetime as dt
import enum
import json
import math
import typing
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal
from uuid import UUID

import annotated_types as at
import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, Field, HttpUrl, NaiveDatetime, PastDatetime
from pydantic_core import ValidationError

from mcpkit._utils.exceptions import ArgumentsError, OutputError, RegistrationError
from mcpkit.schema import Output, patterns_and_formats
from tests.helpers.schema_cases import (
    ANNOTATIONS,
    Access,
    Case,
    Color,
    arguments_of,
    check_type,
    fitting,
    holds_integer,
    holds_json,
)
from tests.helpers.tables import each_row


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@each_row("annotation", [
    typing.Callable[[], int], type, complex, Literal[b"x"], dict[tuple[int, int], int],
    dict[frozenset[int], int],
])  # fmt: skip
def test_type_without_json_form_is_refused_naming_argument(annotation: Any) -> None:
    with pytest.raises(RegistrationError, match=r"f: argument 'value': "):
        arguments_of(annotation)


def test_type_infinite_bound_is_left_out_of_schema() -> None:
    arguments = arguments_of(Annotated[float, at.Le(math.inf)])
    json.dumps(arguments.schema, allow_nan=False)
    assert arguments.validate({"value": 1}) == {"value": 1.0}


def check_even(value: int) -> int:
    if value % 2:
        raise ValueError("odd numbers are not served")
    return value


UTC = dt.timezone.utc


DATE_TIME = {"type": "string", "format": "date-time"}


LOCAL_DATE_TIME = {"type": "string", "pattern": patterns_and_formats.LOCAL_DATE_TIME}


DECIMAL = {"type": "string", "pattern": r"^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,4})?$"}


FORMATS: list[Case] = [
    (dt.datetime, {"anyOf": [DATE_TIME, LOCAL_DATE_TIME]},
     [("2026-01-31T09:30:00Z", dt.datetime(2026, 1, 31, 9, 30, tzinfo=UTC)),
     ("2026-01-31t09:30:00.25+00:00", dt.datetime(2026, 1, 31, 9, 30, 0, 250000, tzinfo=UTC)),
     ("2026-01-31T09:30:00", dt.datetime(2026, 1, 31, 9, 30)),
     ("2024-02-29T09:30:00.5", dt.datetime(2024, 2, 29, 9, 30, 0, 500000))],
     [*("2026-02-30T09:30:00Z", "2026-02-30T09:30:00", "2023-02-29T09:30:00", "0000-01-01T00:00:00"),
     *("2026-01-31", "2026-01-31 09:30:00", "2026-01-31T09:30", "2026-01-31T24:00:00"),
     *("2026-01-31T09:30:00\n", "1700000000", 1700000000, "now")]),
    (NaiveDatetime, LOCAL_DATE_TIME, [("2026-01-31T09:30:00", dt.datetime(2026, 1, 31, 9, 30))],
     ["2026-01-31T09:30:00Z", "2026-01-31T09:30:00+00:00", "2026-01-31"]),
    (PastDatetime, {"anyOf": [DATE_TIME, LOCAL_DATE_TIME]},
     [("2020-01-31T09:30:00", dt.datetime(2020, 1, 31, 9, 30))],
     ["2999-01-31T09:30:00", "2999-01-31T09:30:00Z"]),
    (Annotated[dt.datetime, Field(gt=dt.datetime(2026, 1, 1))], {"anyOf": [DATE_TIME, LOCAL_DATE_TIME]},
     [("2026-01-31T09:30:00", dt.datetime(2026, 1, 31, 9, 30))], ["2025-01-31T09:30:00"]),
    (dt.time,
     {"anyOf": [{"type": "string", "format": "time"}, {"type": "string", "pattern": patterns_and_formats.LOCAL_TIME}]},
     [("09:30:00Z", dt.time(9, 30, tzinfo=UTC)), ("09:30:00.000001", dt.time(9, 30, 0, 1))],
     ["09:30", "09:30Z", "25:00:00Z", "24:00:00", "09:60:00", 0, "34200"]),
    (dt.timedelta,
     {"anyOf": [{"type": "string", "format": "duration"},
     {"type": "string", "pattern": patterns_and_formats.SIGNED_DURATION}]},
     [("PT1H30M", dt.timedelta(hours=1.5)), ("P1W", dt.timedelta(7)), ("PT0.5S", dt.timedelta(seconds=0.5)),
     ("-P1D", dt.timedelta(-1)), ("-P1DT0.5S", dt.timedelta(-1, -0.5)), ("-P1Y35D", dt.timedelta(-400))],
     ["P", "-P", "PT", "-PT", "P1D-", "--P1D", "1:30:00", "90", 90, "P1H", "PT1.5H", "-P1WT1H"]),
    (Decimal, DECIMAL, [("0.1", Decimal("0.1")), ("-1.50", Decimal("-1.50")), ("1E+3", Decimal("1E+3"))],
     [0.1, True, "NaN", "Infinity", "1_0", " 1", "٣", "1e99999"]),
    (Annotated[Decimal, Field(decimal_places=2)], {"type": "string", "pattern": r"^-?[0-9]+(\.[0-9]{1,2})?$"},
     [("0.25", Decimal("0.25"))], ["0.125", 0.25]),
    (Annotated[bytes, Field(min_length=1, max_length=3)],
     {"type": "string", "contentEncoding": "base64", "minLength": 4, "maxLength": 4}, [("AP8=", b"\x00\xff")],
     ["", "AP8AAAAA", "AP8"]),
    (HttpUrl, {"type": "string", "format": "uri", "pattern": "^(?:http|https):", "maxLength": 2083},
     [("https://example.org/a", HttpUrl("https://example.org/a"))],
     ["ftp://example.org", "example.org", "http://a b", 1]),
    (Annotated[int, at.Ge(0), at.Le(9)], {"type": "integer", "minimum": 0, "maximum": 9}, [(9.0, 9)], [10, -1]),
    (Annotated[float, at.Gt(0), at.Lt(1)], {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
     [(0.5, 0.5)], [0, 1]),
    (Annotated[int, at.MultipleOf(5)], {"type": "integer", "multipleOf": 5}, [(10, 10), (5.0, 5)], [7]),
    (Annotated[str, Field(min_length=1, max_length=3, pattern="^[a-z]*$")],
     {"type": "string", "minLength": 1, "maxLength": 3, "pattern": "^[a-z]*$"}, [("abc", "abc")],
     ["", "abcd", "A", "a\n"]),
    (Annotated[list[int], at.Len(1, 2)],
     {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 2}, [([1], [1])],
     [[], [1, 2, 3]]),
    (Annotated[int, Field(json_schema_extra={"x-unit": "m"}, examples=[1], title="Height")],
     {"type": "integer", "title": "Height", "examples": [1], "x-unit": "m"}, [(1.0, 1)], ["1"]),
    (Annotated[int, AfterValidator(check_even)], {"type": "integer"}, [(2, 2)], [3, "2"]),
    (Annotated[list[Annotated[str, "a name"]], "all names"],
     {"type": "array", "items": {"type": "string", "description": "a name"}, "description": "all names"},
     [(["a"], ["a"])], [[True]]),
]  # fmt: skip


@each_row(("annotation", "schema", "accepted", "refused"), FORMATS)
def test_format_schema_and_conversion(annotation, schema, accepted, refused) -> None:
    check_type(annotation, schema, accepted, refused)


INTEGER = {"pattern": "^-?[0-9]+$"}


UUID_TEXT = "123e4567-e89b-12d3-a456-426614174000"


KEYS: list[tuple[Any, Any, dict[str, Any], list[str]]] = [
    # the type of the keys, `propertyNames`, names with the keys that they become, names that are refused
    (int, INTEGER, {"5": 5, "-1": -1}, ["5.0", "a", "", "٣", "1\n", " 1"]),
    (float, {"pattern": r"^-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?$"}, {"0.5": 0.5, "1e+300": 1e300}, ["nan", "inf"]),
    (bool, {"enum": ["true", "false"]}, {"true": True, "false": False}, ["True", "1"]),
    (int | None, {"anyOf": [{"type": "string", **INTEGER}, {"type": "string", "enum": ["None"]}]},
     {"1": 1, "None": None}, ["null", ""]),
    (UUID, {"format": "uuid"}, {UUID_TEXT: UUID(UUID_TEXT)}, ["x"]),
    (dt.date, {"format": "date"}, {"2026-01-31": dt.date(2026, 1, 31)}, ["2026-02-30", "1"]),
    (dt.datetime, {"anyOf": [{"type": "string", "format": "date-time"},
                             {"type": "string", "pattern": patterns_and_formats.LOCAL_DATE_TIME}]},
     {"2026-01-31T00:00:00": dt.datetime(2026, 1, 31)}, ["2026-01-31"]),
    (Color, {"enum": ["red", "blue"]}, {"red": Color.RED}, ["RED"]),
    (Level, {"enum": ["1", "2"]}, {"1": Level.LOW}, ["3", "LOW"]),
    (Access, {"enum": ["0", "1", "2", "3"]}, {"3": Access.READ | Access.WRITE}, ["4"]),
    (Literal[1, "a", None], {"enum": ["1", "a", "None"]}, {"1": 1, "a": "a", "None": None}, ["2"]),
    (Literal[Color.RED], {"enum": ["red"]}, {"red": Color.RED}, ["blue"]),
    (Decimal, {"pattern": r"^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,4})?$"}, {"1.50": Decimal("1.50")}, ["NaN"]),
    (Path, None, {"/a": Path("/a")}, []),
    (bytes, {"contentEncoding": "base64"}, {"+/8=": b"\xfb\xff"}, ["-_8="]),
    (int | str, None, {"1": 1, "a": "a"}, []), (str | int, None, {"1": 1, "a": "a"}, []),
]  # fmt: skip


@each_row(("key", "names", "accepted", "refused"), KEYS)
def test_object_key_schema_and_conversion(key, names, accepted, refused) -> None:
    arguments = arguments_of(dict[key, int])
    assert arguments.schema["properties"]["value"].get("propertyNames") == names
    sent = dict.fromkeys(accepted, 0)
    read = arguments.validate({"value": sent})["value"]
    assert read == dict.fromkeys(accepted.values(), 0)
    assert list(map(type, read)) == list(map(type, accepted.values()))
    output = Output.of(dict[key, int])
    if output is not None:  # bytes are content
        assert output.dump(read) == sent
    for name in refused:
        with pytest.raises(ArgumentsError, match="the key is not"):
            arguments.validate({"value": {name: 0}})


@each_row(("annotation", "value", "message"), [
    (dict[int, str], {"7": "a", "07": "b"}, '"7" and "07" are the same value'),
    (dict[str, collections.Counter[int]], {"a": {"1": 1, "01": 2}}, 'a: the keys "1" and "01" are the same'),
    (dict[float, str], {"1": "a", "1.0": "b"}, '"1" and "1.0" are the same value'),
    (dict[UUID, int], {UUID_TEXT: 1, UUID_TEXT.upper(): 2}, "are the same value"),
])  # fmt: skip
def test_object_key_two_names_of_one_key_are_refused(annotation: Any, value: Any, message: str) -> None:
    with pytest.raises(ArgumentsError, match=message):
        arguments_of(annotation).validate({"value": value})


class Open(BaseModel, extra="allow"):
    """Takes any field more."""


@each_row("value", [Open(more={1: "a", "1": "b"}), Open(more={"inner": {True: 1, "true": 2}})])
def test_object_key_two_keys_of_one_name_are_refused_in_result(value: Open) -> None:
    output = Output.of(Open)
    assert output is not None
    with pytest.raises(OutputError, match="more"):
        output.dump(value)


def is_base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


@given(st.data())
def test_type_validator_agrees_with_published_schema(data: st.DataObject) -> None:
    annotation = data.draw(ANNOTATIONS, label="type")
    arguments = arguments_of(annotation)
    value = data.draw(fitting(arguments.schema["properties"]["value"], arguments.schema), label="value")
    # Validators ignore `contentEncoding`, but not formats.
    text = json.dumps(arguments.schema).replace('"contentEncoding": "base64"', '"format": "base64"')
    validator = jsonschema_rs.Draft202012Validator(
        json.loads(text), formats={"base64": is_base64}, validate_formats=True
    )
    if validator.is_valid({"value": value}):
        assert arguments.validate({"value": value}).keys() == {"value"}
        return
    with pytest.raises(ValidationError):
        arguments._validator.validate_python({"value": value}, by_alias=True, by_name=False)
    if holds_json(value) or holds_integer(value):
        return
    with pytest.raises(ArgumentsError, match=r"expected|unknown key|the key is not") as caught:
        arguments.validate({"value": value})
    assert all(problem.field.startswith("value") for problem in caught.value.problems)
    assert "pydantic" not in str(caught.value)
