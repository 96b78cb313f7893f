"""`output_schema=`: what a tool promises, in place of its return annotation."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import pytest

from mcpkit import Image, RegistrationError, Server, ToolResult
from mcpkit.protocol.revisions import LATEST, LATEST_HANDSHAKE
from mcpkit.testing import connect

pytestmark = pytest.mark.anyio

FORECAST = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "degrees": {"type": "array", "items": {"$ref": "#/$defs/degree"}},
    },
    "required": ["city", "degrees"],
    "additionalProperties": False,
    "$defs": {"degree": {"type": "number", "minimum": -90, "maximum": 60}},
}
EVEN = {"type": "object", "properties": {"n": {"multipleOf": 2}}, "not": {"required": ["m"]}}
"""Needs more than the validator in Rust knows."""


async def call(output_schema: Any, value: Any, revision: str = LATEST) -> tuple[Any, Any]:
    """Return the published schema of a tool that promises something and returns a value, and its result."""
    server = Server("promises")

    @server.tool(output_schema=output_schema)
    def look() -> Any:
        return value

    async with connect(server, revision=revision) as client:
        (tool,) = await client.list_tools()
        return tool.get("outputSchema"), await client.call("look")


@pytest.mark.parametrize("revision", [LATEST_HANDSHAKE, LATEST])
@pytest.mark.parametrize("schema", [FORECAST, EVEN])
async def test_a_schema_is_published_as_it_is_written(schema: Any, revision: str) -> None:
    value = {"city": "Rome", "degrees": [20.5]} if schema is FORECAST else {"n": 4}
    published, result = await call(schema, value, revision)
    assert published == schema
    assert result.structured == value


@pytest.mark.parametrize(
    ("schema", "value", "message"),
    [
        (FORECAST, {"city": "Rome"}, r"the tool ran, but result\.degrees: expected an array.*missing"),
        (
            FORECAST,
            {"city": "Rome", "degrees": [99]},
            r"result\.degrees\[0\]: expected a number from -90 to 60, got 99",
        ),
        (FORECAST, {"city": "Rome", "degrees": [], "x": 1}, r"result\.x: unknown"),
        (FORECAST, None, "result: expected an object, got null"),
        (EVEN, {"n": 3}, r"result\.n: "),
        (EVEN, {"m": 2}, "result: .*does not fit"),
    ],
)
async def test_a_result_is_held_against_it(schema: Any, value: Any, message: str) -> None:
    _, result = await call(schema, value)
    assert result.is_error
    assert result.structured is None
    assert re.search(message, result.text), result.text


async def test_a_root_that_is_no_object_stands_within_one_where_there_are_only_objects() -> None:
    schema = {"type": "array", "items": {"$ref": "#/$defs/n"}, "$defs": {"n": {"type": "integer"}}}
    published, result = await call(schema, [1], LATEST)
    assert (published, result.structured) == (schema, [1])
    published, result = await call(schema, [1], LATEST_HANDSHAKE)
    assert published == {
        "type": "object",
        "properties": {"result": {"type": "array", "items": {"$ref": "#/$defs/n"}}},
        "required": ["result"],
        "$defs": {"n": {"type": "integer"}},
    }
    assert result.structured == {"result": [1]}


@dataclass
class Forecast:
    city: str
    degrees: list[float]


@pytest.mark.parametrize("value", [Forecast("Rome", [1.5]), {"city": "Rome", "degrees": [1.5]}])
async def test_a_type_says_more_than_the_annotation(value: Any) -> None:
    published, result = await call(Forecast, value)
    assert published["required"] == ["city", "degrees"]
    assert result.structured == {"city": "Rome", "degrees": [1.5]}
    _, refused = await call(Forecast, {"city": "Rome"})
    assert refused.is_error


async def test_whatever_has_a_form_in_json_may_be_returned() -> None:
    _, result = await call({"type": "array", "items": {"type": "integer"}}, range(2))
    assert result.structured == [0, 1]


async def test_content_and_data_may_be_told_apart() -> None:
    data = {"city": "Rome", "degrees": []}
    _, result = await call(FORECAST, ToolResult("Nothing is known.", structured=data))
    assert (result.text, result.structured) == ("Nothing is known.", data)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"output_schema": {"type": "objekt"}},
            "tool 'look': output_schema: not a valid JSON Schema at type",
        ),
        ({"output_schema": {"$ref": "#/$defs/x"}}, "output_schema: a \\$ref leads nowhere"),
        (
            {"output_schema": {"type": "array", "items": {"$ref": "#"}}},
            "\\$ref '#' leads elsewhere; put what it names under `\\$defs`",
        ),
        ({"output_schema": "Report"}, "'Report' is neither a JSON Schema as a dict nor a type"),
        ({"output_schema": [int]}, "is neither a JSON Schema as a dict nor a type"),
        ({"output_schema": Image}, "promises no data"),
        ({"output_schema": Any}, "promises no data"),
        ({"output_schema": FORECAST, "structured": False}, "structured=False sends none; leave one out"),
    ],
)
def test_it_is_checked_when_it_is_given(options: Any, message: str) -> None:
    def look() -> None:
        """Look."""

    with pytest.raises(RegistrationError, match=message):
        Server("promises").tool(look, **options)
