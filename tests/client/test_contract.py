"""Lock files of servers: changes between two contracts, and their effect on clients, judged by calls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator, FormatChecker

from mcpkit.client.contract.changes import changes
from mcpkit.client.contract.lockfile import LockError, contract_of, read
from mcpkit.client.contract.schemas import closed
from mcpkit.client.contract.surface import Surface
from mcpkit.client.contract.verdict import Effect, Verdict, of_input, of_output
from tests.helpers.tables import each_row

B, C, U = "breaking", "compatible", "untold"


def call(*required: str, **properties: Any) -> dict[str, Any]:
    """Return a schema of arguments as mcpkit writes it."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


STR, INT, NUM, BOOL, NULL = ({"type": kind} for kind in ("string", "integer", "number", "boolean", "null"))


def items(schema: Any = True, **rest: Any) -> dict[str, Any]:
    return {"type": "array", "items": schema, **rest}


TREE = {"type": "object", "properties": {"name": STR, "children": items({"$ref": "#/$defs/tree"})},
        "required": ["name"], "additionalProperties": False}  # fmt: skip
WIDE_TREE = {**TREE, "properties": {**TREE["properties"], "name": {"type": ["string", "integer"]}}}
ARGUMENTS: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    ("the same", call("a", a=STR), call("a", a=STR), C),
    ("descriptions", call("a", a=STR), call("a", a={**STR, "description": "A.", "title": "A", "examples": ["x"]}), C),
    ("a new optional argument", call("a", a=STR), call("a", a=STR, b=INT), C),
    ("a new required argument", call("a", a=STR), call("a", "b", a=STR, b=INT), B),
    ("an argument is gone", call("a", a=STR, b=INT), call("a", a=STR), B),
    ("an argument is renamed", call("a", a=STR), call("b", b=STR), B),
    ("required no more", call("a", a=STR), call(a=STR), C),
    ("required now", call(a=STR), call("a", a=STR), B),
    ("open now", call(a=STR), {**call(a=STR), "additionalProperties": True}, C),
    ("closed now", {**call(a=STR), "additionalProperties": True}, call(a=STR), B),
    ("open to numbers alone", {**call(), "additionalProperties": True}, {**call(), "additionalProperties": NUM}, B),
    ("open to more", {**call(), "additionalProperties": INT}, {**call(), "additionalProperties": NUM}, C),
]  # fmt: skip


def optional(schema: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [schema, NULL]}


