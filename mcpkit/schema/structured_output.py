"""The structured result of a tool: JSON Schema from the return annotation, and the check of each value."""

from __future__ import annotations

import collections.abc
import enum
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cached_property
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn, Union, get_args, get_origin

from pydantic_core import SchemaSerializer, SchemaValidator, ValidationError, from_json, to_json
from typing_extensions import Never, is_typeddict

from .._utils.exceptions import HandlerError, OutputError, ProtocolError, RegistrationError
from ..content.blocks import may_block, path
from ..content.iterators_and_third_party_values import has_own_renderer, renderer
from ..content.json_encoding import (
    check_sendable,
    checked_json,
    infinite_places,
    is_json,
    json_value,
    json_without_bytes,
    serialized,
    serializer,
    unrolled,
)
from ..protocol.jsonrpc import Json, is_object, without
from . import json_schema
from .fast_path_for_builtin_types import describe
from .function_signatures import empty, is_bare
from .json_schema import Described, published
from .value_validators import validator

if TYPE_CHECKING:
    from .validation_errors import Reader

_MAX_LINES = 5


class Output:
    """Result of a tool: JSON Schema, validator and serializer.

    Args:
        described: The return type.
        reader: Returns the reader that explains errors, if the author wrote the schema. The validator then leaves
            values unchanged.
    """

    def __init__(self, described: Described, reader: Callable[[], Reader] | None = None) -> None:
        self._described = described
        self._reader = reader
        schema = described.schema
        if schema.get("$ref", "").removeprefix("#/$defs/") in described.definitions:
            # Clients would not see that a root that is a reference is an object.
            schema = json_schema.target(schema, {"$defs": described.definitions})
        self._whole: Json = schema | ({"$defs": described.definitions} if described.definitions else {})
        check_sendable("", "schema", self._whole)
        self.schema = published(self._whole)
        self.is_wrapped = schema.get("type") != "object"

    @classmethod
    def of(cls, annotation: Any) -> Output | None:
        """Return the structured result of a return annotation.

        Args:
            annotation: The annotation; `Signature.returns`.

        Returns:
            None if no structured data is promised: nothing, `Any`, or content such as `Image`.

        Raises:
            RegistrationError: JSON has no form for the type.
            UnresolvedHint: The type needs a name that is not defined yet.
        """
        # A function that is not `async` may return an awaitable.
        if get_origin(annotation) in (collections.abc.Awaitable, collections.abc.Coroutine):
            annotation = get_args(annotation)[-1]
        annotation = _without_extension_results(annotation)
        if get_origin(annotation) in _ITERATORS:
            item = (*get_args(annotation), Any)[0]
            annotation = list[item]  # type: ignore[valid-type]  # the items are sent
        has_content = any(getattr(part, "__mcp_content__", False) for part in _parts(annotation))
        if has_content or _may_be_content(annotation):
            return None
        try:
            described = describe(annotation, "serialization")
        except RegistrationError:
            # A class without fields (an image of Pillow, a data frame) is sent as content.
            if any(_is_opaque(part) for part in _parts(annotation)):
                return None
            raise
        # A type that accepts any value, such as one with an unknown serializer, promises nothing.
        return cls(described) if described.schema.keys() - {"description", "title", "examples"} else None

    @classmethod
    def explicit(cls, schema: Any) -> Output:
        """Return the structured result that an author describes instead of the return annotation (`output_schema=`).

        Args:
            schema: A JSON Schema 2020-12 as a dict, or a type.

        Raises:
            RegistrationError: The schema is not valid, has a reference without a target, or is a type without data.
            UnresolvedHint: The type needs a name that is not defined yet.
        """
        if isinstance(schema, (str, bytes, list, tuple, bool, int)):
            raise RegistrationError(
                f"output_schema: {schema!r} is neither a JSON Schema nor a type; pass a dict or a class"
            )
        if not is_object(schema):
            found = cls.of(schema)
            if found is None:
                raise RegistrationError(
                    f"output_schema: {schema!r} declares no data; use a type that does, or a JSON Schema as a dict"
                )
            return found
        from . import custom_schemas

        found = cls(*custom_schemas.described("output_schema", schema))
        references = (node.get("$ref") for node in json_schema.nodes(schema))
        local = (each for each in references if isinstance(each, str) and each.startswith("#"))
        outside = next((each for each in local if not each.startswith("#/$defs/")), None)
        if found.is_wrapped and outside is not None:
            raise RegistrationError(
                f"output_schema: its root is not an object, and some protocol versions wrap it in one, which breaks "
                f"$ref {outside!r}; move the definition under `$defs`"
            )
        return found

    @cached_property
    def object_schema(self) -> Json:
        """The schema for revisions 2025-06-18 and 2025-11-25, which require an object as its root."""
        if not self.is_wrapped:
            return self.schema
        inner = without(self.schema, "$defs")
        wrapped: Json = {"type": "object", "properties": {"result": inner}, "required": ["result"]}
        # References are `#/$defs/...`: the definitions stay at the root.
        return wrapped | ({"$defs": self.schema["$defs"]} if "$defs" in self.schema else {})

    def dump(self, value: Any) -> Any:
        """Return a result as the JSON value that the schema describes.

        Args:
            value: The return value of the tool.

        Returns:
            Dicts, lists, strings, numbers, booleans and None; NaN and the infinities are None, or will be written as
            null, if None fits.

        Raises:
            LeaveLoop: Each of its values must be read, or may block, and this is the thread of an event loop.
            OutputError: The value does not fit the schema, or JSON has no form for it; the text names the place.
            HandlerError: The author's code raised an exception while the value was read.
        """
        if self._described.is_plain:
            try:
                checked = self._validator.validate_python(value)
            except ValidationError:
                pass  # It may still become JSON: a tuple an array, NaN null.
            else:
                return checked if self._may_contain_numbers and not is_json(value) else value
        if self.schema.get("type") == "array" and type(value) not in (list, tuple):
            value = unrolled(value)
        data = self._serialize(value)
        try:
            self._validator.validate_python(data)
        except ValidationError as error:
            may_block()  # as each value is read now
            data = checked_json(data)  # JSON already, but perhaps not its numbers and strings
            if self._validator.isinstance_python(data):
                return data
            raise self._misfit(value, data, error) from None
        return data

    @cached_property
    def _validator(self) -> SchemaValidator:
        from .pydantic_validators import validator_of

        return validator_of(self._whole) if self._reader is None else validator(self._described.core)

    @cached_property
    def _may_contain_numbers(self) -> bool:
        # The validator accepts numbers that `float` accepts, those of numpy among them.
        return b'"number"' in to_json(self.schema)

    @cached_property
    def _serializer(self) -> SchemaSerializer | None:
        core = self._described.output
        return None if core is None else serializer(core)

    def _serialize(self, value: Any) -> Any:
        if self._described.is_plain:
            return json_without_bytes(value)
        if self._serializer is None:
            return json_value(value)
        try:
            return from_json(serialized(self._serializer, value))  # a value of another type is an error
        except (HandlerError, ProtocolError):
            raise
        except Exception:  # noqa: BLE001 - of pydantic or the author's code; read again to find the place
            data = json_value(value)
            if not self._validator.isinstance_python(data):
                with suppress(Exception):  # of pydantic or the author's code; the caller reports the place
                    text = self._serializer.to_json(value, by_alias=True, warnings=False, fallback=json_value)
                    lenient = from_json(text)
                    if self._validator.isinstance_python(lenient):
                        return lenient
            return data

    def _misfit(self, value: Any, data: Any, error: ValidationError) -> OutputError:
        """Return the error with the places at which a result does not match its schema."""
        from .argument_validation_and_repair import from_validator
        from .validation_errors import Reader, guessed, problems_of

        infinite = infinite_places(value)
        reader = Reader(self.schema) if self._reader is None else self._reader()
        found = list(guessed(reader.faults(data)))
        for fault in found:
            if (number := infinite.get(fault.steps)) is not None:
                return OutputError(
                    f"{path(('result', *fault.steps))} cannot be converted to JSON: {number}; return None or a string "
                    "there, and allow it in the type"
                )
        wrong = problems_of(found) or from_validator(error, data, self.schema)
        lines: list[str] = []
        for field, message in wrong[:_MAX_LINES]:
            lines.append(f"result{'' if not field or field.startswith('[') else '.'}{field}: {message}")
        more = f"; and {len(wrong) - len(lines)} more" if len(wrong) > len(lines) else ""
        return OutputError(
            f"{'; '.join(lines)}{more}; return a value of the declared type, or change the type"
        )


