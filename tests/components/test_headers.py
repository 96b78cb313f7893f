"""`Header` and `x-mcp-header`: what a tool may mirror into HTTP headers is settled when it is registered."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from pydantic import AfterValidator, BaseModel, Field
from typing_extensions import TypedDict

from mcpkit import Header, RegistrationError, Server
from mcpkit.testing import connect

KEYWORD = "x-mcp-header"


class Zone(Enum):
    NORTH = "north"
    SOUTH = "south"


class Place(BaseModel):
    region: Annotated[str, Header("Region")]
    zone: Annotated[Zone, Header("Zone")] = Zone.NORTH


@dataclass
class Table:
    name: Annotated[str, Header("Table")]
    place: Place


class Target(TypedDict):
    tenant: Annotated[int, Header("Tenant")]


class Arguments(TypedDict):
    region: Annotated[str, Header("Region")]


class Written(BaseModel):
    region: str = Field(json_schema_extra={KEYWORD: "Region"})


class Tree(BaseModel):
    label: Annotated[str, Header("Label")]
    children: list[Tree] = []


class Optionally(BaseModel):
    region: Annotated[str | None, Header("Region")] = None


@pytest.fixture
def server() -> Server:
    return Server("sql")


def mirrored(server: Server, name: str = "execute") -> dict[bytes, tuple[str, ...]]:
    return {parameter.header: parameter.path for parameter in server.tools[name].mirrored}


def schema_of(server: Server) -> dict[str, Any]:
    schema: dict[str, Any] = server.tools["execute"].listed("2026-07-28")["inputSchema"]
    return schema


@pytest.mark.anyio
async def test_the_listed_schema_names_the_header(server: Server) -> None:
    @server.tool
    def execute(region: Annotated[str, Header("Region")], query: str) -> str:
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


def test_strings_integers_booleans_and_choices_of_them_are_mirrored(server: Server) -> None:
    @server.tool
    def execute(
        region: Annotated[str, "Where", Header("Region")],
        level: Annotated[Literal["low", "high"], Header("Level")],
        tenant: Annotated[int, Field(ge=0), Header("Tenant")] = 0,
        dry: Annotated[bool, Header("Dry-Run")] = False,
        checked: Annotated[str, AfterValidator(str.upper), Header("X~!#$%&'*+.^_`|")] = "",
    ) -> None: ...

    assert mirrored(server) == {
        b"mcp-param-region": ("region",),
        b"mcp-param-level": ("level",),
        b"mcp-param-tenant": ("tenant",),
        b"mcp-param-dry-run": ("dry",),
        b"mcp-param-x~!#$%&'*+.^_`|": ("checked",),
    }
    assert schema_of(server)["properties"]["tenant"] == {
        "type": "integer",
        "minimum": 0,
        KEYWORD: "Tenant",
        "default": 0,
    }


def test_fields_of_models_are_mirrored_by_their_path(server: Server) -> None:
    @server.tool
    def execute(place: Place, table: Annotated[Target, "Where"]) -> None: ...

    assert mirrored(server) == {
        b"mcp-param-region": ("place", "region"),
        b"mcp-param-zone": ("place", "zone"),
        b"mcp-param-tenant": ("table", "tenant"),
    }
    place = schema_of(server)["properties"]["place"]
    assert place["properties"]["region"] == {"type": "string", KEYWORD: "Region"}


def test_models_within_models_are_mirrored(server: Server) -> None:
    @server.tool
    def execute(table: Table) -> None: ...

    assert mirrored(server) == {
        b"mcp-param-table": ("table", "name"),
        b"mcp-param-region": ("table", "place", "region"),
        b"mcp-param-zone": ("table", "place", "zone"),
    }


def test_what_a_model_writes_into_its_schema_counts(server: Server) -> None:
    @server.tool
    def execute(target: Written) -> None: ...

    assert mirrored(server) == {b"mcp-param-region": ("target", "region")}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"region": {"type": "string", KEYWORD: "Region"}}},
        {"region": Annotated[str, Header("Region")]},
        Arguments,
    ],
)
def test_explicit_schemas_are_mirrored(server: Server, schema: Any) -> None:
    @server.tool(input_schema=schema)
    def execute(arguments: dict[str, Any]) -> None: ...

    assert schema_of(server)["properties"]["region"] == {"type": "string", KEYWORD: "Region"}
    assert mirrored(server) == {b"mcp-param-region": ("region",)}


def test_what_only_looks_like_a_mark_is_data(server: Server) -> None:
    """A property of that name, and values: neither marks anything."""
    schema = {
        "type": "object",
        "properties": {
            KEYWORD: {"type": "string"},
            "options": {
                "type": "object",
                "default": {KEYWORD: "Not a mark"},
                "examples": [{KEYWORD: 3}],
                "enum": [{KEYWORD: ""}],
                "const": {KEYWORD: None},
            },
        },
    }

    @server.tool(input_schema=schema)
    def execute(arguments: dict[str, Any]) -> None: ...

    assert server.tools["execute"].mirrored == ()


def test_a_tool_under_another_name_mirrors_the_same(server: Server) -> None:
    inner = Server("inner")

    @inner.tool
    def execute(region: Annotated[str, Header("Region")]) -> None: ...

    server.include(inner, prefix="sql")
    assert mirrored(server, "sql_execute") == {b"mcp-param-region": ("region",)}


@pytest.mark.parametrize(
    ("hint", "default", "message"),
    [
        (Annotated[str, Header("")], ..., "argument 'region': '' is no name of an HTTP header; use letters"),
        (Annotated[str, Header("The Region")], ..., "'The Region' is no name of an HTTP header"),
        (Annotated[str, Header("Region\r\nX")], ..., "is no name of an HTTP header"),
        (Annotated[str, Header("Région")], ..., "is no name of an HTTP header"),
        (Annotated[str, Header("Region\n")], ..., "is no name of an HTTP header"),
        (Annotated[str, Header(7)], ..., "7 is no name of an HTTP header"),  # type: ignore[arg-type] # refused
        (Annotated[float, Header("R")], ..., "'R' cannot carry this type: the text of a number is not exact"),
        (Annotated[str | None, Header("R")], ..., 'may be null; .* own type instead of None, such as `= ""`'),
        (Annotated[int | None, Header("R")], None, "may be null; give it a default .* such as `= 0`"),
        (
            Annotated[str, Header("R")],
            None,
            "marked at `anyOf`.*, and a default of that type instead of None",
        ),
        (Annotated[str, Header("R")] | None, None, "is marked at `anyOf`.*; give it one type, and a default"),
        (Annotated[str | int, Header("R")], ..., "use `str`, `int` or `bool`"),
        (Annotated[Any, Header("R")], ..., "use `str`, `int` or `bool`"),
        (Annotated[list[str], Header("R")], ..., "use `str`, `int` or `bool`"),
        (Annotated[Place, Header("R")], ..., "use `str`, `int` or `bool`"),
        (list[Annotated[str, Header("R")]], ..., "is marked at `items`"),
        (tuple[Annotated[str, Header("R")], int], ..., "is marked at `prefixItems`"),
        (dict[str, Annotated[str, Header("R")]], ..., "is marked at `additionalProperties`"),
        (list[Place], ..., "argument 'region.region': .* is marked at `items`"),
        (Place | None, None, "is marked at `anyOf`"),
        (Tree, ..., "is marked at `\\$defs`"),
        (Optionally, ..., "argument 'region.region': .* may be null"),
    ],
)
def test_a_mark_that_clients_would_refuse_is_refused(
    server: Server, hint: Any, default: Any, message: str
) -> None:
    def execute(region: Any) -> None: ...

    execute.__annotations__["region"] = hint
    if default is not ...:
        execute.__defaults__ = (default,)
    with pytest.raises(RegistrationError, match=f"^execute: .*{message}"):
        server.tool(execute)
    assert len(server.tools) == 0


def test_two_arguments_cannot_share_a_header(server: Server) -> None:
    def execute(region: Annotated[str, Header("Region")], place: Place) -> None: ...

    with pytest.raises(
        RegistrationError,
        match=r"argument 'place.region': the header 'Region' is that of argument 'region' already",
    ):
        server.tool(execute)


def test_names_are_the_same_in_upper_and_lower_case(server: Server) -> None:
    def execute(a: Annotated[str, Header("Region")], b: Annotated[str, Header("REGION")]) -> None: ...

    with pytest.raises(RegistrationError, match="'REGION' is that of argument 'a' already"):
        server.tool(execute)


def test_further_keywords_cannot_be_mirrored(server: Server) -> None:
    def execute(**more: Annotated[str, Header("Region")]) -> None: ...

    with pytest.raises(
        RegistrationError, match="execute: the header 'Region' is marked at `additionalProperties`"
    ):
        server.tool(execute)


REGION = {"type": "string", KEYWORD: "Region"}


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({KEYWORD: "Region"}, "input_schema: the header 'Region' is marked at the root"),
        ({"properties": {"a": {KEYWORD: "Region"}}}, "argument 'a': .* use `str`, `int` or `bool`"),
        ({"properties": {"a": {"type": ["string", "null"], KEYWORD: "R"}}}, 'may be null; .* such as `= ""`'),
        ({"properties": {"a": {"type": ["string"], KEYWORD: "R"}}}, "use `str`, `int` or `bool`"),
        ({"properties": {"a": {"type": "number", KEYWORD: "R"}}}, "not exact"),
        ({"properties": {"a": {"type": "string", KEYWORD: None}}}, "None is no name"),
        ({"patternProperties": {"^a": REGION}}, "is marked at `patternProperties`"),
        ({"properties": {"a": {"items": REGION}}}, "argument 'a': .* is marked at `items`"),
        ({"properties": {"a": {"not": REGION}}}, "is marked at `not`"),
        ({"allOf": [{"properties": {"a": REGION}}]}, "argument 'a': .* is marked at `allOf`"),
        ({"if": {"properties": {"a": REGION}}}, "is marked at `if`"),
        ({"dependentSchemas": {"b": {"properties": {"a": REGION}}}}, "is marked at `dependentSchemas`"),
        ({"properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": REGION}}, r"is marked at `\$defs`"),
        ({"$defs": {"A": {"properties": {"a": REGION}}}}, r"is marked at `\$defs`"),
    ],
)
def test_a_written_schema_is_held_to_the_same_rules(server: Server, schema: Any, message: str) -> None:
    def execute(arguments: dict[str, Any]) -> None: ...

    with pytest.raises(RegistrationError, match=message):
        server.tool(execute, input_schema={"type": "object", **schema})


def test_nested_properties_of_a_written_schema_are_reached(server: Server) -> None:
    place = {"type": "object", "properties": {"region": REGION}, "required": ["region"]}

    @server.tool(input_schema={"type": "object", "properties": {"place": place}})
    def execute(arguments: dict[str, Any]) -> None: ...

    assert mirrored(server) == {b"mcp-param-region": ("place", "region")}


def test_prompts_and_templates_mirror_nothing(server: Server) -> None:
    def ask(region: Annotated[str, Header("Region")]) -> str:
        return region

    with pytest.raises(
        RegistrationError, match=r"prompt 'ask': only the arguments of a tool .* remove Header"
    ):
        server.prompt(ask)
    with pytest.raises(
        RegistrationError, match=r"resource template 'sql://.region.': only the arguments of a tool"
    ):
        server.resource("sql://{region}")(ask)


def test_a_header_shows_how_it_is_written() -> None:
    assert repr(Header("Region")) == "Header('Region')"
