"""Core schemas of pydantic: traversal, copies with changes, and their validators and serializers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, TypeGuard

from pydantic_core import CoreSchema, SchemaSerializer, SchemaValidator

Node = dict[str, Any]
Rewrite = Callable[[Node], Any]

CHILDREN = frozenset({
    "schema", "items_schema", "keys_schema", "values_schema", "extras_schema", "extras_keys_schema",
    "choices", "fields", "computed_fields", "definitions", "steps", "return_schema", "arguments_schema",
    "var_args_schema", "var_kwargs_schema", "json_schema", "python_schema", "strict_schema", "lax_schema"
})  # fmt: skip
"""Keys of schemas below which there are schemas that validate."""


def nodes(core: object, skipped: Collection[str] = ()) -> Iterator[dict[str, Any]]:
    """Yield a core schema and those that are written within it.

    Args:
        core: The schema, or several.
        skipped: Keys of schemas below which nothing is looked for.
    """
    if _is_mapping(core):
        is_node = isinstance(core.get("type"), str)  # else these are fields by name, or a default value
        if is_node:
            yield core
        for key, inner in core.items():
            if not (is_node and key in skipped):
                yield from nodes(inner, skipped)
    elif _is_sequence(core):
        for inner in core:
            yield from nodes(inner, skipped)


def copied(core: Any, change: Callable[[Any], Any], unchanged: Collection[str] = ()) -> Any:
    """Return a copy of a core schema with changed inner values.

    Args:
        core: The schema, or several.
        change: Returns the replacement of an inner value.
        unchanged: Keys of schemas with unchanged values.
    """
    if _is_mapping(core):
        unchanged = unchanged if isinstance(core.get("type"), str) else ()
        return {key: inner if key in unchanged else change(inner) for key, inner in core.items()}
    return type(core)(map(change, core)) if _is_sequence(core) else core


def _is_mapping(core: object) -> TypeGuard[dict[str, Any]]:
    return isinstance(core, dict)


def _is_sequence(core: object) -> TypeGuard[list[object] | tuple[object, ...]]:
    return type(core) in (list, tuple)  # a default value may be of a class derived from these


def _has_label(value: Any) -> TypeGuard[tuple[Any, Any]]:
    """Return True if a choice of a union has a label."""
    return isinstance(value, tuple)


def choices_of(union: Node) -> list[Node]:
    """Return the choices of a union, without their labels."""
    return [choice[0] if _has_label(choice) else choice for choice in union["choices"]]


def rewritten(value: Any, rewrites: Mapping[str, Rewrite], children: Collection[str] = CHILDREN) -> Any:
    """Return a copy of a core schema with rewritten nodes, from the innermost outwards.

    Args:
        value: The schema, or several.
        rewrites: Functions that replace a node, by its type; under "keys", one for each node with keys.
        children: Keys of nodes with inner schemas.
    """
    if _has_label(value):
        return (rewritten(value[0], rewrites, children), value[1])
    if _is_sequence(value):
        return [rewritten(item, rewrites, children) for item in value]
    if not _is_mapping(value):
        return value
    kind = value.get("type")
    if not isinstance(kind, str):  # a mapping of names to schemas
        return {name: rewritten(item, rewrites, children) for name, item in value.items()}
    node = {
        key: rewritten(item, rewrites, children) if key in children else item for key, item in value.items()
    }
    rewrite = rewrites.get(kind)
    built = node if rewrite is None else rewrite(node)
    if "keys_schema" in value and "keys" in rewrites:
        return rewrites["keys"]({"mapping": built, "keys_schema": value["keys_schema"]})
    return built


def instead_of(node: Node, built: Any) -> Any:
    """Return the replacement of a node with its reference, which is removed from the node."""
    return {**built, "ref": node.pop("ref")} if "ref" in node else built


def is_named_tuple(node: Node) -> bool:
    """Return True if a call schema is the form of a NamedTuple before pydantic 2.14, which has its own type for it."""
    cls = node.get("function")
    return isinstance(cls, type) and issubclass(cls, tuple)


# Validators and serializers


# pydantic prefers the validator and serializer that it has built for a class to the schema of the class. The schemas
# of mcpkit contain more, as they follow JSON Schema. `_use_prebuilt`, which pydantic itself uses to rebuild a class, is
# the only way to turn that off.


def validator(core: CoreSchema) -> SchemaValidator:
    """Return the validator of a schema.

    Raises:
        SchemaError: The schema is invalid.
    """
    return SchemaValidator(core, _use_prebuilt=False)


def serializer(core: CoreSchema) -> SchemaSerializer:
    """Return the serializer of a schema.

    Raises:
        SchemaError: The schema is invalid.
    """
    return SchemaSerializer(core, _use_prebuilt=False)