# --- Annotations

_ITERATORS = (
    *(collections.abc.Iterable, collections.abc.Iterator, collections.abc.Generator),
    *(collections.abc.AsyncIterable, collections.abc.AsyncIterator, collections.abc.AsyncGenerator),
)
_LISTS = (list, tuple, collections.abc.Sequence, collections.abc.Collection)
# Annotations that promise nothing about the data, and may stand for content.
_OPEN: tuple[Any, ...] = (empty, Any, object, None, type(None), Never, NoReturn, *_LISTS, *_ITERATORS)


def _may_be_content(annotation: Any) -> bool:
    """Return whether values of an annotation may be content: it is unspecific, or has bytes."""
    plain = get_origin(annotation) if is_bare(annotation) else annotation
    if any(plain is each for each in _OPEN) or annotation in (bytes, bytearray, memoryview):
        return True
    origin = get_origin(annotation)
    if origin is Annotated:
        return _may_be_content(annotation.__origin__)
    if origin is None:  # a table, a figure
        return isinstance(annotation, type) and (
            has_own_renderer(annotation) or (_is_opaque(annotation) and renderer(annotation) is not None)
        )
    return origin in (*_LISTS, Union, UnionType) and any(
        part not in (None, type(None)) and _may_be_content(part) for part in get_args(annotation)
    )


def _parts(annotation: Any) -> Iterator[Any]:
    """Yield the types in an annotation: itself, or those in its brackets."""
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from _parts(annotation.__origin__)
    elif origin is None:
        yield annotation
    elif origin is not Literal:
        for argument in get_args(annotation):
            yield from _parts(argument)


def _without_extension_results(annotation: Any) -> Any:
    """Return an annotation without the results of extensions, which are not compared with the schema."""
    if getattr(annotation, "__mcp_extension_result__", False):
        return None
    if get_origin(annotation) not in (Union, UnionType):
        return annotation
    parts = [part for part in get_args(annotation) if not getattr(part, "__mcp_extension_result__", False)]
    return Union[tuple(parts)] if parts else None  # noqa: UP007 - their number is not known here


def _is_opaque(part: Any) -> bool:
    """Return whether a class has no fields that JSON Schema can describe."""
    import dataclasses

    is_described = (
        dataclasses.is_dataclass(part)
        or is_typeddict(part)
        or hasattr(part, "__get_pydantic_core_schema__")
        or part in (str, int, float, bool, list, dict, tuple, set, frozenset, type(None))
    )
    return isinstance(part, type) and not is_described and not issubclass(part, (tuple, enum.Enum))
