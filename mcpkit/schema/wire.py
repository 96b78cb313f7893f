"""pydantic's core schemas, rewritten so that they follow JSON Schema.

pydantic's own modes do not: the lax one takes "5" for a number, the strict one refuses 5.0 for an integer,
and both take a numeric string for a date and drop duplicates of a set without a word. Only the parts of a
schema that hold such a type are replaced, by the validators of values.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from ipaddress import IPv6Address
from typing import Any, cast

from pydantic_core import CoreSchema, core_schema

from .._utils.core_schema import Node, Rewrite, choices_of, instead_of, is_named_tuple, rewritten
from ..protocol.jsonrpc import is_array, without
from . import object_keys, values
from .described import Described

_OWN = frozenset({"type", "strict", "ref", "metadata", "serialization"})


def validating(core: CoreSchema, of_node: Callable[[Node], Described | None]) -> CoreSchema:
    """Return the core schema that accepts what the type's JSON Schema accepts.

    Args:
        core: pydantic's.
        of_node: Describes a node of it that stands for a class which pydantic does not know.
    """

    def foreign(node: Node) -> Any:
        found = of_node(node)
        if found is not None:
            return found.core
        return _strict(node) if node["type"] == "lax-or-strict" else node

    rewrites = {
        **_TO_VALIDATE,
        **dict.fromkeys(("is-instance", "fraction", "lax-or-strict"), _replaced(foreign)),
    }
    named = {each["ref"]: each for each in cast("Node", core).get("definitions", ())}
    return cast("CoreSchema", rewritten(core, {**rewrites, "keys": _keys(rewrites, named)}))


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


def _keys(of_values: Mapping[str, Rewrite], named: Mapping[str, Node]) -> Rewrite:
    """Return what gives a mapping the validator of its keys, which are strings whatever they stand for.

    Args:
        of_values: What makes a core schema one of values.
        named: The definitions of the schema by their references.
    """

    def resolved(reference: Node) -> Any:
        # Its definition is that of a value, not that of a key.
        node = named[reference["schema_ref"]]
        return rewritten(without(node, "ref"), rewrites)

    rewrites = {**of_values, **object_keys.REWRITES, "definition-ref": resolved}

    def rewrite(node: Node) -> Any:
        keys = rewritten(node["keys_schema"], rewrites)
        mapping = {**node["mapping"], "keys_schema": keys}
        if keys["type"] in ("str", "any"):
            return mapping
        return instead_of(mapping, object_keys.distinct(cast("CoreSchema", mapping), keys))

    return rewrite


def _constraints(node: Node) -> Node:
    return without(node, *_OWN)


def _bare(node: Node) -> Any:
    """Return a leaf without what belongs to the place where it stands, which its replacement takes over."""
    return {"type": node["type"], **_constraints(node)}


def _replaced(build: Callable[[Node], Any]) -> Rewrite:
    return lambda node: instead_of(node, build(node))


def _formatted(name: str) -> Rewrite:
    return _replaced(lambda node: values.temporal(name, _bare(node), node.get("tz_constraint")))


def _decimal(node: Node) -> CoreSchema:
    return core_schema.chain_schema([values.string(pattern=decimal_pattern(node)), _bare(node)])


def _url(node: Node) -> CoreSchema:
    constraints = {"pattern": scheme_pattern(node["allowed_schemes"])} if node.get("allowed_schemes") else {}
    return core_schema.chain_schema([values.string(**constraints), values.formatted("uri"), _bare(node)])


def _lax_container(node: Node) -> Node:
    """Accept a JSON array or object, whatever Python types the author's class requires."""
    node.pop("strict", None)
    if "config" in node:
        node["config"] = without(node["config"], "strict", "coerce_numbers_to_str")
    return node


def _exact_container(node: Node) -> Node:
    # At the first item that does not fit it stops: what is wrong is found out by reading, within bounds.
    return {**node, "strict": True, "fail_fast": True}


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


def _call(node: Node) -> Any:
    return values.array(cast("CoreSchema", node)) if is_named_tuple(node) else node


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


def _union(node: Node) -> Any:
    node = _lax_container(node)
    first = values.first_choices(choices_of(node))
    return instead_of(node, values.in_order([*first, node])) if first else node


def _enum(node: Node) -> CoreSchema:
    return values.one_of(values.members(node["cls"]))


def _literal(node: Node) -> CoreSchema:
    return values.one_of([(values.plain(value), value) for value in node["expected"]])


TEMPORAL = {"datetime": "date-time", "date": "date", "time": "time", "timedelta": "duration"}
"""The format of each kind of time."""

_TO_VALIDATE: dict[str, Rewrite] = {
    "int": _replaced(lambda node: values.integer(**_constraints(node))),
    "float": _replaced(lambda node: values.number(**_constraints(node))),
    "str": _replaced(lambda node: values.string(**_constraints(node))),
    "bool": _replaced(lambda node: values.boolean()),
    "bytes": _replaced(lambda node: values.base64_bytes(_bare(node))),
    "decimal": _replaced(_decimal),
    **{kind: _formatted(name) for kind, name in TEMPORAL.items()},
    "uuid": _formatted("uuid"),
    "url": _replaced(_url),
    "enum": _replaced(_enum),
    "literal": _replaced(_literal),
    "set": _replaced(_set),
    "frozenset": _replaced(_set),
    "list": _exact_container,
    "dict": _exact_container,
    **dict.fromkeys(
        (
            "tuple",
            "deque",
            "model",
            "dataclass",
            "dataclass-args",
            "model-fields",
            "typed-dict",
            "tagged-union",
            "nullable",
        ),
        _lax_container,
    ),
    "union": _union,
    **dict.fromkeys(("model-field", "typed-dict-field", "dataclass-field"), _field),
    "named-tuple": _replaced(lambda node: values.array(_bare(node))),
    "call": _replaced(_call),
    "function-after": _replaced(_after),
    # An iterable of arguments is there as a whole; checked lazily, its errors would come from the function.
    "generator": _replaced(lambda node: core_schema.list_schema(node.get("items_schema"), strict=True)),
    "json-or-python": _replaced(lambda node: node["json_schema"]),
}
