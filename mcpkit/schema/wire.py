"""pydantic's core schemas, rewritten so that they follow JSON Schema.

pydantic's own modes do not: the lax one takes "5" for a number, the strict one refuses 5.0 for an integer,
and both take a numeric string for a date and drop duplicates of a set without a word. Only the parts of a
schema that hold such a type are replaced, by the validators of values.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from ipaddress import IPv6Address
from typing import Any, TypeGuard, cast

from pydantic_core import CoreSchema, core_schema

from ..protocol.jsonrpc import is_array, is_object
from . import values

_CHILDREN = frozenset(
    {
        *("schema", "items_schema", "keys_schema", "values_schema", "extras_schema", "extras_keys_schema"),
        *("choices", "fields", "computed_fields", "definitions", "steps", "return_schema"),
        *("arguments_schema", "var_args_schema", "var_kwargs_schema"),
        *("json_schema", "python_schema", "strict_schema", "lax_schema"),
    }
)
_OWN = frozenset({"type", "strict", "ref", "metadata", "serialization"})
INTEGER_KEY = "^-?[0-9]+$"
Node = dict[str, Any]
Rewrite = Callable[[Node], Any]


def validating(core: CoreSchema) -> CoreSchema:
    """Return the core schema that accepts what the type's JSON Schema accepts."""
    return cast("CoreSchema", _walk(core, _TO_VALIDATE, _CHILDREN))


def serializing(core: CoreSchema) -> CoreSchema:
    """Return the core schema that serialises what the type's JSON Schema describes."""
    return cast("CoreSchema", _walk(core, _TO_SERIALIZE, _CHILDREN | {"serialization"}))


def scheme_pattern(schemes: list[str]) -> str:
    """Return the pattern of URLs with one of a few schemes."""
    return f"^(?:{'|'.join(map(re.escape, schemes))}):"


def decimal_pattern(schema: Mapping[str, Any]) -> str:
    """Return the pattern of decimal numbers with at most so many places as a decimal schema allows."""
    places = schema.get("decimal_places")
    if places is None:
        return values.DECIMAL_PATTERN
    if places == 0:
        return r"^-?[0-9]+$"
    return rf"^-?[0-9]+(\.[0-9]{{1,{places}}})?$"


def _is_labelled(value: Any) -> TypeGuard[tuple[Any, Any]]:
    """Tell whether a choice of a union comes with a label."""
    return isinstance(value, tuple)


def _walk(value: Any, rewrites: Mapping[str, Rewrite], children: frozenset[str]) -> Any:
    if is_array(value):
        return [_walk(item, rewrites, children) for item in value]
    if _is_labelled(value):
        return (_walk(value[0], rewrites, children), value[1])
    if not is_object(value):
        return value
    kind = value.get("type")
    if not isinstance(kind, str):  # a mapping of names to schemas
        return {name: _walk(item, rewrites, children) for name, item in value.items()}
    if kind == "dict" and value.get("keys_schema", {}).get("type") == "int":
        # Keys of JSON objects are strings, whatever they stand for.
        value = {**value, "keys_schema": {**value["keys_schema"], "type": "int-key"}}
    node = {key: _walk(item, rewrites, children) if key in children else item for key, item in value.items()}
    rewrite = rewrites.get(kind)
    return node if rewrite is None else rewrite(node)


def _constraints(node: Node) -> Node:
    return {key: value for key, value in node.items() if key not in _OWN}


def _bare(node: Node) -> Any:
    """Return a leaf without what belongs to the place where it stands, which its replacement takes over."""
    return {"type": node["type"], **_constraints(node)}


def _replaced(build: Callable[[Node], Any]) -> Rewrite:
    def rewrite(node: Node) -> Any:
        built = build(node)
        return {**built, "ref": node["ref"]} if "ref" in node else built

    return rewrite


def _formatted(name: str) -> Rewrite:
    return _replaced(lambda node: values.formatted(name, _bare(node)))


def _integer_key(node: Node) -> CoreSchema:
    convert = cast("CoreSchema", {"type": "int", **_constraints(node)})
    return core_schema.chain_schema([values.string(pattern=INTEGER_KEY), convert])


def _decimal(node: Node) -> CoreSchema:
    return core_schema.chain_schema([values.string(pattern=decimal_pattern(node)), _bare(node)])


def _url(node: Node) -> CoreSchema:
    constraints = {"pattern": scheme_pattern(node["allowed_schemes"])} if node.get("allowed_schemes") else {}
    return core_schema.chain_schema([values.string(**constraints), values.formatted("uri"), _bare(node)])