CAT = call("kind", "lives", kind={"const": "cat"}, lives=INT)
DOG = call("kind", "good", kind={"const": "dog"}, good=BOOL)
FISH = call("kind", kind={"const": "fish"})
ARGUMENTS += [(name, call("v", v=old), call("v", v=new), effect) for name, old, new, effect in [
    ("string to integer", STR, INT, B),
    ("integer to number", INT, NUM, C),
    ("number to integer", NUM, INT, B),
    ("whole numbers to integer", {**NUM, "multipleOf": 1}, INT, C),
    ("string to string or null", STR, optional(STR), C),
    ("string or null to string", optional(STR), STR, B),
    ("a list of types", {"type": ["string", "null"]}, optional(STR), C),
    ("a list of types is narrowed", {"type": ["string", "integer"]}, STR, B),
    ("anything to string", {}, STR, B),
    ("string to anything", STR, {}, C),
    ("anything to all types", {}, {"type": ["null", "boolean", "number", "string", "array", "object"]}, C),
    ("enum gains", {"enum": ["a", "b"]}, {"enum": ["a", "b", "c"]}, C),
    ("enum loses", {"enum": ["a", "b"]}, {"enum": ["a"]}, B),
    ("enum to string", {"enum": ["a", "b"]}, STR, C),
    ("string to enum", STR, {"enum": ["a", "b"]}, B),
    ("enum in another order", {"enum": ["a", "b"]}, {"enum": ["b", "a"]}, C),
    ("const to enum", {"const": 1}, {"enum": [1, 2]}, C),
    ("boolean to enum", BOOL, {"enum": [False, True, None]}, C),
    ("boolean to const", BOOL, {"const": True}, B),
    ("enum within bounds", {"enum": [1, 5]}, {**INT, "minimum": 1, "maximum": 5}, C),
    ("enum beyond bounds", {"enum": [1, 9]}, {**INT, "maximum": 5}, B),
    ("minimum comes", INT, {**INT, "minimum": 0}, B),
    ("minimum goes", {**INT, "minimum": 0}, INT, C),
    ("minimum rises", {**INT, "minimum": 0}, {**INT, "minimum": 1}, B),
    ("minimum falls", {**INT, "minimum": 0}, {**INT, "minimum": -1}, C),
    ("above zero is at least one", {**INT, "exclusiveMinimum": 0}, {**INT, "minimum": 1}, C),
    ("above zero is not at least one", {**NUM, "exclusiveMinimum": 0}, {**NUM, "minimum": 1}, B),
    ("above zero is at least zero", {**NUM, "exclusiveMinimum": 0}, {**NUM, "minimum": 0}, C),
    ("at least zero is not above zero", {**NUM, "minimum": 0}, {**NUM, "exclusiveMinimum": 0}, B),
    ("maximum falls", {**NUM, "maximum": 10.5}, {**NUM, "maximum": 10}, B),
    ("maximum rises", {**NUM, "maximum": 10}, {**NUM, "maximum": 10.5}, C),
    ("multiples of six are of three", {**INT, "multipleOf": 6}, {**INT, "multipleOf": 3}, C),
    ("multiples of three are not of six", {**INT, "multipleOf": 3}, {**INT, "multipleOf": 6}, B),
    ("cents", {**NUM, "multipleOf": 0.05}, {**NUM, "multipleOf": 0.01}, C),
    ("length falls", {**STR, "maxLength": 10}, {**STR, "maxLength": 9}, B),
    ("length rises", {**STR, "maxLength": 10}, {**STR, "maxLength": 11}, C),
    ("length comes", STR, {**STR, "minLength": 1}, B),
    ("pattern comes", STR, {**STR, "pattern": "^[a-z]+$"}, B),
    ("pattern goes", {**STR, "pattern": "^[a-z]+$"}, STR, C),
    ("pattern changes", {**STR, "pattern": "^[a-c]+$"}, {**STR, "pattern": "^[b-d]+$"}, B),
    ("pattern is said otherwise", {**STR, "pattern": "^[0-9]+$"}, {**STR, "pattern": "^[0-9][0-9]*$"}, U),
    ("format comes", STR, {**STR, "format": "uuid"}, B),
    ("format goes", {**STR, "format": "date"}, STR, C),
    ("format changes", {**STR, "format": "date"}, {**STR, "format": "date-time"}, B),
    ("items narrow", items(NUM), items(INT), B),
    ("items widen", items(INT), items(NUM), C),
    ("more items", items(STR, maxItems=3), items(STR, maxItems=4), C),
    ("fewer items", items(STR, maxItems=3), items(STR, maxItems=2), B),
    ("at least one item", items(STR), items(STR, minItems=1), B),
    ("items differ now", items(STR), items(STR, uniqueItems=True), B),
    ("items may repeat now", items(STR, uniqueItems=True), items(STR), C),
    ("any array to strings", {"type": "array"}, items(STR), B),
    ("a pair", items(False, prefixItems=[STR, INT]), items(False, prefixItems=[STR, NUM]), C),
    ("a pair narrows", items(False, prefixItems=[STR, NUM]), items(False, prefixItems=[STR, INT]), B),
    ("a pair as array", items(False, prefixItems=[STR, STR]), items(STR), C),
    ("an array as pair", items(STR), items(False, prefixItems=[STR, STR]), B),
    ("a nested argument comes", call("x", x=STR), call("x", "y", x=STR, y=STR), B),
    ("a nested argument may come", call("x", x=STR), call("x", x=STR, y=STR), C),
    ("a map narrows", {"type": "object", "additionalProperties": NUM},
     {"type": "object", "additionalProperties": INT}, B),
    ("a model to a map", call(x=INT), {"type": "object", "additionalProperties": NUM}, C),
    ("a map to a model", {"type": "object", "additionalProperties": INT}, call(x=INT), B),
    ("fewer properties", {"type": "object"}, {"type": "object", "maxProperties": 1}, B),
    ("named properties are few", call(x=INT, y=INT), {"type": "object", "maxProperties": 2}, C),
    ("a union gains", {"anyOf": [CAT, DOG]}, {"anyOf": [CAT, DOG, FISH]}, C),
    ("a union loses", {"anyOf": [CAT, DOG]}, {"anyOf": [CAT]}, B),
    ("one of a union gains", {"oneOf": [CAT, DOG]}, {"oneOf": [DOG, CAT, FISH]}, C),
    ("one of a union loses", {"oneOf": [CAT, DOG, FISH]}, {"oneOf": [DOG, CAT]}, B),
    ("any becomes one of", {"anyOf": [CAT, DOG]}, {"oneOf": [CAT, DOG]}, C),
    ("one of what overlaps", INT, {"oneOf": [INT, NUM]}, B),
    ("all of", {"allOf": [{**NUM, "minimum": 0}, {"maximum": 9}]}, {**NUM, "minimum": 0}, C),
    ("all of narrows", {**NUM, "minimum": 0}, {"allOf": [{**NUM, "minimum": 0}, {"maximum": 9}]}, B),
    ("not", STR, {"not": {"type": "integer"}}, C),
    ("not what was taken", {"type": ["string", "integer"]}, {"not": {"type": "integer"}}, B),
    ("nothing fits", STR, False, B),
    ("if", call(x=INT), {**call(x=INT), "if": {"required": ["x"]}, "then": {"minProperties": 1}}, U),
    ("contains", items(INT), items(INT, contains={"const": 1}), B),
    ("patterns of names", {"type": "object"}, {"type": "object", "patternProperties": {"^x": INT}}, U),
    ("a reference elsewhere", STR, {"$ref": "https://example.com/schema.json"}, U),
]]  # fmt: skip
ARGUMENTS += [
    ("a tree stays", call(t={"$ref": "#/$defs/tree"}) | {"$defs": {"tree": TREE}},
     call(t={"$ref": "#/$defs/node"}) | {"$defs": {"node": {**TREE, "properties": {**TREE["properties"],
          "children": items({"$ref": "#/$defs/node"})}}}}, C),
    ("a tree widens", call(t={"$ref": "#/$defs/tree"}) | {"$defs": {"tree": TREE}},
     call(t={"$ref": "#/$defs/tree"}) | {"$defs": {"tree": WIDE_TREE}}, C),
    ("a tree narrows", call(t={"$ref": "#/$defs/tree"}) | {"$defs": {"tree": WIDE_TREE}},
     call(t={"$ref": "#/$defs/tree"}) | {"$defs": {"tree": TREE}}, B),
    ("a model is put inside", call("p", p={"$ref": "#/$defs/P"}) | {"$defs": {"P": call("x", x=INT)}},
     call("p", p=call("x", x=INT)), C),
    ("deep inside", call("a", a=items(call("b", b=items(call("c", c={**INT, "maximum": 5}))))),
     call("a", a=items(call("b", b=items(call("c", c={**INT, "maximum": 4}))))), B),
    ("no schema to one with arguments", {"type": "object"}, call(a=STR), B),
    ("an open schema gains an argument", {"type": "object", "properties": {"a": STR}},
     {"type": "object", "properties": {"a": STR, "b": INT}}, C),
]  # fmt: skip
FORMATS = FormatChecker()


