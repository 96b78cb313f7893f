"""Lock files of servers: changes between two contracts, and their effect on clients, judged by calls."""

from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator, FormatChecker

from mcpkit.lockfile.lockfile import LockfileError, Surface, changes, contract_of, read
from mcpkit.lockfile.schema_changes import Effect, closed, compare_input_schemas, compare_output_schemas
from tests.helpers.tables import each_row

B, C, U = "breaking", "compatible", "unknown"


def call(*required: str, **properties: Any) -> dict[str, Any]:
    """Return a schema of arguments as mcpkit writes it."""
    schema = {"type": "object", "properties": properties}
    return {**schema, "required": list(required), "additionalProperties": False}


STR, INT, NUM, BOOL, NULL = ({"type": kind} for kind in ("string", "integer", "number", "boolean", "null"))


def items(schema: Any = True, **rest: Any) -> dict[str, Any]:
    return {"type": "array", "items": schema, **rest}


TREE = {"type": "object", "properties": {"name": STR, "children": items({"$ref": "#/$defs/tree"})},
        "required": ["name"], "additionalProperties": False}  # fmt: skip
WIDE_TREE = {**TREE, "properties": {**TREE["properties"], "name": {"type": ["string", "integer"]}}}
OPEN = {**call(), "additionalProperties": True}


def optional(schema: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [schema, NULL]}


def tree(node: dict[str, Any]) -> dict[str, Any]:
    return call(t={"$ref": "#/$defs/tree"}) | {"$defs": {"tree": node}}


def nested(maximum: int) -> dict[str, Any]:
    return call("a", a=items(call("b", b=items(call("c", c={**INT, "maximum": maximum})))))


