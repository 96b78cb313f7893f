"""Serializers that follow the JSON Schemas of types: rewritten core schemas of pydantic."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import cache
from typing import Any, cast

from pydantic_core import CoreSchema, core_schema

from .._utils.core_schema import CHILDREN, Node, Rewrite, instead_of, is_named_tuple, rewritten
from ..protocol.jsonrpc import without
from . import foreign
from .blocks import base64
from .lazy import LeaveLoop, put_off_leaving
from .plain import is_json


def serializing(core: CoreSchema, json_value: Callable[[Any], Any]) -> CoreSchema:
    """Return a core schema with serializers that follow the JSON Schema of the type.

    Args:
        core: Core schema of pydantic.
        json_value: Returns the JSON value of a value without a declared type.
    """
    return cast("CoreSchema", rewritten(core, _rewrites(json_value), CHILDREN | {"serialization"}))


@cache
def _rewrites(json_value: Callable[[Any], Any]) -> Mapping[str, Rewrite]:
    def encode_any(value: Any) -> Any:
        try:
            return json_value(value)
        except LeaveLoop:
            # Raised here it would only make pydantic try otherwise, and go through an iterator as it does.
            put_off_leaving()
            return None

    of_any = _serialized_by(encode_any)

    def call(node: Node) -> Node:
        # It says nothing of how the items are written.
        return of_any(node) if is_named_tuple(node) else node

    def instance(node: Node) -> Node:
        cls: Any = node["cls"]
        # pydantic itself knows what is in those of `collections`, for which it asks in the same words.
        is_foreign = isinstance(cls, type) and cls.__module__ not in ("collections", "collections.abc")
        return of_any(node) if is_foreign and foreign.encoder(cls) is not None else node

    def enumeration(node: Node) -> Node:
        # Members that are no values of JSON are written as the schema says; all others are by pydantic itself.
        return node if all(is_json(member.value) for member in node["cls"]) else of_any(node)

    def model(node: Node) -> Any:
        fields, config = node["schema"], node.get("config", {})
        if config.get("extra_fields_behavior") == "allow" and fields["type"] == "model-fields":
            node["schema"] = {"extras_schema": of_any({"type": "any"}), **fields}
        return _of_its_class(node)

    return {
        "dict": _names,
        "model": model,
        "dataclass": _of_its_class,
        "typed-dict": _in_one_form,
        "any": of_any,
        "bytes": _serialized_by(_encode_base64),
        "decimal": _serialized_by(_encode_decimal),
        "enum": enumeration,
        "is-instance": instance,
        "call": call,
    }


def _serialized_by(encode: Callable[[Any], Any]) -> Rewrite:
    serializer = core_schema.plain_serializer_function_ser_schema(encode, when_used="json")

    def rewrite(node: Node) -> Node:
        return {"serialization": serializer, **node}

    return rewrite


def _encode_base64(value: Any) -> Any:
    return base64(value) if isinstance(value, (bytes, bytearray)) else value


def _encode_decimal(value: Any) -> Any:
    return f"{value:f}" if isinstance(value, Decimal) else value


_SERIALIZING = frozenset({"ser_json_temporal", "ser_json_timedelta", "ser_json_bytes", "ser_json_inf_nan"})


def _in_one_form(node: Node) -> Node:
    """Remove the serialization settings of an author's class, as the JSON Schema has one form only."""
    if "config" in node:
        node["config"] = without(node["config"], *_SERIALIZING)
    return node


def _of_its_class(node: Node) -> Any:
    """Accept only instances of the class; pydantic alone writes the fields that any object has."""
    node = _in_one_form(node)
    choices: list[Any] = [node, core_schema.none_schema()]
    return instead_of(node, core_schema.union_schema(choices))


def _names(node: Node) -> Node:
    """Refuse mappings in which two keys become one name; only keys of several types can."""
    if node.get("keys_schema", {}).get("type") in _DISTINCT:
        return node
    distinct = core_schema.wrap_serializer_function_ser_schema(_distinct, when_used="json")
    return {"serialization": distinct, **node}


_DISTINCT = frozenset({"str", "int", "float", "bool", "date", "datetime", "time", "uuid"})


def _distinct(mapping: Any, write: Callable[[Any], Any]) -> Any:
    written, given = write(mapping), mapping
    if isinstance(mapping, Mapping) and len(written) < len(given):
        raise ValueError(
            "two keys of a dict become the same JSON member; use strings as keys"
        )  # which of them is told by whoever reads the value again
    return written
