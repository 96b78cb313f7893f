"""Types: the published schema, and the values that are accepted or refused by it."""

# ruff: noqa: UP007, UP045 - the old spellings of unions are tested on purpose
import base64
import binascii
import collections
import datetime as dt
import enum
import json
import math
import typing
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, Optional, Union
from uuid import UUID

import annotated_types as at
import jsonschema_rs
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import AfterValidator, BaseModel, Field, HttpUrl, NaiveDatetime, PastDatetime
from pydantic_core import ValidationError

from mcpkit import Server
from mcpkit._utils.exceptions import ArgumentsError, OutputError, RegistrationError
from mcpkit.protocol.jsonrpc import encode
from mcpkit.schema import Output, patterns_and_formats
from mcpkit.schema.function_signatures import empty
from mcpkit.testing import connect
from tests.helpers import schema_cases as cases
from tests.helpers.schema_cases import Place, Point
from tests.helpers.tables import each_row


@each_row("annotation", [
    typing.Callable[[], int], type, complex, Literal[b"x"], dict[tuple[int, int], int],
    dict[frozenset[int], int],
])  # fmt: skip
def test_type_without_json_form_is_refused_naming_argument(annotation: Any) -> None:
    with pytest.raises(RegistrationError, match=r"f: argument 'value': "):
        cases.arguments_of(annotation)


def test_type_infinite_bound_is_left_out_of_schema() -> None:
    arguments = cases.arguments_of(Annotated[float, at.Le(math.inf)])
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


FORMATS: list[cases.Case] = [
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
    cases.check_type(annotation, schema, accepted, refused)


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
    (cases.Color, {"enum": ["red", "blue"]}, {"red": cases.Color.RED}, ["RED"]),
    (cases.Level, {"enum": ["1", "2"]}, {"1": cases.Level.LOW}, ["3", "LOW"]),
    (cases.Access, {"enum": ["0", "1", "2", "3"]}, {"3": cases.Access.READ | cases.Access.WRITE}, ["4"]),
    (Literal[1, "a", None], {"enum": ["1", "a", "None"]}, {"1": 1, "a": "a", "None": None}, ["2"]),
    (Literal[cases.Color.RED], {"enum": ["red"]}, {"red": cases.Color.RED}, ["blue"]),
    (Decimal, {"pattern": r"^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,4})?$"}, {"1.50": Decimal("1.50")}, ["NaN"]),
    (Path, None, {"/a": Path("/a")}, []),
    (bytes, {"contentEncoding": "base64"}, {"+/8=": b"\xfb\xff"}, ["-_8="]),
    (int | str, None, {"1": 1, "a": "a"}, []), (str | int, None, {"1": 1, "a": "a"}, []),
]  # fmt: skip


@each_row(("key", "names", "accepted", "refused"), KEYS)
def test_object_key_schema_and_conversion(key, names, accepted, refused) -> None:
    arguments = cases.arguments_of(dict[key, int])
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
        cases.arguments_of(annotation).validate({"value": value})


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
    annotation = data.draw(cases.ANNOTATIONS, label="type")
    arguments = cases.arguments_of(annotation)
    value = data.draw(cases.fitting(arguments.schema["properties"]["value"], arguments.schema), label="value")
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
    if cases.holds_json(value) or cases.holds_integer(value):
        return
    with pytest.raises(ArgumentsError, match=r"expected|unknown key|the key is not") as caught:
        arguments.validate({"value": value})
    assert all(problem.field.startswith("value") for problem in caught.value.problems)
    assert "pydantic" not in str(caught.value)


# Results: the schema that a return type publishes, and the JSON that values become


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


class Reading(pydantic.BaseModel):
    value: float = pydantic.Field(alias="v")
    raw: bytes = b""
    price: Decimal = Decimal(0)

    @pydantic.computed_field
    def double(self) -> float:
        return self.value * 2


class Offer(pydantic.BaseModel):
    price: Decimal
    shipping: Decimal | None = None
    tax: Decimal = Decimal("0.5")
    rounded: Annotated[Decimal, pydantic.PlainSerializer(float)] = Decimal("1.5")
    text: Annotated[int, pydantic.PlainSerializer(str)] = 5

    @pydantic.field_serializer("price")
    def _price(self, price):  # type: ignore[no-untyped-def]  # as many are written
        return float(price)

    @pydantic.field_serializer("shipping", mode="wrap", when_used="unless-none")
    def _shipping(self, shipping, write):  # type: ignore[no-untyped-def]
        return f"{write(shipping)} EUR"

    @pydantic.field_serializer("tax")
    def _tax(self, tax: Decimal) -> float:
        return float(tax)


class Pair(pydantic.BaseModel):
    left: int
    right: int

    @pydantic.model_serializer
    def _pair(self):  # type: ignore[no-untyped-def]
        return [self.left, self.right]


class Broken(pydantic.BaseModel):
    picture: Content

    model_config = {"arbitrary_types_allowed": True}


def output_of(annotation: Any) -> Output:
    output = Output.of(annotation)
    assert output is not None
    return output


@each_row("annotation", [
    *(empty, Any, object, None, type(None), bytes, Content, Picture, list[Content], Optional[Content]),
    *(Union[str, Content], tuple[str, Content], list[str | Content], Sequence[Content], list[bytes]),
    *(dict[str, Content], Annotated[Content, "text"], list[Picture], Optional[Picture], Optional[bytes], Pair),
])  # fmt: skip
def test_output_of_content_has_no_schema(annotation: Any) -> None:
    assert Output.of(annotation) is None