CAT = call("kind", "lives", kind={"const": "cat"}, lives=INT)
DOG = call("kind", "good", kind={"const": "dog"}, good=BOOL)
FISH = call("kind", kind={"const": "fish"})
Row = tuple[str, dict[str, Any], dict[str, Any], str]
ARGUMENTS: list[Row] = [
    ("the same", call("a", a=STR), call("a", a=STR), C),
    ("descriptions", call("a", a=STR), call("a", a={**STR, "description": "A.", "title": "A", "examples": ["x"]}), C),
    ("renamed", call("a", a=STR), call("b", b=STR), B),
    ("a model is put inside", call("p", p={"$ref": "#/$defs/P"}) | {"$defs": {"P": call("x", x=INT)}},
     call("p", p=call("x", x=INT)), C),
    ("no schema to one with arguments", {"type": "object"}, call(a=STR), B),
    ("an open schema gains an argument", {"type": "object", "properties": {"a": STR}},
     {"type": "object", "properties": {"a": STR, "b": INT}}, C),
    ("a tree stays", tree(TREE), call(t={"$ref": "#/$defs/node"}) | {"$defs": {"node": {**TREE, "properties": {
        **TREE["properties"], "children": items({"$ref": "#/$defs/node"})}}}}, C),
]  # fmt: skip
Pair = tuple[str, dict[str, Any], dict[str, Any]]  # the second schema accepts more than the first
WIDER_ARGUMENTS: list[Pair] = [
    ("an optional argument", call("a", a=STR), call("a", a=STR, b=INT)),
    ("a required argument", call("a", "b", a=STR, b=INT), call("a", a=STR, b=INT)),
    ("open", call(a=STR), {**call(a=STR), "additionalProperties": True}),
    ("open to numbers alone", {**OPEN, "additionalProperties": NUM}, OPEN),
    ("open to more", {**OPEN, "additionalProperties": INT}, {**OPEN, "additionalProperties": NUM}),
    ("a tree", tree(TREE), tree(WIDE_TREE)),
    ("deep inside", nested(4), nested(5)),
]
# The schema of one argument:
CHANGES: list[Row] = [
    ("string to integer", STR, INT, B),
    ("whole numbers to integer", {**NUM, "multipleOf": 1}, INT, C),
    ("a list of types", {"type": ["string", "null"]}, optional(STR), C),
    ("anything to all types", {}, {"type": ["null", "boolean", "number", "string", "array", "object"]}, C),
    ("enum in another order", {"enum": ["a", "b"]}, {"enum": ["b", "a"]}, C),
    ("enum beyond bounds", {"enum": [1, 9]}, {**INT, "maximum": 5}, B),
    ("above zero is at least one", {**INT, "exclusiveMinimum": 0}, {**INT, "minimum": 1}, C),
    ("above zero is not at least one", {**NUM, "exclusiveMinimum": 0}, {**NUM, "minimum": 1}, B),
    ("pattern changes", {**STR, "pattern": "^[a-c]+$"}, {**STR, "pattern": "^[b-d]+$"}, B),
    ("pattern is written otherwise", {**STR, "pattern": "^[0-9]+$"}, {**STR, "pattern": "^[0-9][0-9]*$"}, U),
    ("format changes", {**STR, "format": "date"}, {**STR, "format": "date-time"}, B),
    ("any becomes one of", {"anyOf": [CAT, DOG]}, {"oneOf": [CAT, DOG]}, C),
    ("one of what overlaps", INT, {"oneOf": [INT, NUM]}, B),
    ("not", STR, {"not": {"type": "integer"}}, C),
    ("not what was taken", {"type": ["string", "integer"]}, {"not": {"type": "integer"}}, B),
    ("nothing fits", STR, False, B),
    ("if", call(x=INT), {**call(x=INT), "if": {"required": ["x"]}, "then": {"minProperties": 1}}, U),
    ("contains", items(INT), items(INT, contains={"const": 1}), B),
    ("patterns of names", {"type": "object"}, {"type": "object", "patternProperties": {"^x": INT}}, U),
    ("a reference elsewhere", STR, {"$ref": "https://example.com/schema.json"}, U),
]  # fmt: skip
WIDER_CHANGES: list[Pair] = [
    ("integer and number", INT, NUM),
    ("null", STR, optional(STR)),
    ("anything", STR, {}),
    ("enum", {"enum": ["a"]}, {"enum": ["a", "b"]}),
    ("enum and string", {"enum": ["a", "b"]}, STR),
    ("boolean and enum", BOOL, {"enum": [False, True, None]}),
    ("enum within bounds", {"enum": [1, 5]}, {**INT, "minimum": 1, "maximum": 5}),
    ("minimum moves", {**INT, "minimum": 1}, {**INT, "minimum": 0}),
    ("above zero is at least zero", {**NUM, "exclusiveMinimum": 0}, {**NUM, "minimum": 0}),
    ("maximum of less", {**INT, "maximum": 10}, {**NUM, "maximum": 10}),
    ("maximum moves", {**NUM, "maximum": 10}, {**NUM, "maximum": 10.5}),
    ("multiples of six are of three", {**INT, "multipleOf": 6}, {**INT, "multipleOf": 3}),
    ("cents", {**NUM, "multipleOf": 0.05}, {**NUM, "multipleOf": 0.01}),
    ("length moves", {**STR, "maxLength": 9}, {**STR, "maxLength": 10}),
    ("pattern", {**STR, "pattern": "^[a-z]+$"}, STR),
    ("format", {**STR, "format": "uuid"}, STR),
    ("items", items(INT), items(NUM)),
    ("number of items", items(STR, maxItems=3), items(STR, maxItems=4)),
    ("at least one item", items(STR, minItems=1), items(STR)),
    ("items that differ", items(STR, uniqueItems=True), items(STR)),
    ("a pair", items(False, prefixItems=[STR, INT]), items(False, prefixItems=[STR, NUM])),
    ("a pair as array", items(False, prefixItems=[STR, STR]), items(STR)),
    ("a nested required argument", call("x", "y", x=STR, y=STR), call("x", x=STR, y=STR)),
    (
        "a map",
        {"type": "object", "additionalProperties": INT},
        {"type": "object", "additionalProperties": NUM},
    ),
    ("fewer properties", {"type": "object", "maxProperties": 1}, {"type": "object"}),
    ("named properties are few", call(x=INT, y=INT), {"type": "object", "maxProperties": 2}),
    ("a union", {"anyOf": [CAT]}, {"anyOf": [CAT, DOG]}),
    ("one of a union", {"oneOf": [CAT, DOG]}, {"oneOf": [DOG, CAT, FISH]}),
    ("all of", {"allOf": [{**NUM, "minimum": 0}, {"maximum": 9}]}, {**NUM, "minimum": 0}),
]
for name, narrow, wide in WIDER_ARGUMENTS:
    ARGUMENTS += [(f"{name}: wider", narrow, wide, C), (f"{name}: narrower", wide, narrow, B)]
