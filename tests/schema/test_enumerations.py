"""Members of an Enum are the JSON of their values, whatever these are; where they have none, registration says so."""

from __future__ import annotations

import datetime as dt
import enum
import operator
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from mcpkit import RegistrationError, Server
from mcpkit.testing import connect

pytestmark = pytest.mark.anyio


class Paint(enum.Enum):
    RED = (255, 0, 0)
    BLUE = (0, 0, 255)


class Term(enum.Enum):
    SHORT = dt.timedelta(days=1)
    LONG = dt.timedelta(days=30)


class Operation(enum.Enum):
    ADD = (operator.add,)


class Wall(BaseModel):
    paint: Paint
    dries: Term = Term.SHORT


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_an_argument_is_a_member_by_the_json_of_its_value(revision: str) -> None:
    server = Server("walls")
    received: list[Any] = []

    @server.tool
    def paint(wall: Wall, paint: Paint, term: Term, first: Literal[Paint.RED, Term.LONG]) -> dict[Term, Wall]:
        """Paint a wall."""
        received.extend((wall, paint, term, first))
        return {term: wall}

    async with connect(server, revision=revision) as client:
        (tool,) = await client.list_tools()
        result = await client.call(
            "paint",
            {"wall": {"paint": [0, 0, 255]}, "paint": [255, 0, 0], "term": "P30D", "first": [255, 0, 0]},
        )
        refused = await client.call(
            "paint", {"wall": {"paint": [1]}, "paint": [255, 0, 0], "term": "P30D", "first": "P30D"}
        )
    assert received == [Wall(paint=Paint.BLUE), Paint.RED, Term.LONG, Paint.RED]
    assert result.structured == {"P30D": {"paint": [0, 0, 255], "dries": "P1D"}}
    paints = [[255, 0, 0], [0, 0, 255]]
    assert tool["inputSchema"]["properties"]["paint"] == {"type": "array", "enum": paints, "items": {}}
    assert tool["inputSchema"]["properties"]["term"] == {"type": "string", "enum": ["P1D", "P30D"]}
    assert refused.is_error
    assert "wall.paint" in refused.text


def test_a_tuple_is_no_key() -> None:
    def count(walls: dict[Paint, int]) -> None:
        """Count walls."""

    with pytest.raises(RegistrationError, match=r"argument 'walls': .* has no form in JSON"):
        Server("walls").tool(count)


@pytest.mark.parametrize("annotation", [Operation, list[Operation], dict[str, Operation]])
def test_a_value_without_form_is_told_at_registration(annotation: Any) -> None:
    def apply(operation: Any) -> None:
        """Apply an operation."""

    apply.__annotations__ = {"operation": annotation}
    with pytest.raises(
        RegistrationError, match=r"the value of Operation\.ADD is .*, which has no form in JSON"
    ):
        Server("sums").tool(apply)
