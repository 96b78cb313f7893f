"""Fields with the names of JSON Schema keywords: they register, their references resolve, and calls round-trip."""

import asyncio
import dataclasses
import json
import keyword
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jsonschema_rs
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field, create_model
from typing_extensions import NotRequired, TypedDict

from mcpkit import Context, Server
from mcpkit.cli.checking.finding import Looked
from mcpkit.cli.checking.rules.catalogue import findings
from mcpkit.client.contract.surface import Surface
from mcpkit.client.contract.verdict import Effect, of_input
from mcpkit.client.tools.schemas import ServerSchema
from mcpkit.schema import explicit
from mcpkit.testing import connect

KEYWORDS = """
$anchor $comment $defs $dynamicAnchor $dynamicRef $id $ref $schema $vocabulary additionalItems additionalProperties
allOf anyOf const contains contentEncoding contentMediaType contentSchema default definitions dependencies
dependentRequired dependentSchemas deprecated description discriminator else enum examples exclusiveMaximum
exclusiveMinimum format if items maxContains maxItems maxLength maxProperties maximum minContains minItems minLength
minProperties minimum multipleOf not nullable oneOf pattern patternProperties prefixItems properties propertyNames
readOnly required then title type unevaluatedItems unevaluatedProperties uniqueItems writeOnly xml
"""


IDENTIFIERS = [name for name in KEYWORDS.split() if name.isidentifier() and not keyword.iskeyword(name)]


class Color(BaseModel):
    name: str = "red"
    default: Literal["a", "b"] = "a"


class Tree(BaseModel):
    enum: list["Tree"] = []


COLOR = {"name": "blue", "default": "b"}


TREE = {"enum": [{"enum": []}]}


FIELDS: dict[str, tuple[Any, Any, Any]] = {
    # a type, a value of it, and what is none
    "text": (str, "x", [1]), "choice": (Literal["x", "y"], "y", "z"), "model": (Color, COLOR, {"name": 5.5}),
    "models": (list[Color], [COLOR, COLOR], [{"default": "c"}]),
    "optional": (Color | None, COLOR, {"name": 5.5}),
    "map": (dict[str, Color], {"items": COLOR, "$ref": COLOR}, {"a": {"name": 5.5}}),
    "pair": (tuple[Color, int], [COLOR, 5], [COLOR]), "recursive": (Tree, TREE, {"enum": [{"enum": 5.5}]}),
}  # fmt: skip


FLAT = ("text", "choice")
"""Types that a form can ask for."""


Fields = dict[str, Any]


Make = Callable[[Fields], Any]


def make_model(fields: Fields) -> Any:
    members = {f"f{number}": (hint, Field(alias=name)) for number, (name, hint) in enumerate(fields.items())}
    return create_model("Thing", **members)


def make_dataclass(fields: Fields) -> Any:
    return dataclasses.make_dataclass("Thing", fields.items())


def make_named_tuple(fields: Fields) -> Any:
    return NamedTuple("Thing", fields.items())  # type: ignore[misc]  # its fields are only known here


def make_typed_dict(fields: Fields) -> Any:
    return TypedDict("Thing", {name: NotRequired[hint] for name, hint in fields.items()})  # type: ignore[misc]  # likewise


MAKES: dict[str, Make] = {
    "model": make_model, "dataclass": make_dataclass, "NamedTuple": make_named_tuple,
    "TypedDict": make_typed_dict,
}  # fmt: skip


ANY_NAME = ("model", "TypedDict")
"""Types whose fields may have names that are no identifiers of Python."""


USES = ("parameter", "result", "prompt", "question")


@st.composite
def cases(draw: st.DrawFn) -> tuple[str, str, dict[str, str]]:
    made, use = draw(st.sampled_from(sorted(MAKES))), draw(st.sampled_from(USES))
    names = KEYWORDS.split() if made in ANY_NAME else IDENTIFIERS
    kinds = FLAT if use == "question" else sorted(FIELDS)
    chosen = draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))
    return made, use, {name: draw(st.sampled_from(kinds)) for name in chosen}


def wire(made: str, value: dict[str, Any]) -> Any:
    return list(value.values()) if made == "NamedTuple" else value


def check_schema(schema: dict[str, Any], value: Any, wrong: list[Any]) -> None:
    """Check a schema by an independent validator and by the other readers of schemas in mcpkit."""
    is_valid = jsonschema_rs.validator_for(schema).is_valid  # raises where a reference leads nowhere
    assert is_valid(value)
    assert not any(map(is_valid, wrong)), schema
    assert ServerSchema(schema).problems(value) == []
    assert all(map(ServerSchema(schema).problems, wrong))
    assert explicit.arguments(schema).validate(value) == value
    assert of_input(schema, schema).effect is Effect.COMPATIBLE
    tool = {"name": "echo", "inputSchema": schema, "outputSchema": schema}
    found = findings(Looked([Surface(tools=[tool])], strict_hosts=["openai-strict"]))
    assert [each for each in found if each.severity == "error"] == []
    refused = {"`default`", "`not`", "`if`", "`oneOf`", "`allOf`"}
    assert not refused & set(" ".join(each.what for each in found).replace(",", "").split())


async def check_round_trip(made: str, use: str, fields: dict[str, str]) -> None:
    thing = MAKES[made]({name: FIELDS[kind][0] for name, kind in fields.items()})
    right = {name: FIELDS[kind][1] for name, kind in fields.items()}
    value = wire(made, right)
    wrong = [wire(made, {**right, name: FIELDS[kind][2]}) for name, kind in fields.items()]
    server = Server("names")

    @server.tool
    def take(thing: thing) -> str:
        return "taken"

    @server.tool
    def echo(thing: thing) -> thing:
        return thing

    @server.prompt
    def write(thing: thing) -> str:
        return "prompt"

    if use == "question":

        @server.tool
        async def ask(ctx: Context) -> str:
            return repr((await ctx.elicit("What?", thing)).value)

    def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
        jsonschema_rs.validator_for(params["requestedSchema"])
        assert [*params["requestedSchema"]["properties"]] == [*fields]
        return {"action": "accept", "content": right}

    async with connect(server, request_handler=answer) as client:
        tools = {tool["name"]: tool for tool in await client.list_tools()}
        if use == "parameter":
            check_schema(tools["take"]["inputSchema"], {"thing": value}, [{"thing": each} for each in wrong])
            assert (await client.call_tool("take", {"thing": value})).text == "taken"
            for each in wrong:
                result = await client.call_tool("take", {"thing": each})
                assert result.is_error
                assert "Internal error" not in result.text
        elif use == "result":
            schema = tools["echo"]["outputSchema"]
            result = await client.call_tool("echo", {"thing": value})
            data = result.structured_content
            assert data == value
            assert json.loads(result.text) == value
            if schema["type"] == "object":
                check_schema(schema, value, wrong)
        elif use == "prompt":
            (message,) = await client.get_prompt("write", {"thing": json.dumps(value)})
            assert message["content"]["text"] == "prompt"
        else:
            result = await client.call_tool("ask")
            assert all(repr(part) in result.text for part in right.values()), result.text


@settings(derandomize=True, database=None)  # fmt: skip
@given(cases())
def test_field_named_like_keyword_round_trips(case: tuple[str, str, dict[str, str]]) -> None:
    asyncio.run(check_round_trip(*case))
