"""pydantic's core schemas, rewritten so that they follow JSON Schema.

pydantic's own modes do not: the lax one takes "5" for a number, the strict one refuses 5.0 for an integer,
and both take a numeric string for a date and drop duplicates of a set without a word. Only the parts of a
schema that hold such a type are replaced, by the validators of values.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping
from decimal import Decimal
from ipaddress import IPv6Address
from typing import Any, TypeGuard, cast

from pydantic_core import CoreSchema, core_schema

from ..content.lazy import LeaveLoop, put_off_leaving
from ..protocol.jsonrpc import is_array, is_object
from . import foreign, foreign_core, object_keys, values

_CHILDREN = frozenset({
    "schema", "items_schema", "keys_schema", "values_schema", "extras_schema", "extras_keys_schema",
    "choices", "fields", "computed_fields", "definitions", "steps", "return_schema", "arguments_schema",
    "var_args_schema", "var_kwargs_schema", "json_schema", "python_schema", "strict_schema", "lax_schema"
})  # fmt: skip
_OWN = frozenset({"type", "strict", "ref", "metadata", "serialization"})
Node = dict[str, Any]
Rewrite = Callable[[Node], Any]


def validating(core: CoreSchema) -> CoreSchema:
    """Return the core schema that accepts what the type's JSON Schema accepts."""
    named = {each["ref"]: each for each in cast("Node", core).get("definitions", ())}
    return cast("CoreSchema", _walk(core, {**_TO_VALIDATE, "keys": _keys(named)}, _CHILDREN))


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
    node = {key: _walk(item, rewrites, children) if key in children else item for key, item in value.items()}
    rewrite = rewrites.get(kind)
    built = node if rewrite is None else rewrite(node)
    if "keys_schema" in value and "keys" in rewrites:
        return rewrites["keys"]({"mapping": built, "keys_schema": value["keys_schema"]})
    return built


def _keys(named: Mapping[str, Node]) -> Rewrite:
    """Return what gives a mapping the validator of its keys, which are strings whatever they stand for.

    Args:
        named: The definitions of the schema by their references.
    """

    def resolved(reference: Node) -> Any:
        # Its definition is that of a value, not that of a key.
        node = named[reference["schema_ref"]]
        return _walk({key: value for key, value in node.items() if key != "ref"}, rewrites, _CHILDREN)

    rewrites = {**_TO_VALIDATE, **object_keys.REWRITES, "definition-ref": resolved}

    def rewrite(node: Node) -> Any:
        keys = _walk(node["keys_schema"], rewrites, _CHILDREN)
        mapping = {**node["mapping"], "keys_schema": keys}
        if keys["type"] in ("str", "any"):
            return mapping
        reference = {"ref": mapping.pop("ref")} if "ref" in mapping else {}
        return {**object_keys.distinct(cast("CoreSchema", mapping), keys), **reference}

    return rewrite


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
    return _replaced(lambda node: values.temporal(name, _bare(node), node.get("tz_constraint")))


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
    return {**node, "strict": True, **values.FIRST_ONLY}


def _set(node: Node) -> Any:
    given = _constraints(node)
    items = given.pop("items_schema", None) or core_schema.any_schema()
    return values.hashed(frozenset if node["type"] == "frozenset" else set, items, **given)


def _field(node: Node) -> Node:
    alias = node.get("validation_alias")
    if is_array(alias):
        # The published name is the first that is one.
        paths: list[list[Any]] = [path if is_array(path) else [path] for path in alias]
        node["validation_alias"] = next((path[0] for path in paths if len(path) == 1), alias)
    return node


def _is_named_tuple(node: Node) -> bool:
    """Tell whether a call is what pydantic before 2.14 makes of a NamedTuple, which then has a kind of its own."""
    cls = node.get("function")
    return isinstance(cls, type) and issubclass(cls, tuple)


def _call(node: Node) -> Any:
    return values.array(cast("CoreSchema", node)) if _is_named_tuple(node) else node


def encoding(node: Mapping[str, Any]) -> str | None:
    """Return how texts are to be decoded for a type such as pydantic's `Base64Bytes`, "base64" or "base64url"."""
    coder: Any = getattr(node["function"]["function"], "__self__", None)
    if type(coder).__name__ != "EncodedBytes":
        return None
    name: str = coder.encoder.get_json_format()
    return name if name in ("base64", "base64url") else None


def _after(node: Node) -> Any:
    coding = encoding(node)
    if coding is not None:
        core = core_schema.bytes_schema()
        return values.base64_bytes(core) if coding == "base64" else values.base64url_bytes(core)
    # The class also reads a zone, as in "fe80::1%eth0", which is no part of an address in JSON Schema.
    is_ipv6 = node["function"]["function"] is IPv6Address
    return core_schema.chain_schema([values.formatted("ipv6"), cast("CoreSchema", node)]) if is_ipv6 else node


def _strict(node: Node) -> Any:
    # That of a defaultdict, and of an OrderedDict before pydantic 2.14, asks for one in Python, and then reads a second
    # time what has been read by then.
    is_twice = (
        node["lax_schema"]["type"] in ("function-wrap", "function-after")
        and node["strict_schema"]["type"] == "chain"
    )
    return node["lax_schema"] if is_twice else node["strict_schema"]


def _union(node: Node) -> Node:
    node = _lax_container(node)
    first = values.first_choices(
        [choice[0] if _is_labelled(choice) else choice for choice in node["choices"]]
    )
    if not first:
        return node
    reference = {"ref": node.pop("ref")} if "ref" in node else {}
    return {**values.in_order([*first, node]), **reference}