def _lax_container(node: Node) -> Node:
    """Let a JSON array or object in, whatever the author's class says of Python's types."""
    node.pop("strict", None)
    if "config" in node:
        node["config"] = {
            k: v for k, v in node["config"].items() if k not in ("strict", "coerce_numbers_to_str")
        }
    return node


def _exact_container(node: Node) -> Node:
    return {**node, "strict": True}


def _set(node: Node) -> Any:
    return values.unique(cast("CoreSchema", {"type": node["type"], **_constraints(node)}))


def _field(node: Node) -> Node:
    alias = node.get("validation_alias")
    if is_array(alias):
        # The published name is the first that is one.
        paths: list[list[Any]] = [path if is_array(path) else [path] for path in alias]
        node["validation_alias"] = next((path[0] for path in paths if len(path) == 1), alias)
    return node


def _call(node: Node) -> Any:
    # What pydantic 2.13 makes of a NamedTuple; from 2.14 on it has a kind of its own.
    cls = node.get("function")
    is_named_tuple = isinstance(cls, type) and issubclass(cls, tuple)
    return values.array(cast("CoreSchema", node)) if is_named_tuple else node


def _after(node: Node) -> Any:
    # The class also reads a zone, as in "fe80::1%eth0", which is no part of an address in JSON Schema.
    is_ipv6 = node["function"]["function"] is IPv6Address
    return values.formatted("ipv6", cast("CoreSchema", node)) if is_ipv6 else node


def _enum(node: Node) -> CoreSchema:
    return values.one_of([(member.value, member) for member in node["members"]])


def _literal(node: Node) -> CoreSchema:
    return values.one_of([(getattr(value, "value", value), value) for value in node["expected"]])


_TO_VALIDATE: dict[str, Rewrite] = {
    "int": _replaced(lambda node: values.integer(**_constraints(node))),
    "int-key": _replaced(_integer_key),
    "float": _replaced(lambda node: values.number(**_constraints(node))),
    "str": _replaced(lambda node: values.string(**_constraints(node))),
    "bool": _replaced(lambda node: values.boolean()),
    "bytes": _replaced(lambda node: values.base64_bytes(_bare(node))),
    "decimal": _replaced(_decimal),
    "datetime": _formatted("date-time"),
    "date": _formatted("date"),
    "time": _formatted("time"),
    "timedelta": _formatted("duration"),
    "uuid": _formatted("uuid"),
    "url": _replaced(_url),
    "enum": _replaced(_enum),
    "literal": _replaced(_literal),
    "set": _replaced(_set),
    "frozenset": _replaced(_set),
    "list": _exact_container,
    "dict": _exact_container,
    "tuple": _lax_container,
    "deque": _lax_container,
    "model": _lax_container,
    "dataclass": _lax_container,
    "dataclass-args": _lax_container,
    "model-fields": _lax_container,
    "typed-dict": _lax_container,
    "tagged-union": _lax_container,
    "union": _lax_container,
    "nullable": _lax_container,
    "model-field": _field,
    "typed-dict-field": _field,
    "dataclass-field": _field,
    "named-tuple": _replaced(
        lambda node: values.array(cast("CoreSchema", {"type": node["type"], **_constraints(node)}))
    ),
    "call": _replaced(_call),
    "function-after": _after,
    # An iterable of arguments is there as a whole; checked lazily, its errors would come from the function.
    "generator": _replaced(lambda node: core_schema.list_schema(node.get("items_schema"), strict=True)),
    "json-or-python": _replaced(lambda node: node["json_schema"]),
    "lax-or-strict": _replaced(lambda node: node["strict_schema"]),
}


def _encode_base64(value: Any) -> Any:
    return values.encode_base64(value) if isinstance(value, (bytes, bytearray)) else value


def _encode_decimal(value: Any) -> Any:
    return f"{value:f}" if isinstance(value, Decimal) else value


def _serialized_by(encode: Callable[[Any], Any]) -> Rewrite:
    serializer = core_schema.plain_serializer_function_ser_schema(encode, when_used="json")

    def rewrite(node: Node) -> Node:
        return {"serialization": serializer, **node}

    return rewrite


_TO_SERIALIZE: dict[str, Rewrite] = {
    "bytes": _serialized_by(_encode_base64),
    "decimal": _serialized_by(_encode_decimal),
}
