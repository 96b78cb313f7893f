"""JSON Schemas in the form of fastmcp: without titles, and with inlined definitions."""

from __future__ import annotations

from collections.abc import Sequence
from types import UnionType
from typing import Annotated, Union, get_args, get_origin

from pydantic import BaseModel, PydanticSchemaGenerationError, TypeAdapter, create_model
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from ...protocol.jsonrpc import Json, is_object, without
from ...protocol.objects import Incomplete
from ...schema.json_schema import nodes, replaced
from ..sdk_models import BLOCKS, is_kind

_ANY = "typing.Any"
WRAPS = "x-fastmcp-wrap-result"
_NO_DATA = (*BLOCKS, "Image", "Audio", "File", "ToolResult", "CallToolResult")
_DEFINITIONS = "#/$defs/"
_SCHEMA = {"type", "properties", "$ref", "items", "allOf", "oneOf", "anyOf", "required"}
_SAID = {"title", "description", "deprecated", "readOnly", "writeOnly"}


def untitled(schema: Incomplete) -> Incomplete:
    """Return a schema without the titles that pydantic derives from names."""
    if not is_object(schema):
        return schema
    is_title = isinstance(schema.get("title"), str) and (
        not _SCHEMA.isdisjoint(schema) or schema.keys() <= _SAID
    )
    return replaced(without(schema, "title") if is_title else schema, lambda _, inner: untitled(inner))


def rooted(schema: Json) -> Json:
    """Return a schema with a type at its root instead of a reference."""
    name = schema.get("$ref", "").removeprefix(_DEFINITIONS)
    if "type" in schema or name not in schema.get("$defs", {}):
        return schema
    return {**schema["$defs"][name], **{key: value for key, value in schema.items() if key != "$ref"}}


def inlined(schema: Json) -> Json:
    """Return a schema without references, unless a definition contains itself."""
    defined = schema.get("$defs", {})
    if not defined or any(
        each.get("$ref") == _DEFINITIONS + name for name in defined for each in nodes(defined[name], schema)
    ):
        return schema

    def expand(value: Incomplete) -> Incomplete:
        if not is_object(value):
            return value
        rest = replaced(without(value, "$ref", "$defs"), lambda _, inner: expand(inner))
        if isinstance(reference := value.get("$ref"), str):
            return {**expand(defined[reference.removeprefix(_DEFINITIONS)]), **rest}
        return _tagged(rest, kind) if is_object(kind := rest.get("discriminator")) else rest

    found: Json = expand(schema)
    return found


def _tagged(union: Json, discriminator: Json) -> Json:
    """Return a union with members that require the tag, without the `discriminator` of OpenAPI."""
    union = {name: each for name, each in union.items() if name != "discriminator"}
    for key in {"anyOf", "oneOf"} & union.keys():
        tagged = {discriminator["propertyName"]: None}
        union[key] = [
            {**each, "required": [*dict.fromkeys(each.get("required", ())) | tagged]} for each in union[key]
        ]
    return union


class _AsDumped(GenerateJsonSchema):
    """Schema generator that names the members of each model as in its serialization."""

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        before, self.by_alias = self.by_alias, bool(schema["cls"].model_config.get("serialize_by_alias"))
        try:
            return super().model_schema(schema)
        finally:
            self.by_alias = before


def of_result(annotation: Incomplete) -> Json | None:
    """Return the output schema for a return annotation; None if it is not data, or has no information."""
    if _says_nothing(annotation) or _is_no_data(annotation):
        return None
    try:
        schema = _serialized(annotation)
        if not _is_object(schema, schema):
            model: type[BaseModel] = create_model("Wrapped", result=(annotation, ...))
            schema = {**_serialized(model), WRAPS: True}
    except PydanticSchemaGenerationError:
        return None
    found: Json = untitled(rooted(schema))
    return found or None


def _serialized(of: Incomplete) -> Json:
    return TypeAdapter(of).json_schema(mode="serialization", by_alias=False, schema_generator=_AsDumped)


def _is_object(schema: Json, root: Json) -> bool:
    return schema.get("type") == "object" or "properties" in schema or _is_object_reference(schema, root)


def _is_object_reference(schema: Json, root: Json) -> bool:
    name = str(schema.get("$ref")).removeprefix(_DEFINITIONS)
    return name in root.get("$defs", {}) and _is_object(root["$defs"][name], root)


def _arms(annotation: object) -> tuple[object, ...]:
    if get_origin(annotation) is Annotated:
        return _arms(get_args(annotation)[0])
    return get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)


def origin_of(annotation: object) -> Incomplete:
    """Return the generic type of an annotation; None if it has none."""
    return get_origin(annotation)


def is_open(annotation: object) -> bool:
    """Return True if an annotation accepts any value."""
    return annotation is None or annotation is ... or repr(annotation) == _ANY


def _says_nothing(annotation: Incomplete) -> bool:
    of: Incomplete
    of, *others = _arms(annotation)
    arms = get_args(of)
    if is_open(annotation) or (of in (list, tuple, Sequence) and not others):
        return True
    origin = origin_of(of)
    if others or origin not in (list, tuple, Sequence):
        return False
    return [*map(repr, arms)] == ([_ANY, repr(...)] if origin is tuple else [_ANY])


def _is_no_data(annotation: object) -> bool:
    def holds(each: object) -> bool:
        return (isinstance(each, type) and is_kind(each, *_NO_DATA)) or any(map(holds, get_args(each)))

    return bytes in _arms(annotation) or holds(annotation)