def _enum(node: Node) -> CoreSchema:
    return values.one_of(values.members(node["cls"]))


def _literal(node: Node) -> CoreSchema:
    return values.one_of([(values.plain(value), value) for value in node["expected"]])


def _foreign(node: Node) -> Any:
    if node.get("cls") is Hashable:  # a key or an item, in the words of pandas; in JSON, anything
        return core_schema.any_schema()
    found = foreign_core.of_node(node)
    return node if found is None else found.core


def _lax_or_strict(node: Node) -> Any:
    found = foreign_core.of_node(node)
    return _strict(node) if found is None else found.core


_TO_VALIDATE: dict[str, Rewrite] = {
    "int": _replaced(lambda node: values.integer(**_constraints(node))),
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
    "nullable": _lax_container,
    "union": _union,
    **dict.fromkeys(("model-field", "typed-dict-field", "dataclass-field"), _field),
    "named-tuple": _replaced(
        lambda node: values.array(cast("CoreSchema", {"type": node["type"], **_constraints(node)}))
    ),
    "call": _replaced(_call),
    "function-after": _replaced(_after),
    # An iterable of arguments is there as a whole; checked lazily, its errors would come from the function.
    "generator": _replaced(lambda node: core_schema.list_schema(node.get("items_schema"), strict=True)),
    "json-or-python": _replaced(lambda node: node["json_schema"]),
    "lax-or-strict": _replaced(_lax_or_strict),
    "is-instance": _replaced(_foreign),
    "fraction": _replaced(_foreign),
}


def _encode_named_tuple(value: Any) -> Any:
    from ..content.data import json_value

    return [json_value(item) for item in value]


def _serialized_call(node: Node) -> Node:
    # It says nothing of how the items are written.
    return _serialized_by(_encode_named_tuple)(node) if _is_named_tuple(node) else node


def _serialized_foreign(node: Node) -> Any:
    encode = None if foreign_core.of_node(node) is None else foreign.encoder(node["cls"])
    if encode is None:
        return node
    serializer = core_schema.plain_serializer_function_ser_schema(encode, when_used="json")
    return {"serialization": serializer, **node}


def _encode_base64(value: Any) -> Any:
    return values.encode_base64(value) if isinstance(value, (bytes, bytearray)) else value


_SERIALIZING = frozenset({"ser_json_temporal", "ser_json_timedelta", "ser_json_bytes", "ser_json_inf_nan"})


def _in_one_form(node: Node) -> Node:
    """Leave out which form an author's class gives to some values: there is one, that of the JSON Schema."""
    if "config" in node:
        node["config"] = {key: value for key, value in node["config"].items() if key not in _SERIALIZING}
    return node


def _of_its_class(node: Node) -> Node:
    """Write instances of the class alone: by itself, a class writes what it finds of its fields in any object."""
    node = _in_one_form(node)
    reference = {"ref": node.pop("ref")} if "ref" in node else {}
    choices: list[Any] = [node, core_schema.none_schema()]
    return {**core_schema.union_schema(choices), **reference}


def _serialized_enum(node: Node) -> Node:
    # Members that are no values of JSON are written as the schema says; all others are by pydantic itself.
    is_plain = all(values.plain(member) is member.value for member in node["cls"])
    return node if is_plain else _serialized_by(values.plain)(node)


def _encode_decimal(value: Any) -> Any:
    return f"{value:f}" if isinstance(value, Decimal) else value


def _serialized_by(encode: Callable[[Any], Any]) -> Rewrite:
    serializer = core_schema.plain_serializer_function_ser_schema(encode, when_used="json")

    def rewrite(node: Node) -> Node:
        return {"serialization": serializer, **node}

    return rewrite


def _encode_any(value: Any) -> Any:
    from ..content.data import json_value

    try:
        return json_value(value)
    except LeaveLoop:
        # Raised here it would only make pydantic try otherwise, and go through an iterator as it does.
        put_off_leaving()
        return None


def _names(node: Node) -> Node:
    """Let nothing become of two keys that are one name: only keys of several types can be."""
    if node.get("keys_schema", {}).get("type") in _DISTINCT:
        return node
    distinct = core_schema.wrap_serializer_function_ser_schema(_distinct, when_used="json")
    return {"serialization": distinct, **node}


_DISTINCT = frozenset({"str", "int", "float", "bool", "date", "datetime", "time", "uuid"})


def _distinct(mapping: Any, write: Callable[[Any], Any]) -> Any:
    written, given = write(mapping), mapping
    if isinstance(mapping, Mapping) and len(written) < len(given):
        raise ValueError("two keys are one name")  # which of them is told by whoever reads the value again
    return written


def _model(node: Node) -> Node:
    fields = node["schema"]
    if node.get("config", {}).get("extra_fields_behavior") == "allow" and fields["type"] == "model-fields":
        node["schema"] = {"extras_schema": _TO_SERIALIZE["any"]({"type": "any"}), **fields}
    return _of_its_class(node)


_TO_SERIALIZE: dict[str, Rewrite] = {
    "dict": _names,
    "model": _model,
    "dataclass": _of_its_class,
    "typed-dict": _in_one_form,
    "any": _serialized_by(_encode_any),
    "bytes": _serialized_by(_encode_base64),
    "decimal": _serialized_by(_encode_decimal),
    "enum": _serialized_enum,
    "is-instance": _serialized_foreign,
    "call": _serialized_call,
}