def fits(schema: Any, value: Any) -> bool:
    return Draft202012Validator(schema, format_checker=FORMATS).is_valid(value)


def check_example(verdict: Verdict, old: Any, new: Any) -> None:
    """Hold the example of a breaking change against both schemas, as others read them."""
    assert (verdict.effect is Effect.BREAKING) == (verdict.example is not None)
    assert (verdict.effect is Effect.COMPATIBLE) == (not verdict.obstacles)
    if verdict.example is not None:
        assert fits(old, verdict.example.value)
        assert not fits(new, verdict.example.value)


def test_verdict_of_argument_change_and_reversed_result_change() -> None:
    faults = []
    for name, old, new, expected in ARGUMENTS:
        verdict = of_input(old, new)
        if verdict.effect.value != expected or of_output(new, old).effect is not verdict.effect:
            faults.append(f"{name}: {verdict}, not {expected}; reversed {of_output(new, old)}")
            continue
        try:
            check_example(verdict, closed(old), new)
        except AssertionError as error:
            faults.append(f"{name}: {verdict}: {error}")
    assert not faults, "\n".join(faults)


def test_verdict_obstacle_names_path() -> None:
    old = {"type": "object", "properties": {"stops": {"type": "array", "items": {"type": "object", "properties": {
        "city": {"type": "string"}}}}}}  # fmt: skip
    new = {"type": "object", "properties": {"stops": {"type": "array", "items": {"type": "object", "properties": {
        "city": {"type": "string", "maxLength": 3}, "day": {"type": "integer"}}, "required": ["day"]}}}}  # fmt: skip
    reported = [f"{found.path}: {found.why}" for found in of_input(old, new).obstacles]
    assert reported == ["stops[].day: it is required", "stops[].city: it must have at most 3 characters"]


