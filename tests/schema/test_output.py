"""Results: the schema that a return type publishes, and the JSON that values become."""

# ruff: noqa: UP007, UP045 - the old spellings of unions are tested on purpose
import datetime as dt
import enum
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, Optional, Union
from uuid import UUID

import annotated_types as at
import pydantic
import pytest
from jsonschema import Draft202012Validator

from mcpkit import Server
from mcpkit._utils.exceptions import OutputError, RegistrationError
from mcpkit.protocol.jsonrpc import encode
from mcpkit.schema import Output
from mcpkit.schema.function_signatures import empty
from mcpkit.testing import connect
from tests.helpers.schema_cases import Place, Point
from tests.helpers.tables import each_row


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
