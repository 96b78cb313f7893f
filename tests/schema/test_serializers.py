"""What an author's own serialisers write arrives, and the published schema promises no more than they do."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any

import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel, PlainSerializer, field_serializer, model_serializer

from mcpkit import Server
from mcpkit.testing import connect

pytestmark = pytest.mark.anyio


class Offer(BaseModel):
    price: Decimal
    shipping: Decimal | None = None
    tax: Decimal = Decimal("0.5")
    rounded: Annotated[Decimal, PlainSerializer(float)] = Decimal("1.5")
    text: Annotated[int, PlainSerializer(str)] = 5

    @field_serializer("price")
    def _price(self, price):  # type: ignore[no-untyped-def]  # as many are written
        return float(price)

    @field_serializer("shipping", mode="wrap", when_used="unless-none")
    def _shipping(self, shipping, write):  # type: ignore[no-untyped-def]
        return f"{write(shipping)} EUR"

    @field_serializer("tax")
    def _tax(self, tax: Decimal) -> float:
        return float(tax)


class Pair(BaseModel):
    left: int
    right: int

    @model_serializer
    def _pair(self):  # type: ignore[no-untyped-def]
        return [self.left, self.right]


CASES: list[tuple[Any, Any, Any]] = [
    (
        Offer,
        Offer(price=Decimal("2.5"), shipping=Decimal(4)),
        {"price": 2.5, "shipping": "4 EUR", "tax": 0.5, "rounded": 1.5, "text": "5"},
    ),
    (
        list[Offer],
        [Offer(price=Decimal(2))],
        [{"price": 2.0, "shipping": None, "tax": 0.5, "rounded": 1.5, "text": "5"}],
    ),
    (dict[str, Pair], {"a": Pair(left=1, right=2)}, {"a": [1, 2]}),
    (Pair, Pair(left=1, right=2), [1, 2]),
]


@pytest.mark.parametrize(("annotation", "value", "data"), CASES)
async def test_what_a_serialiser_without_annotation_writes_arrives(
    annotation: Any, value: Any, data: Any
) -> None:
    server = Server("offers")

    def find() -> Any:
        """Find offers."""
        return value

    find.__annotations__ = {"return": annotation}
    server.tool(find)
    async with connect(server) as client:
        (tool,) = await client.list_tools()
        result = await client.call("find")
    assert not result.is_error, result.text
    assert result.structured == data
    Draft202012Validator(tool.get("outputSchema", {})).validate(result.structured)


async def test_the_schema_says_what_is_known_of_each() -> None:
    server = Server("offers")

    @server.tool
    def find() -> Offer:
        """Find an offer."""
        return Offer(price=Decimal(2))

    async with connect(server) as client:
        (tool,) = await client.list_tools()
    properties = tool["outputSchema"]["properties"]
    assert properties["price"] == {}
    assert [properties[name]["type"] for name in ("tax", "rounded", "text")] == ["number", "number", "string"]
