"""Pairs of schemas of arguments, an old one and a new one, and what the change does to calls that fit the old one."""

from __future__ import annotations

from typing import Any

B, C, U = "breaking", "compatible", "untold"


def call(*required: str, **properties: Any) -> dict[str, Any]:
    """Return a schema of arguments as mcpkit writes it."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


S, I, N, BOOL, NULL = ({"type": kind} for kind in ("string", "integer", "number", "boolean", "null"))  # noqa: E741


def optional(schema: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [schema, NULL]}


def items(schema: Any = True, **rest: Any) -> dict[str, Any]:
    return {"type": "array", "items": schema, **rest}


TREE = {"type": "object", "properties": {"name": S, "children": items({"$ref": "#/$defs/tree"})}, "required": ["name"],
        "additionalProperties": False}  # fmt: skip
WIDE_TREE = {**TREE, "properties": {**TREE["properties"], "name": {"type": ["string", "integer"]}}}
CAT = call("kind", "lives", kind={"const": "cat"}, lives=I)
DOG = call("kind", "good", kind={"const": "dog"}, good=BOOL)
FISH = call("kind", kind={"const": "fish"})

ARGUMENTS: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    ("the same", call("a", a=S), call("a", a=S), C),
    (
        "descriptions",
        call("a", a=S),
        call("a", a={**S, "description": "A.", "title": "A", "examples": ["x"]}),
        C,
    ),
    ("a new optional argument", call("a", a=S), call("a", a=S, b=I), C),
    ("a new required argument", call("a", a=S), call("a", "b", a=S, b=I), B),
    ("an argument is gone", call("a", a=S, b=I), call("a", a=S), B),
    ("an argument is renamed", call("a", a=S), call("b", b=S), B),
    ("required no more", call("a", a=S), call(a=S), C),
    ("required now", call(a=S), call("a", a=S), B),
    ("open now", call(a=S), {**call(a=S), "additionalProperties": True}, C),
    ("closed now", {**call(a=S), "additionalProperties": True}, call(a=S), B),
    (
        "open to numbers alone",
        {**call(), "additionalProperties": True},
        {**call(), "additionalProperties": N},
        B,
    ),
    ("open to more", {**call(), "additionalProperties": I}, {**call(), "additionalProperties": N}, C),
]


def _values() -> None:
    """Add pairs of schemas of one argument."""
    for name, old, new, effect in [
        ("string to integer", S, I, B),
        ("integer to number", I, N, C),
        ("number to integer", N, I, B),
        ("whole numbers to integer", {**N, "multipleOf": 1}, I, C),
        ("string to string or null", S, optional(S), C),
        ("string or null to string", optional(S), S, B),
        ("a list of types", {"type": ["string", "null"]}, optional(S), C),
        ("a list of types is narrowed", {"type": ["string", "integer"]}, S, B),
        ("anything to string", {}, S, B),
        ("string to anything", S, {}, C),
        (
            "anything to all types",
            {},
            {"type": ["null", "boolean", "number", "string", "array", "object"]},
            C,
        ),
        ("enum gains", {"enum": ["a", "b"]}, {"enum": ["a", "b", "c"]}, C),
        ("enum loses", {"enum": ["a", "b"]}, {"enum": ["a"]}, B),
        ("enum to string", {"enum": ["a", "b"]}, S, C),
        ("string to enum", S, {"enum": ["a", "b"]}, B),
        ("enum in another order", {"enum": ["a", "b"]}, {"enum": ["b", "a"]}, C),
        ("const to enum", {"const": 1}, {"enum": [1, 2]}, C),
        ("boolean to enum", BOOL, {"enum": [False, True, None]}, C),
        ("boolean to const", BOOL, {"const": True}, B),
        ("enum within bounds", {"enum": [1, 5]}, {**I, "minimum": 1, "maximum": 5}, C),
        ("enum beyond bounds", {"enum": [1, 9]}, {**I, "maximum": 5}, B),
        ("minimum comes", I, {**I, "minimum": 0}, B),
        ("minimum goes", {**I, "minimum": 0}, I, C),
        ("minimum rises", {**I, "minimum": 0}, {**I, "minimum": 1}, B),
        ("minimum falls", {**I, "minimum": 0}, {**I, "minimum": -1}, C),
        ("above zero is at least one", {**I, "exclusiveMinimum": 0}, {**I, "minimum": 1}, C),
        ("above zero is not at least one", {**N, "exclusiveMinimum": 0}, {**N, "minimum": 1}, B),
        ("above zero is at least zero", {**N, "exclusiveMinimum": 0}, {**N, "minimum": 0}, C),
        ("at least zero is not above zero", {**N, "minimum": 0}, {**N, "exclusiveMinimum": 0}, B),
        ("maximum falls", {**N, "maximum": 10.5}, {**N, "maximum": 10}, B),
        ("maximum rises", {**N, "maximum": 10}, {**N, "maximum": 10.5}, C),
        ("multiples of six are of three", {**I, "multipleOf": 6}, {**I, "multipleOf": 3}, C),
        ("multiples of three are not of six", {**I, "multipleOf": 3}, {**I, "multipleOf": 6}, B),
        ("cents", {**N, "multipleOf": 0.05}, {**N, "multipleOf": 0.01}, C),
        ("length falls", {**S, "maxLength": 10}, {**S, "maxLength": 9}, B),
        ("length rises", {**S, "maxLength": 10}, {**S, "maxLength": 11}, C),
        ("length comes", S, {**S, "minLength": 1}, B),
        ("pattern comes", S, {**S, "pattern": "^[a-z]+$"}, B),
        ("pattern goes", {**S, "pattern": "^[a-z]+$"}, S, C),
        ("pattern changes", {**S, "pattern": "^[a-c]+$"}, {**S, "pattern": "^[b-d]+$"}, B),
        ("pattern is said otherwise", {**S, "pattern": "^[0-9]+$"}, {**S, "pattern": "^[0-9][0-9]*$"}, U),
        ("format comes", S, {**S, "format": "uuid"}, B),
        ("format goes", {**S, "format": "date"}, S, C),
        ("format changes", {**S, "format": "date"}, {**S, "format": "date-time"}, B),
        ("items narrow", items(N), items(I), B),
        ("items widen", items(I), items(N), C),
        ("more items", items(S, maxItems=3), items(S, maxItems=4), C),
        ("fewer items", items(S, maxItems=3), items(S, maxItems=2), B),
        ("at least one item", items(S), items(S, minItems=1), B),
        ("items differ now", items(S), items(S, uniqueItems=True), B),
        ("items may repeat now", items(S, uniqueItems=True), items(S), C),
        ("any array to strings", {"type": "array"}, items(S), B),
        ("a pair", items(False, prefixItems=[S, I]), items(False, prefixItems=[S, N]), C),
        ("a pair narrows", items(False, prefixItems=[S, N]), items(False, prefixItems=[S, I]), B),
        ("a pair as array", items(False, prefixItems=[S, S]), items(S), C),
        ("an array as pair", items(S), items(False, prefixItems=[S, S]), B),
        ("a nested argument comes", call("x", x=S), call("x", "y", x=S, y=S), B),
        ("a nested argument may come", call("x", x=S), call("x", x=S, y=S), C),
        (
            "a map narrows",
            {"type": "object", "additionalProperties": N},
            {"type": "object", "additionalProperties": I},
            B,
        ),
        ("a model to a map", call(x=I), {"type": "object", "additionalProperties": N}, C),
        ("a map to a model", {"type": "object", "additionalProperties": I}, call(x=I), B),
        ("fewer properties", {"type": "object"}, {"type": "object", "maxProperties": 1}, B),
        ("named properties are few", call(x=I, y=I), {"type": "object", "maxProperties": 2}, C),
        ("a union gains", {"anyOf": [CAT, DOG]}, {"anyOf": [CAT, DOG, FISH]}, C),
        ("a union loses", {"anyOf": [CAT, DOG]}, {"anyOf": [CAT]}, B),
        ("one of a union gains", {"oneOf": [CAT, DOG]}, {"oneOf": [DOG, CAT, FISH]}, C),
        ("one of a union loses", {"oneOf": [CAT, DOG, FISH]}, {"oneOf": [DOG, CAT]}, B),
        ("any becomes one of", {"anyOf": [CAT, DOG]}, {"oneOf": [CAT, DOG]}, C),
        ("one of what overlaps", I, {"oneOf": [I, N]}, B),
        ("all of", {"allOf": [{**N, "minimum": 0}, {"maximum": 9}]}, {**N, "minimum": 0}, C),
        ("all of narrows", {**N, "minimum": 0}, {"allOf": [{**N, "minimum": 0}, {"maximum": 9}]}, B),
        ("not", S, {"not": {"type": "integer"}}, C),
        ("not what was taken", {"type": ["string", "integer"]}, {"not": {"type": "integer"}}, B),
        ("nothing fits", S, False, B),
        ("if", call(x=I), {**call(x=I), "if": {"required": ["x"]}, "then": {"minProperties": 1}}, U),
        ("contains", items(I), items(I, contains={"const": 1}), B),
        ("patterns of names", {"type": "object"}, {"type": "object", "patternProperties": {"^x": I}}, U),
        ("a reference elsewhere", S, {"$ref": "https://example.com/schema.json"}, U),
    ]:
        ARGUMENTS.append((name, call("v", v=old), call("v", v=new), effect))


_values()
ARGUMENTS += [
    ("a tree stays", call(t={"$ref": "#/$defs/tree"}) | {"$defs": {"tree": TREE}},
     call(t={"$ref": "#/$defs/node"}) | {"$defs": {"node": {**TREE, "properties": {**TREE["properties"],
          "children": items({"$ref": "#/$defs/node"})}}}}, C),
    ("a tree widens", call(t={"$ref": "#/$defs/tree"}) | {"$defs": {"tree": TREE}},
     call(t={"$ref": "#/$defs/tree"}) | {"$defs": {"tree": WIDE_TREE}}, C),
    ("a tree narrows", call(t={"$ref": "#/$defs/tree"}) | {"$defs": {"tree": WIDE_TREE}},
     call(t={"$ref": "#/$defs/tree"}) | {"$defs": {"tree": TREE}}, B),
    ("a model is put inside", call("p", p={"$ref": "#/$defs/P"}) | {"$defs": {"P": call("x", x=I)}},
     call("p", p=call("x", x=I)), C),
    ("deep inside", call("a", a=items(call("b", b=items(call("c", c={**I, "maximum": 5}))))),
     call("a", a=items(call("b", b=items(call("c", c={**I, "maximum": 4}))))), B),
    ("no schema to one with arguments", {"type": "object"}, call(a=S), B),
    ("an open schema gains an argument", {"type": "object", "properties": {"a": S}},
     {"type": "object", "properties": {"a": S, "b": I}}, C),
]  # fmt: skip
