"""Fields with the names of JSON Schema keywords: they register, their references resolve, and calls round-trip."""

from __future__ import annotations

import json
from itertools import cycle
from typing import Any, Literal

import jsonschema_rs
import pytest
from pydantic import BaseModel, Field, create_model

from mcpkit import Server
from mcpkit.cli.check.rule_form_and_host_limits import CheckInputs
from mcpkit.cli.check.rules_and_settings import findings
from mcpkit.client.server_schemas_and_typed_results import ServerSchema
from mcpkit.lockfile.lockfile import Surface
from mcpkit.lockfile.schema_changes import Effect, compare_input_schemas
from mcpkit.schema import custom_schemas
from mcpkit.testing import connect

pytestmark = pytest.mark.slow

KEYWORDS = """
$anchor $comment $defs $dynamicAnchor $dynamicRef $id $ref $schema $vocabulary additionalItems additionalProperties
allOf anyOf const contains contentEncoding contentMediaType contentSchema default definitions dependencies
dependentRequired dependentSchemas deprecated description discriminator else enum examples exclusiveMaximum
exclusiveMinimum format if items maxContains maxItems maxLength maxProperties maximum minContains minItems minLength
minProperties minimum multipleOf not nullable oneOf pattern patternProperties prefixItems properties propertyNames
readOnly required then title type unevaluatedItems unevaluatedProperties uniqueItems writeOnly xml
"""


class Color(BaseModel):
    name: str = "red"
    default: Literal["a", "b"] = "a"


class Tree(BaseModel):
    enum: list[Tree] = []


COLOR = {"name": "blue", "default": "b"}
FIELDS: list[tuple[Any, Any, Any]] = [
    # a type, a value of it, and another value
    (str, "x", [1]), (Literal["x", "y"], "y", "z"), (Color, COLOR, {"name": 5.5}),
    (list[Color], [COLOR, COLOR], [{"default": "c"}]), (Color | None, COLOR, {"name": 5.5}),
    (dict[str, Color], {"items": COLOR, "$ref": COLOR}, {"a": {"name": 5.5}}),
    (tuple[Color, int], [COLOR, 5], [COLOR]),
    (Tree, {"enum": [{"enum": []}]}, {"enum": [{"enum": 5.5}]}),
]  # fmt: skip


def check_schema(schema: dict[str, Any], value: Any, wrong: list[Any]) -> None:
    """Check a schema by an independent validator and by the other readers of schemas in mcpkit."""
    is_valid = jsonschema_rs.validator_for(schema).is_valid  # raises where a reference leads nowhere
    assert is_valid(value)
    assert not any(map(is_valid, wrong)), schema
    problems = ServerSchema(schema).problems
    assert problems(value) == []
    assert all(map(problems, wrong))
    assert custom_schemas.arguments(schema).validate(value) == value
    assert compare_input_schemas(schema, schema).effect is Effect.COMPATIBLE
    tool = {"name": "echo", "inputSchema": schema, "outputSchema": schema}
    found = findings(CheckInputs([Surface(tools=[tool])], strict_hosts=["openai-strict"]))
    assert [each for each in found if each.severity == "error"] == []
    refused = {"`default`", "`not`", "`if`", "`oneOf`", "`allOf`"}
    assert not refused & set(" ".join(each.message for each in found).replace(",", "").split())


async def test_field_named_like_keyword_round_trips() -> None:
    fields = dict(zip(KEYWORDS.split(), cycle(FIELDS), strict=False))
    value = {name: right for name, (_, right, _) in fields.items()}
    wrong = [{**value, name: other} for name, (_, _, other) in fields.items()]

    def echo(thing: Any) -> Any:
        return thing

    members = {
        f"f{index}": (hint, Field(alias=name)) for index, (name, (hint, _, _)) in enumerate(fields.items())
    }
    hint: Any = create_model("Thing", **members)
    echo.__annotations__ = {"thing": hint, "return": hint}
    server = Server("names")
    server.tool(echo)
    async with connect(server) as client:
        (tool,) = await client.list_tools()
        check_schema(tool["inputSchema"], {"thing": value}, [{"thing": each} for each in wrong])
        check_schema(tool["outputSchema"], value, wrong)
        result = await client.call_tool("echo", {"thing": value})
        assert result.structured_content == json.loads(result.text) == value
        refused = [await client.call_tool("echo", {"thing": each}) for each in wrong]
    assert all(each.is_error and "Internal error" not in each.text for each in refused)
