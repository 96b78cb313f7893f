"""Serializers that follow the JSON Schemas of types: rewritten core schemas of pydantic."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from decimal import Decimal
from functools import cache
from typing import Any, cast

from pydantic_core import CoreSchema, SchemaSerializer, core_schema

from .._utils.core_schema import CHILDREN, Node, Rewrite, instead_of, is_named_tuple, rewritten
from ..protocol.jsonrpc import SCALARS, without
from .blocks import LeaveLoop, base64
from .third_party import encoder

_DISTINCT_KEYS = frozenset({"str", "int", "float", "bool", "date", "datetime", "time", "uuid"})
"""Types of keys that have different names in JSON."""

_FORMS = ("ser_json_temporal", "ser_json_timedelta", "ser_json_bytes", "ser_json_inf_nan")
"""Settings of an author's class that change the form in JSON; the JSON Schema has one form only."""

_must_leave_loop: ContextVar[bool] = ContextVar("_must_leave_loop", default=False)


def serialized(serializer: SchemaSerializer, value: Any) -> bytes:
    """Return the JSON of a value by a serializer of a `serializing` schema. A value of another type is an error.

    Args:
        serializer: The serializer.
        value: The value.

    Raises:
        LeaveLoop: The conversion may block, and this is the thread of an event loop.
        Exception: Raised by pydantic or the author's code.
    """
    try:
        return serializer.to_json(value, by_alias=True, warnings="error")
    finally:
        if _must_leave_loop.get():
            _must_leave_loop.set(False)
            raise LeaveLoop


def serializing(core: CoreSchema, json_value: Callable[[Any], Any]) -> CoreSchema:
    """Return a core schema with serializers that follow the JSON Schema of the type.

    Args:
        core: Core schema of pydantic.
        json_value: Returns the JSON value of a value without a declared type.
    """
    return cast("CoreSchema", rewritten(core, _rewrites(json_value), CHILDREN | {"serialization"}))


@cache
def _rewrites(json_value: Callable[[Any], Any]) -> Mapping[str, Rewrite]:
    """Return the functions that rewrite the nodes of a core schema, by type of the node."""

    def serialized_by(encode: Callable[[Any], Any]) -> Rewrite:
        serialization = core_schema.plain_serializer_function_ser_schema(encode, when_used="json")
        return lambda node: {"serialization": serialization, **node}

    def encode_any(value: Any) -> Any:
        try:
            return json_value(value)
        except LeaveLoop:
            # Raised here, pydantic would catch it, try other choices of a union, and consume an iterator.
            _must_leave_loop.set(True)
            return None

    by_value = serialized_by(encode_any)

    def instance(node: Node) -> Node:
        cls: Any = node["cls"]
        # pydantic knows the items of the classes of `collections`, which have the same type of node.
        is_other = isinstance(cls, type) and cls.__module__ not in ("collections", "collections.abc")
        return by_value(node) if is_other and encoder(cls) is not None else node

    def enumeration(node: Node) -> Node:
        # pydantic writes members that are JSON values; the others follow the schema.
        return node if all(type(member.value) in SCALARS for member in node["cls"]) else by_value(node)

    def model(node: Node) -> Any:
        fields, config = node["schema"], node.get("config", {})
        if config.get("extra_fields_behavior") == "allow" and fields["type"] == "model-fields":
            node["schema"] = {"extras_schema": by_value({"type": "any"}), **fields}
        return _of_class(node)

    return {
        "dict": _mapping,
        "model": model,
        "dataclass": _of_class,
        "typed-dict": _typed_dict,
        "any": by_value,
        "bytes": serialized_by(
            lambda value: base64(value) if isinstance(value, (bytes, bytearray)) else value
        ),
        "decimal": serialized_by(lambda value: f"{value:f}" if isinstance(value, Decimal) else value),
        "enum": enumeration,
        "is-instance": instance,
        "call": lambda node: (
            by_value(node) if is_named_tuple(node) else node
        ),  # it has no schemas of the items
    }


def _typed_dict(node: Node) -> Node:
    if "config" in node:
        node["config"] = without(node["config"], *_FORMS)
    return node


def _of_class(node: Node) -> Any:
    # A union accepts only instances of the class; a model alone writes the fields that any object has.
    choices: list[Any] = [_typed_dict(node), core_schema.none_schema()]
    return instead_of(node, core_schema.union_schema(choices))


def _mapping(node: Node) -> Node:
    def write_distinct(value: Any, write: Callable[[Any], Any]) -> Any:
        members, given = write(value), value
        if isinstance(value, Mapping) and len(members) < len(given):
            # The value is converted again, and the error then has the keys.
            raise ValueError("two keys of a dict become the same JSON member; use strings as keys")
        return members

    if node.get("keys_schema", {}).get("type") in _DISTINCT_KEYS:
        return node
    distinct = core_schema.wrap_serializer_function_ser_schema(write_distinct, when_used="json")
    return {"serialization": distinct, **node}
