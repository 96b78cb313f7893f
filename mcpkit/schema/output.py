"""The structured result of a tool: JSON Schema from the return annotation, and the check of each value."""

from __future__ import annotations

import collections.abc
import enum
from collections.abc import Iterator
from functools import cached_property
from types import UnionType
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin

from pydantic_core import (
    PydanticSerializationError,
    SchemaSerializer,
    SchemaValidator,
    ValidationError,
    from_json,
    to_json,
)
from typing_extensions import is_typeddict

from ..errors import OutputError, RegistrationError
from . import types
from .signature import empty
from .values import Json

_STRUCTURES = (tuple, enum.Enum)
# Annotations that promise nothing about the data.
_NOTHING: tuple[Any, ...] = (empty, Any, object, None, type(None), bytes, bytearray, memoryview)
_AWAITED = (collections.abc.Awaitable, collections.abc.Coroutine)


class Output:
    """What a tool returns, as clients see it.

    Args:
        described: The return type.
    """

    def __init__(self, described: types.Described) -> None:
        self._described = described
        schema = described.schema
        if "$ref" in schema:
            # A root that is a reference would hide from clients that it is an object.
            target = described.definitions[schema["$ref"].removeprefix("#/$defs/")]
            schema = {**target, **{key: value for key, value in schema.items() if key != "$ref"}}
        self.schema: Json = schema | ({"$defs": described.definitions} if described.definitions else {})
        self.is_wrapped = schema.get("type") != "object"

    @classmethod
    def of(cls, annotation: Any) -> Output | None:
        """Return what a return annotation promises.

        Args:
            annotation: The annotation; `Signature.returns`.

        Returns:
            None where no structured data is promised: nothing, `Any`, or content such as `Image`.

        Raises:
            RegistrationError: JSON has no form for the type.
            UnresolvedHint: The type needs a name that is not defined yet.
        """
        # A function that is not `async` may return what one returned.
        if get_origin(annotation) in _AWAITED:
            annotation = get_args(annotation)[-1]
        annotation = _without_extension_results(annotation)
        if _is_nothing(annotation) or any(_is_content(part) for part in _parts(annotation)):
            return None
        try:
            described = types.describe(annotation, "serialization")
        except RegistrationError:
            # A class that is no structure (an image of Pillow, a data frame) is shown, not described.
            if any(_is_opaque(part) for part in _parts(annotation)):
                return None
            raise
        # A type that is any value at all, such as what a custom serialiser makes, promises nothing.
        return cls(described) if described.schema.keys() - {"description", "title", "examples"} else None

    @cached_property
    def object_schema(self) -> Json:
        """The schema for revisions 2025-06-18 and 2025-11-25, which want an object as its root."""
        if not self.is_wrapped:
            return self.schema
        inner = {key: value for key, value in self.schema.items() if key != "$defs"}
        wrapped: Json = {"type": "object", "properties": {"result": inner}, "required": ["result"]}
        # References say `#/$defs/...`: the definitions stay at the root.
        return wrapped | ({"$defs": self.schema["$defs"]} if "$defs" in self.schema else {})

    @cached_property
    def _validator(self) -> SchemaValidator:
        from . import from_schema

        return from_schema.validator(self.schema)

    @cached_property
    def _serializer(self) -> SchemaSerializer | None:
        core = self._described.output
        return None if core is None else SchemaSerializer(core, _use_prebuilt=False)

    def dump(self, value: Any) -> Any:
        """Return a result as the JSON value that the schema describes.

        Args:
            value: What the tool returned.

        Returns:
            Dicts, lists, strings, numbers, booleans and None; NaN and the infinities are None if that fits.

        Raises:
            OutputError: The value does not fit the schema, or JSON has no form for it.
        """
        if self._described.is_plain:
            try:
                self._validator.validate_python(value)
            except ValidationError:
                pass  # It may still become what it should be: a tuple an array, NaN null.
            else:
                return value
        data = self._serialize(value)
        try:
            self._validator.validate_python(data)
        except ValidationError as error:
            from .arguments import from_validator
            from .problems import problems

            found = problems(self.schema, data) or from_validator(error, data, self.schema)
            wrong = "; ".join(map(str, found))
            raise OutputError(f"the returned value does not fit the output schema: {wrong}") from None
        return data

    def _serialize(self, value: Any) -> Any:
        try:
            if self._serializer is None:
                text = to_json(value, by_alias=True, bytes_mode="base64", inf_nan_mode="null")
            else:
                text = self._serializer.to_json(value, by_alias=True, warnings=False)
            return from_json(text, allow_inf_nan=False)
        except (PydanticSerializationError, ValueError) as error:
            raise OutputError(f"it has no form in JSON: {error}") from error


def _is_nothing(annotation: Any) -> bool:
    return isinstance(annotation, collections.abc.Hashable) and annotation in _NOTHING


def _parts(annotation: Any) -> Iterator[Any]:
    """Yield the types that an annotation is made of: itself, or those in its brackets."""
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from _parts(annotation.__origin__)
    elif origin is None:
        yield annotation
    elif origin is not Literal:
        for argument in get_args(annotation):
            yield from _parts(argument)


def _without_extension_results(annotation: Any) -> Any:
    """Leave out what is never held against the schema: results of types that extensions have brought."""
    if getattr(annotation, "__mcp_extension_result__", False):
        return None
    if get_origin(annotation) not in (Union, UnionType):
        return annotation
    kept = [part for part in get_args(annotation) if not getattr(part, "__mcp_extension_result__", False)]
    return Union[tuple(kept)] if kept else None  # noqa: UP007 - their number is not known here


def _is_content(part: Any) -> bool:
    return part in (bytes, bytearray, memoryview) or getattr(part, "__mcp_content__", False)


def _is_opaque(part: Any) -> bool:
    import dataclasses

    is_described = (
        dataclasses.is_dataclass(part)
        or is_typeddict(part)
        or hasattr(part, "__get_pydantic_core_schema__")
        or part in (str, int, float, bool, list, dict, tuple, set, frozenset, type(None))
    )
    return (
        isinstance(part, type) and not is_described and not issubclass(cast("type[Any]", part), _STRUCTURES)
    )
