"""What an author says of a class: what its values are in JSON."""

from __future__ import annotations

import datetime as dt
import enum
import json
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, NamedTuple

import attrs
import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from mcpkit import ArgumentsError, RegistrationError, Server, json_type
from mcpkit.content import foreign
from mcpkit.protocol.revisions import LATEST, LATEST_HANDSHAKE
from mcpkit.schema import declared as declarations
from mcpkit.testing import connect
from tests.helpers.structures import arguments_of

pytestmark = pytest.mark.anyio


class Money:
    """A class of somebody else."""

    def __init__(self, amount: Decimal, currency: str) -> None:
        self.amount = amount
        self.currency = currency

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Money) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]


def parse(text: str) -> Money:
    """Make money of a text."""
    amount, _, currency = text.partition(" ")
    if currency not in {"EUR", "USD"}:
        raise ValueError(f"there is no currency {currency}; use EUR or USD")
    return Money(Decimal(amount), currency)


json_type(
    Money,
    schema={"type": "string", "pattern": "^[0-9]+ [A-Z]{3}$"},
    encode=lambda money: f"{money.amount} {money.currency}",
    decode=parse,
)
MONEY = {"type": "string", "pattern": "^[0-9]+ [A-Z]{3}$"}


class Spot(TypedDict):
    lat: float
    since: dt.date


@json_type(
    schema=Spot,
    encode=lambda place: {"lat": place.lat, "since": place.since},
    decode=lambda spot: Place(**spot),
)
@dataclass
class Place:
    lat: float
    since: dt.date