def test_output_structure_with_content_field_is_refused() -> None:
    with pytest.raises(RegistrationError, match="Broken"):
        Output.of(Broken)


@each_row(("annotation", "value", "dumped"), [
    (int, 2**70, 2**70), (float, 1, 1), (Optional[str], None, None), (list[int], (1, 2), [1, 2]),
    (Sequence[int], range(2), [0, 1]), (tuple[int, str], (1, "a"), [1, "a"]), (set[int], {1}, [1]),
    (dict[str, Any], {"a": dt.date(2026, 1, 31), "b": {Color.RED}}, {"a": "2026-01-31", "b": ["red"]}),
    (Literal["a"], "a", "a"), (Color, Color.RED, "red"), (Color, "red", "red"), (Path, Path("/a"), "/a"),
    (UUID, UUID(int=0), "00000000-0000-0000-0000-000000000000"), (Decimal, Decimal("1E+3"), "1E+3"),
    (dt.timedelta, dt.timedelta(-1, 0, 1), "-PT23H59M59.999999S"),
    (dt.datetime, dt.datetime(2026, 1, 31), "2026-01-31T00:00:00"),
    (dt.datetime, dt.datetime(2026, 1, 31, tzinfo=dt.timezone.utc), "2026-01-31T00:00:00Z"),
    (Place, {"name": "a"}, {"name": "a"}), (Point, Point(1), [1, 0.0]),
    (list[Station], [Station(1)], [{"id": 1, "since": None}]),
    (Reading, Reading(v=0.5, raw=b"\xff\xfe", price=Decimal("1E+2")),
     {"v": 0.5, "raw": "//4=", "price": "100", "double": 1.0}),
    (Annotated[int, pydantic.PlainSerializer(str, return_type=str)], 5, "5"), (Optional[float], math.nan, None),
    (dict[str, Any], {"a": [math.inf]}, {"a": [None]}),
    # serializers without an annotation
    (list[Offer], [Offer(price=Decimal("2.5"), shipping=Decimal(4))],
     [{"price": 2.5, "shipping": "4 EUR", "tax": 0.5, "rounded": 1.5, "text": "5"}]),
    (Offer, Offer(price=Decimal(2)),
     {"price": 2.0, "shipping": None, "tax": 0.5, "rounded": 1.5, "text": "5"}),
    (dict[str, Pair], {"a": Pair(left=1, right=2)}, {"a": [1, 2]}),
])  # fmt: skip
def test_output_dump(annotation: Any, value: Any, dumped: Any) -> None:
    output = output_of(annotation)
    result = json.loads(encode(output.dump(value)))
    assert result == dumped
    assert type(result) is type(dumped)
    Draft202012Validator(output.schema).validate(result)


@each_row(("annotation", "value", "message"), [
    (int, True, "expected an integer, got true"), (Place, {"name": 1}, "name: expected a string, got 1"),
    (Annotated[int, at.Ge(0)], -1, "expected an integer of at least 0, got -1"),
    (Point, [1, 2, 3], "expected an array of 1 to 2 items"), (Color, "green", 'expected "red", got "green"'),
    (dt.datetime, dt.date(2026, 1, 31), "expected a date and time such as 2026-01-31T09:30:00 or"),
    (pydantic.NaiveDatetime, dt.datetime(2026, 1, 31, tzinfo=dt.timezone.utc),
     "expected a date and time without offset"),
    (pydantic.AwareDatetime, dt.datetime(2026, 1, 31), "expected a date and time with offset"),
    (dict[str, str], {"\ud800": ""}, "cannot be converted to JSON"),
    (Decimal, Decimal("NaN"), "result cannot be converted to JSON: NaN"),
])  # fmt: skip
def test_output_dump_wrong_value_is_refused(annotation: Any, value: Any, message: str) -> None:
    with pytest.raises(OutputError, match=message):
        output_of(annotation).dump(value)


class Day(pydantic.BaseModel):
    high: float = pydantic.Field(alias="highCelsius")


def test_output_dump_has_aliases_of_fields() -> None:
    assert output_of(Day).dump(Day(highCelsius=21.5)) == {"highCelsius": 21.5}


class Thing(pydantic.BaseModel):
    type: str
    cls: int = 1
    extras_schema: str = "none"
    schema_like: dict[str, Any] = {"type": "model", "cls": "Thing"}


@dataclass
class Parcel:
    type: Thing
    more: dict[str, Any] = field(default_factory=lambda: {"type": "dataclass"})


async def test_output_fields_named_like_pydantic_schema_keys() -> None:
    server = Server("things")

    @server.tool
    def echo(box: Parcel) -> Parcel:
        return box

    sent = {"type": {"type": "model"}}
    async with connect(server) as client:
        echoed = await client.call_tool("echo", {"box": sent})
        assert echoed.structured_content == {"type": {"type": "model", "cls": 1, "extras_schema": "none",
            "schema_like": {"type": "model", "cls": "Thing"}},
            "more": {"type": "dataclass"}}, echoed.text  # fmt: skip
        refused = await client.call_tool("echo", {"box": {"type": {"type": True}}})
        assert refused.text == "box.type.type: expected a string, got true"


def test_default_whose_text_raises_is_left_out_of_the_schema() -> None:
    class Large(BaseModel):
        number: int = 10**5000

    output = Output.of(Large)
    assert output is not None
    assert output.schema["properties"] == {"number": {"type": "integer"}}