@each_row(("old", "new"), [
    ({"required": [[]]}, {"type": []}),
    ({"required": [5, None, {}]}, {"type": "string"}),
    ({"type": "string", "format": []}, {"type": "string", "format": {}}),
    ({"minLength": -1}, {"type": "string"}),
    ({"minItems": -1}, {"items": False}),
])  # fmt: skip
def test_verdict_of_malformed_schema_is_no_exception(old: dict[str, Any], new: dict[str, Any]) -> None:
    for verdict in (of_input(old, new), of_output(new, old)):
        assert verdict.effect is not Effect.COMPATIBLE or not verdict.obstacles


SCHEMA = {"type": "object", "properties": {"item": {"type": "string"}}, "required": ["item"]}
TOOL = {"name": "price", "description": "Say a price.", "inputSchema": SCHEMA, "outputSchema": SCHEMA,
        "annotations": {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False},
        "execution": {"taskSupport": "optional"}}  # fmt: skip
RESOURCE = {"uri": "shop://menu", "name": "menu", "mimeType": "text/plain"}
TEMPLATE = {"uriTemplate": "shop://{shelf}/{item}", "name": "item"}
PROMPT = {"name": "order", "arguments": [{"name": "item", "required": True}, {"name": "milk"}]}


def contract(
    tool: Any = (), resource: Any = (), template: Any = (), prompt: Any = (), **more: Any
) -> dict[str, Any]:
    """Return a contract whose parts differ as is said; None leaves one out."""
    parts = [(TOOL, tool), (RESOURCE, resource), (TEMPLATE, template), (PROMPT, prompt)]
    lists = [[] if differing is None else [{**part, **dict(differing)}] for part, differing in parts]
    return contract_of([Surface("shop", "", "", *lists, **more)])


def annotated(**hints: bool) -> dict[str, Any]:
    return {"annotations": {**TOOL["annotations"], **hints}}


TOO_LONG = (
    "argument item: it must have at most 5 characters"
    ' (a call with {"item": "text of several words"} is rejected now)'
)
UNTOLD = "`if` cannot be compared (this may break clients)"
NULL_PROBLEM = (
    'result item: null is not allowed (the old schema does not allow {"item": null}, which the new one does)'
)
OTHER = {**SCHEMA, "properties": {"item": {"type": "string", "maxLength": 5}}}
WIDER = {**SCHEMA, "properties": {"item": {"type": ["string", "null"]}}}


