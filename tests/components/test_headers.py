"""`ParamHeader` and `x-mcp-header`: arguments of tools that clients mirror into HTTP headers."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Any

import pytest
from pydantic import BaseModel
from typing_extensions import TypedDict

from mcpkit import RegistrationError, Server
from mcpkit.extensions import ParamHeader
from mcpkit.testing import connect
from tests.helpers.tables import each_row

KEYWORD = "x-mcp-header"


class Zone(Enum):
    NORTH = "north"
    SOUTH = "south"


class Place(BaseModel):
    region: Annotated[str, ParamHeader("Region")]
    zone: Annotated[Zone, ParamHeader("Zone")] = Zone.NORTH


class Arguments(TypedDict):
    region: Annotated[str, ParamHeader("Region")]


class Tree(BaseModel):
    label: Annotated[str, ParamHeader("Label")]
    children: list[Tree] = []


class Optionally(BaseModel):
    region: Annotated[str | None, ParamHeader("Region")] = None


@pytest.fixture
def server() -> Server:
    return Server("sql")


def mirrored(server: Server, name: str = "execute") -> dict[bytes, tuple[str, ...]]:
    return {parameter.header: parameter.path for parameter in server.catalog.tools[name].mirrored}


def schema_of(server: Server) -> dict[str, Any]:
    schema: dict[str, Any] = server.catalog.tools["execute"].listed("2026-07-28")["inputSchema"]
    return schema


@pytest.mark.anyio
async def test_header_is_published_in_schema(server: Server) -> None:
    @server.tool
    def execute(region: Annotated[str, ParamHeader("Region")], query: str) -> str:
        """Execute SQL.

        Args:
            region: Where to execute it.
            query: What to execute.
        """
        return query

    async with connect(server) as client:
        (tool,) = (await client.request("tools/list"))["tools"]
    assert tool["inputSchema"]["properties"] == {
        "region": {"type": "string", KEYWORD: "Region", "description": "Where to execute it."},
        "query": {"type": "string", "description": "What to execute."},
    }
    assert mirrored(server) == {b"mcp-param-region": ("region",)}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"region": {"type": "string", KEYWORD: "Region"}}},
        {"region": Annotated[str, ParamHeader("Region")]}, Arguments,
    ],
)  # fmt: skip
def test_header_of_explicit_schemas(server: Server, schema: Any) -> None:
    @server.tool(input_schema=schema)
    def execute(arguments: dict[str, Any]) -> None: ...

    assert schema_of(server)["properties"]["region"] == {"type": "string", KEYWORD: "Region"}
    assert mirrored(server) == {b"mcp-param-region": ("region",)}


@each_row(
    ("hint", "default", "message"),
    [
        (
            Annotated[str, ParamHeader("")],
            ...,
            "argument 'region': '' is not a valid HTTP header name; use letters",
        ),
        (Annotated[str, ParamHeader("The Region")], ..., "'The Region' is not a valid HTTP header name"),
        (Annotated[str, ParamHeader("Region\n")], ..., "is not a valid HTTP header name"),
        (Annotated[str, ParamHeader(7)], ..., "7 is not a valid HTTP header name"),  # type: ignore[arg-type] # refused
        (
            Annotated[float, ParamHeader("R")],
            ...,
            "'R' does not support this type: the text of a number is not exact",
        ),
        (
            Annotated[str | None, ParamHeader("R")],
            ...,
            'may be null; .* own type instead of None, such as `= ""`',
        ),
        (Annotated[int | None, ParamHeader("R")], None, "may be null; give it a default .* such as `= 0`"),
        (
            Annotated[str, ParamHeader("R")],
            None,
            "set at `anyOf`.*, and a default of that type instead of None",
        ),
        (
            Annotated[str, ParamHeader("R")] | None,
            None,
            "is set at `anyOf`.*; use one type, and a default",
        ),
        (Annotated[str | int, ParamHeader("R")], ..., "use `str`, `int` or `bool`"),
        (list[Annotated[str, ParamHeader("R")]], ..., "is set at `items`"),
        (tuple[Annotated[str, ParamHeader("R")], int], ..., "is set at `prefixItems`"),
        (dict[str, Annotated[str, ParamHeader("R")]], ..., "is set at `additionalProperties`"),
        (list[Place], ..., "argument 'region.region': .* is set at `items`"),
        (Place | None, None, "is set at `anyOf`"),
        (Tree, ..., "is set at `\\$defs`"),
        (Optionally, ..., "argument 'region.region': .* may be null"),
    ],
)
def test_header_wrong_mark_is_refused(server: Server, hint: Any, default: Any, message: str) -> None:
    def execute(region: Any) -> None: ...

    execute.__annotations__["region"] = hint
    if default is not ...:
        execute.__defaults__ = (default,)
    with pytest.raises(RegistrationError, match=f"^execute: .*{message}"):
        server.tool(execute)
    assert len(server.catalog.tools) == 0


REGION = {"type": "string", KEYWORD: "Region"}


@each_row(
    ("schema", "message"),
    [
        ({KEYWORD: "Region"}, "input_schema: the header 'Region' is set at the root"),
        ({"properties": {"a": {KEYWORD: "Region"}}}, "argument 'a': .* use `str`, `int` or `bool`"),
        ({"properties": {"a": {"type": ["string", "null"], KEYWORD: "R"}}}, 'may be null; .* such as `= ""`'),
        ({"properties": {"a": {"type": ["string"], KEYWORD: "R"}}}, "use `str`, `int` or `bool`"),
        ({"properties": {"a": {"type": "number", KEYWORD: "R"}}}, "not exact"),
        ({"properties": {"a": {"type": "string", KEYWORD: None}}}, "None is not a valid HTTP header name"),
        ({"patternProperties": {"^a": REGION}}, "is set at `patternProperties`"),
        ({"properties": {"a": {"items": REGION}}}, "argument 'a': .* is set at `items`"),
        ({"properties": {"a": {"not": REGION}}}, "is set at `not`"),
        ({"allOf": [{"properties": {"a": REGION}}]}, "argument 'a': .* is set at `allOf`"),
        ({"if": {"properties": {"a": REGION}}}, "is set at `if`"),
        ({"dependentSchemas": {"b": {"properties": {"a": REGION}}}}, "is set at `dependentSchemas`"),
        ({"properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": REGION}}, r"is set at `\$defs`"),
        ({"$defs": {"A": {"properties": {"a": REGION}}}}, r"is set at `\$defs`"),
    ],
)
def test_header_wrong_mark_in_explicit_schema_is_refused(server: Server, schema: Any, message: str) -> None:
    def execute(arguments: dict[str, Any]) -> None: ...

    with pytest.raises(RegistrationError, match=message):
        server.tool(execute, input_schema={"type": "object", **schema})