@json_type(
    schema={"type": "integer"}, encode=lambda level: level.value * 10, decode=lambda tens: Level(tens // 10)
)
class Level(enum.Enum):
    LOW = 1
    HIGH = 2


@json_type(schema={"type": "string"}, encode=lambda _: "seen")
class Seen:
    """Clients only get it."""


json_type(  # a class of C, which takes no attributes
    slice,
    schema={"type": "array", "items": {"$ref": "#/$defs/end"}, "$defs": {"end": {"type": "integer"}}},
    encode=lambda part: [part.start, part.stop],
    decode=lambda ends: slice(*ends),
)


class Order(BaseModel):
    price: Money
    place: Place | None = None


@dataclass
class Bill:
    price: Money
    part: slice


class Typed(TypedDict):
    price: Money


class Named(NamedTuple):
    price: Money


@attrs.define
class Attrs:
    price: Money


PRICE = "12 EUR"
SPOT = {"lat": 1.5, "since": "2026-07-28"}
PLACES: list[tuple[Any, Any]] = [
    (Money, PRICE),
    (Place, SPOT),
    (Level, 20),
    (dict[str, Level], {"a": 10}),
    (slice, [1, 2]),
    (list[Money], [PRICE]),
    (dict[str, Money], {"a": PRICE}),
    (Money | None, PRICE),
    (Money | int, PRICE),
    (tuple[Money, Place], [PRICE, SPOT]),
    (Annotated[Money, "What it costs"], PRICE),
    (Order, {"price": PRICE, "place": SPOT}),
    (list[Order], [{"price": PRICE, "place": None}]),
    (Bill, {"price": PRICE, "part": [1, 2]}),
    (Typed, {"price": PRICE}),
    (Named, [PRICE]),
    (Attrs, {"price": PRICE}),
]


def echo(annotation: Any) -> Callable[..., Any]:
    """Return a tool that returns what it takes."""

    def same(value: Any) -> Any:
        return value

    same.__annotations__ = {"value": annotation, "return": annotation}
    return same


@pytest.mark.parametrize("revision", [LATEST_HANDSHAKE, LATEST])
@pytest.mark.parametrize(("annotation", "data"), PLACES)
async def test_a_declared_class_works_wherever_a_type_stands(
    annotation: Any, data: Any, revision: str
) -> None:
    server = Server("declared")
    server.tool(echo(annotation))
    async with connect(server, revision=revision) as client:
        result = await client.call("same", {"value": data})
    assert not result.is_error, result.text
    assert result.structured in (data, {"result": data})


@pytest.mark.parametrize(("annotation", "data"), PLACES)
async def test_it_goes_out_within_results_of_which_nothing_is_said(annotation: Any, data: Any) -> None:
    def within(value: Any) -> Any:
        return {"within": [value]}

    within.__annotations__ = {"value": annotation}
    server = Server("declared")
    server.tool(within)
    async with connect(server) as client:
        result = await client.call("within", {"value": data})
    assert result.structured == {"within": [data]}


def test_both_sides_publish_its_schema() -> None:
    server = Server("declared")
    tool = server.tool(name="same")(echo(Order))
    assert tool is not None
    expected = {
        "anyOf": [
            {
                "type": "object",
                "properties": {"lat": {"type": "number"}, "since": {"type": "string", "format": "date"}},
                "required": ["lat", "since"],
            },
            {"type": "null"},
        ],
        "default": None,
    }
    order = arguments_of(Order).schema["properties"]["value"]
    assert order["properties"] == {"price": MONEY, "place": expected}
    assert arguments_of(slice).schema["properties"]["value"] == {
        "type": "array",
        "items": {"type": "integer"},
    }


@pytest.mark.parametrize(
    ("annotation", "sent", "message"),
    [
        (Money, "12 GBP", "^value: there is no currency GBP; use EUR or USD$"),
        (Money, "12", "^value: expected a string that matches"),
        (Money, 12, "^value: expected a string"),
        (Order, {"price": "12 GBP"}, r"^value\.price: there is no currency GBP"),
        (list[Money], [PRICE, "1 GBP"], r"^value\[1\]: there is no currency GBP"),
        (Place, {"lat": 1}, r"^value\.since: "),
        (Level, 50, "^value: 5 is not a valid Level"),
    ],
)
def test_what_cannot_be_decoded_is_told_with_its_place(annotation: Any, sent: Any, message: str) -> None:
    with pytest.raises(ArgumentsError, match=message):
        arguments_of(annotation).validate({"value": sent})


def test_without_decode_it_is_for_results_only() -> None:
    def look() -> Seen:
        """Look."""
        return Seen()

    def show(seen: Seen) -> None:
        """Show."""

    server = Server("declared")
    server.tool(look)
    with pytest.raises(
        RegistrationError, match="'seen': Seen is for results only; give its json_type a decode="
    ):
        server.tool(show)


def test_pydantic_is_told_as_well() -> None:
    order = Order.model_validate({"price": PRICE})
    assert order.price == Money(Decimal(12), "EUR")
    assert Order(price=order.price).model_dump_json() == json.dumps(
        {"price": PRICE, "place": None}, separators=(",", ":")
    )
    assert Order.model_json_schema()["properties"]["price"] == {**MONEY, "title": "Price"}


def test_a_derived_class_goes_out_and_does_not_come_in() -> None:
    class Gold(Money):
        """Derived."""

    server = Server("declared")
    with pytest.raises(RegistrationError, match="Gold has no form in JSON"):
        server.tool(echo(Gold))
    assert foreign.encoder(Gold) is not None


@pytest.fixture
def fresh() -> type:
    class Fresh:
        """Not declared yet."""

    return Fresh


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"schema": {"type": "strin"}}, r"json_type\(.*Fresh\): schema: not a valid JSON Schema at type"),
        ({"schema": {"$ref": "#/$defs/x"}}, r"schema: a \$ref leads nowhere"),
        ({"schema": {"type": "string"}, "encode": None}, "encode= and decode= take functions"),
        ({"schema": {"type": "string"}, "decode": 1}, "encode= and decode= take functions"),
        (
            {
                "schema": {
                    "$ref": "#/$defs/node",
                    "$defs": {"node": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
                }
            },
            "it refers to definitions that contain themselves",
        ),
    ],
)
def test_a_declaration_is_checked_when_it_is_given(fresh: type, options: Any, message: str) -> None:
    with pytest.raises(RegistrationError, match=message):
        json_type(fresh, **{"encode": str, **options})
    assert declarations.declared(fresh) is None


@pytest.mark.parametrize(
    ("cls", "message"),
    [
        ("Money", "json_type takes a class, not 'Money'"),
        (int, "what it is in JSON is fixed"),
        (Order, "pydantic knows it; say there what it is"),
    ],
)
def test_only_a_class_that_has_no_form_yet_is_given_one(cls: Any, message: str) -> None:
    with pytest.raises(RegistrationError, match=message):
        json_type(cls, schema={"type": "string"}, encode=str)


def test_a_schema_with_any_keyword_is_held() -> None:
    class Even:
        """An even number."""

    json_type(Even, schema={"not": {"type": "string"}}, encode=int, decode=lambda number: number)
    assert arguments_of(Even).validate({"value": 2}) == {"value": 2}
    with pytest.raises(ArgumentsError, match="value: "):
        arguments_of(Even).validate({"value": "2"})


def test_a_type_gives_the_schema_with_all_that_it_says() -> None:
    class Short:
        """A short text."""

    json_type(Short, schema=Annotated[str, Field(max_length=3)], encode=str, decode=lambda text: text)
    assert arguments_of(Short).schema["properties"]["value"] == {"type": "string", "maxLength": 3}