@each_row(("changed", "where", "what", "effect"), [
    ({"tool": None}, "tool price", "it was removed", "breaking"),
    ({"tool": {"name": "cost"}}, "tool price", "it was removed", "breaking"),
    ({"tool": {"name": "cost"}}, "tool cost", "it was added", "compatible"),
    ({"tool": {"description": "Say it."}}, "tool price", "its description changed", "compatible"),
    ({"tool": {"inputSchema": WIDER}}, "tool price", "the schema of its arguments changed", "compatible"),
    ({"tool": {"inputSchema": OTHER}}, "tool price", TOO_LONG, "breaking"),
    ({"tool": {"inputSchema": {**SCHEMA, "if": {}}}}, "tool price", UNTOLD, "untold"),
    ({"tool": {"outputSchema": OTHER}}, "tool price", "the schema of its results changed", "compatible"),
    ({"tool": {"outputSchema": WIDER}}, "tool price", NULL_PROBLEM, "breaking"),
    ({"tool": {"outputSchema": None}}, "tool price",
     "its output schema was removed, so it returns no structured content", "breaking"),
    ({"tool": annotated(readOnlyHint=False)}, "tool price", "readOnlyHint is false now: the tool may change data now",
     "breaking"),
    ({"tool": annotated(destructiveHint=True)}, "tool price",
     "destructiveHint is true now: the tool may destroy data now", "breaking"),
    ({"tool": annotated(idempotentHint=False)}, "tool price",
     "idempotentHint is false now: repeated calls may have more effects now", "breaking"),
    ({"tool": annotated(openWorldHint=True)}, "tool price",
     "openWorldHint is true now: the tool may access external systems now", "breaking"),
    ({"tool": {"execution": {"taskSupport": "required"}}}, "tool price",
     "taskSupport changed from optional to required", "breaking"),
    ({"tool": {"execution": None}}, "tool price", "taskSupport changed from optional to forbidden", "breaking"),
    ({"resource": None}, "resource shop://menu", "it was removed", "breaking"),
    ({"resource": {"mimeType": "text/html"}}, "resource shop://menu", 'its mimeType is "text/html" now', "breaking"),
    ({"resource": {"name": "card"}}, "resource shop://menu", 'its name is "card" now', "compatible"),
    ({"template": None}, "template shop://{shelf}/{item}", "it was removed", "breaking"),
    ({"template": {"uriTemplate": "shop://{item}{?lang}"}}, "template shop://{shelf}/{item}",
     "it is shop://{item}{?lang} now; variable shelf was removed; variable lang was added", "breaking"),
    ({"prompt": None}, "prompt order", "it was removed", "breaking"),
    ({"prompt": {"arguments": [{"name": "item", "required": True}]}}, "prompt order", "argument milk was removed",
     "breaking"),
    ({"prompt": {"arguments": [*PROMPT["arguments"], {"name": "cup", "required": True}]}}, "prompt order",
     "argument cup was added and is required", "breaking"),
    ({"prompt": {"arguments": [*PROMPT["arguments"], {"name": "cup"}]}}, "prompt order", "argument cup was added",
     "compatible"),
    ({"prompt": {"arguments": [{"name": "item", "required": True}, {"name": "milk", "required": True}]}},
     "prompt order", "argument milk is required now", "breaking"),
    ({"prompt": {"arguments": [{"name": "item"}, {"name": "milk"}]}}, "prompt order",
     "argument item is no longer required", "compatible"),
    ({"prompt": {"arguments": [{"name": "item", "required": True}, {"name": "milk", "description": "Any."}]}},
     "prompt order, argument milk", "its description changed", "compatible"),
])  # fmt: skip
def test_contract_change_is_found(changed: Any, where: str, what: str, effect: str) -> None:
    found = changes(contract(), contract(**changed))
    assert (where, what, effect) in [(each.where, each.what, each.effect.value) for each in found]


@pytest.mark.parametrize("changed", [
    {}, {"tool": {"icons": [], "_meta": {"a": 1}}}, {"resource": {"size": 5}},
    {"prompt": {"arguments": PROMPT["arguments"][::-1]}},
    {"tool": {"inputSchema": {**SCHEMA, "required": ["item"]}}},
])  # fmt: skip
def test_contract_change_irrelevant_to_clients_is_none(changed: Any) -> None:
    assert changes(contract(), contract(**changed)) == []


def test_contract_changes_of_several_servers_are_prefixed() -> None:
    shop, bank = Surface("shop", tools=[TOOL]), Surface("bank", tools=[TOOL])
    found = changes(contract_of([shop, bank]), contract_of([Surface("shop"), Surface("post")]))
    assert [(each.where, each.what) for each in found] == [
        ("shop: tool price", "it was removed"),
        ("server bank", "it was removed"),
        ("server post", "it was added"),
    ]


@pytest.mark.parametrize(("text", "reported"), [
    ("{", "is not valid JSON"),
    ("[]", "is not a lockfile of mcpkit"),
    ('{"format": 9}', "has format 9, but this version of mcpkit supports 1"),
    ('{"format": 1, "tools": [{}]}', "has invalid tools"),
    ('{"format": 1, "prompts": 5}', "has invalid prompts"),
])  # fmt: skip
def test_lock_file_malformed_is_error(tmp_path: Path, text: str, reported: str) -> None:
    path = tmp_path / "mcp.lock.json"
    path.write_text(text)
    with pytest.raises(LockError, match=reported):
        read(path)