for name, narrow, wide in WIDER_CHANGES:
    CHANGES += [(f"{name}: wider", narrow, wide, C), (f"{name}: narrower", wide, narrow, B)]
ARGUMENTS += [(name, call("v", v=old), call("v", v=new), effect) for name, old, new, effect in CHANGES]


def fits(schema: Any, value: Any) -> bool:
    return Draft202012Validator(schema, format_checker=FormatChecker()).is_valid(value)


@each_row(("name", "old", "new", "expected"), ARGUMENTS)
def test_verdict_of_argument_change_and_reversed_result_change(name, old, new, expected) -> None:
    verdict = compare_input_schemas(old, new)
    assert verdict.effect.value == compare_output_schemas(new, old).effect.value == expected, name
    assert (verdict.effect is Effect.BREAKING) == (verdict.example is not None)
    assert (verdict.effect is Effect.COMPATIBLE) == (not verdict.obstacles)
    if verdict.example is not None:
        assert fits(closed(old), verdict.example.value)
        assert not fits(new, verdict.example.value)


def test_verdict_obstacle_names_path() -> None:
    old = {"type": "object", "properties": {"stops": {"type": "array", "items": {"type": "object", "properties": {
        "city": {"type": "string"}}}}}}  # fmt: skip
    new = {"type": "object", "properties": {"stops": {"type": "array", "items": {"type": "object", "properties": {
        "city": {"type": "string", "maxLength": 3}, "day": {"type": "integer"}}, "required": ["day"]}}}}  # fmt: skip
    reported = [f"{found.path}: {found.why}" for found in compare_input_schemas(old, new).obstacles]
    assert reported == ["stops[].day: it is required", "stops[].city: it must have at most 3 characters"]


@each_row(("old", "new"), [
    ({"required": [[]]}, {"type": []}), ({"required": [5, None, {}]}, {"type": "string"}),
    ({"type": "string", "format": []}, {"type": "string", "format": {}}),
    ({"minLength": -1}, {"type": "string"}), ({"minItems": -1}, {"items": False}),
])  # fmt: skip
def test_verdict_of_malformed_schema_is_no_exception(old: dict[str, Any], new: dict[str, Any]) -> None:
    for verdict in (compare_input_schemas(old, new), compare_output_schemas(new, old)):
        assert verdict.effect is not Effect.COMPATIBLE or not verdict.obstacles


SCHEMA = {"type": "object", "properties": {"item": {"type": "string"}}, "required": ["item"]}
HINTS = {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False}
TOOL = {"name": "price", "description": "Say a price.", "inputSchema": SCHEMA, "outputSchema": SCHEMA,
        "annotations": HINTS, "execution": {"taskSupport": "optional"}}  # fmt: skip
RESOURCE = {"uri": "shop://menu", "name": "menu", "mimeType": "text/plain"}
TEMPLATE = {"uriTemplate": "shop://{shelf}/{item}", "name": "item"}
PROMPT = {"name": "order", "arguments": [{"name": "item", "required": True}, {"name": "milk"}]}


def contract(
    tool: Any = (), resource: Any = (), template: Any = (), prompt: Any = (), **more: Any
) -> dict[str, Any]:
    """Return a contract with changes of some parts; None leaves one out."""
    parts = [(TOOL, tool), (RESOURCE, resource), (TEMPLATE, template), (PROMPT, prompt)]
    lists = [[] if differing is None else [{**part, **dict(differing)}] for part, differing in parts]
    return contract_of([Surface("shop", "", "", *lists, **more)])


TOO_LONG = {**SCHEMA, "properties": {"item": {"type": "string", "maxLength": 5}}}
NULLABLE = {**SCHEMA, "properties": {"item": {"type": ["string", "null"]}}}
TOO_LONG_NOW = (
    "argument item: it must have at most 5 characters"
    ' (a call with {"item": "text of several words"} is rejected now)'
)
NULL_NOW = (
    'result item: null is not allowed (the old schema does not allow {"item": null}, which the new one does)'
)
ITEM, MILK = PROMPT["arguments"]


def hinted(**hints: bool) -> dict[str, Any]:
    return {"annotations": {**HINTS, **hints}}


PLACES = {
    "tool": "tool price",
    "resource": "resource shop://menu",
    "template": "template shop://{shelf}/{item}",
    "prompt": "prompt order",
}


@each_row(("part", "change", "what", "effect"), [
    ("tool", None, "it was removed", B),
    ("tool", {"name": "cost"}, "it was removed", B),
    ("tool", {"description": "Say it."}, "its description changed", C),
    ("tool", {"inputSchema": NULLABLE}, "the schema of its arguments changed", C),
    ("tool", {"inputSchema": TOO_LONG}, TOO_LONG_NOW, B),
    ("tool", {"inputSchema": {**SCHEMA, "if": {}}}, "`if` cannot be compared (this may break clients)", U),
    ("tool", {"outputSchema": TOO_LONG}, "the schema of its results changed", C),
    ("tool", {"outputSchema": NULLABLE}, NULL_NOW, B),
    ("tool", {"outputSchema": None}, "its output schema was removed, so it returns no structured content", B),
    ("tool", hinted(readOnlyHint=False), "readOnlyHint is false now: the tool may change data now", B),
    ("tool", hinted(destructiveHint=True), "destructiveHint is true now: the tool may destroy data now", B),
    ("tool", hinted(idempotentHint=False), "idempotentHint is false now: repeated calls may have more effects now", B),
    ("tool", hinted(openWorldHint=True), "openWorldHint is true now: the tool may access external systems now", B),
    ("tool", {"execution": {"taskSupport": "required"}}, "taskSupport changed from optional to required", B),
    ("tool", {"execution": None}, "taskSupport changed from optional to forbidden", B),
    ("resource", None, "it was removed", B),
    ("resource", {"mimeType": "text/html"}, 'its mimeType is "text/html" now', B),
    ("resource", {"name": "card"}, 'its name is "card" now', C),
    ("template", None, "it was removed", B),
    ("template", {"uriTemplate": "shop://{item}{?lang}"},
     "it is shop://{item}{?lang} now; variable shelf was removed; variable lang was added", B),
    ("prompt", None, "it was removed", B),
    ("prompt", {"arguments": [ITEM]}, "argument milk was removed", B),
    ("prompt", {"arguments": [ITEM, MILK, {**ITEM, "name": "cup"}]}, "argument cup was added and is required", B),
    ("prompt", {"arguments": [ITEM, MILK, {"name": "cup"}]}, "argument cup was added", C),
    ("prompt", {"arguments": [ITEM, {**MILK, "required": True}]}, "argument milk is required now", B),
    ("prompt", {"arguments": [{"name": "item"}, MILK]}, "argument item is no longer required", C),
])  # fmt: skip
def test_contract_change_is_found(part: str, change: Any, what: str, effect: str) -> None:
    found = changes(contract(), contract(**{part: change}))
    assert (PLACES[part], what, effect) in [(each.where, each.what, each.effect.value) for each in found]


@each_row(("change", "expected"), [
    ({"tool": {"name": "cost"}}, [("tool price", B), ("tool cost", C)]),
    ({"prompt": {"arguments": [ITEM, {**MILK, "description": "Any."}]}}, [("prompt order, argument milk", C)]),
    ({}, []),
    ({"tool": {"icons": [], "_meta": {"a": 1}, "inputSchema": {**SCHEMA, "required": ["item"]}}}, []),
    ({"resource": {"size": 5}, "prompt": {"arguments": [MILK, ITEM]}}, []),
])  # fmt: skip
def test_contract_change_names_place_or_is_irrelevant(change: Any, expected: list[tuple[str, str]]) -> None:
    found = changes(contract(), contract(**change))
    assert [(each.where, each.effect.value) for each in found] == expected


def test_contract_changes_of_several_servers_are_prefixed() -> None:
    shop, bank = Surface("shop", tools=[TOOL]), Surface("bank", tools=[TOOL])
    found = changes(contract_of([shop, bank]), contract_of([Surface("shop"), Surface("post")]))
    found_at = {each.where: each.what for each in found}
    removed = dict.fromkeys(("shop: tool price", "server bank"), "it was removed")
    assert found_at == {**removed, "server post": "it was added"}


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
    with pytest.raises(LockfileError, match=reported):
        read(path)
