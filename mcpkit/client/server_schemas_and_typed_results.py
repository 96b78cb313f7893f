"""JSON Schemas of servers: validation of values within limits and without fetching anything; results as Python types.

Schemas as pydantic and zod write them are checked by pydantic-core. Recursive schemas are checked in Python, up to a
certain size of the value. Other keywords than those in `_ASSERTED` are checked if `mcpkit[jsonschema]` is installed;
otherwise they are ignored. `format` is an annotation, as in 2020-12, except in forms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache
from importlib import import_module
from typing import Any, Final, get_origin

from pydantic_core import SchemaError, SchemaValidator, ValidationError, from_json, to_json

from .._utils.exceptions import ArgumentsError, Problem, RegistrationError, ToolError
from ..protocol.jsonrpc import Json, is_array, is_object
from ..schema import pydantic_validators
from ..schema.argument_validation_and_repair import from_validator
from ..schema.fast_path_for_builtin_types import describe
from ..schema.json_schema import resolved, subschemas
from ..schema.patterns_and_formats import FORMATS, linear_pattern
from ..schema.validation_errors import KINDS, problems
from ..schema.value_validators import validator
from .call_results import CallResult, InvalidResultError

_MOST_PARTS: Final = 20_000
"""The most subschemas of a schema, each counted at every reference."""
_MOST_ALTERNATIVES: Final = 1_000
"""The most schemas against which one value is validated."""
_DEEPEST: Final = 100
_MOST_CACHED: Final = 64 * 1024
"""Maximum size in bytes of a cached output schema."""

_LIMITS: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_ASSERTED: Final = frozenset(
    {"$ref", "allOf", "anyOf", "const", "enum", "type", *_LIMITS, "multipleOf", "minLength", "maxLength", "pattern",
     "items", "minItems", "maxItems", "uniqueItems", "properties", "required", "additionalProperties", "minProperties",
     "maxProperties"}
)  # fmt: skip
"""The keywords that are always checked."""
_LIBRARY_KEYWORDS: Final = frozenset(
    {"$dynamicRef", "$recursiveRef", "additionalItems", "contains", "dependencies", "dependentRequired",
     "dependentSchemas", "else", "if", "maxContains", "minContains", "not", "oneOf", "patternProperties", "prefixItems",
     "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties"}
)  # fmt: skip
"""The other keywords that can reject a value. All remaining keywords are annotations."""


class UnusableSchemaError(ValueError):
    """A schema is malformed, or too large for validation."""


class ServerSchema:
    """A JSON Schema of a server.

    Args:
        schema: The schema.
        asserts_formats: Whether `format` is checked, as in forms.

    Attributes:
        is_whole: Whether all keywords are checked, also without `mcpkit[jsonschema]`.

    Raises:
        UnusableSchemaError: The schema is malformed or too large.
    """

    def __init__(self, schema: object, *, asserts_formats: bool = False) -> None:
        reader = _SchemaReader(schema, asserts_formats=asserts_formats)
        self._schema = reader.read()
        self.is_whole = reader.is_whole
        sizes: dict[int, float] = {}
        if any(_size(part, self._schema, _alternatives, sizes) > _MOST_ALTERNATIVES for part in reader.parts):
            raise UnusableSchemaError(
                f"a value would have to be checked against more than {_MOST_ALTERNATIVES} schemas"
            )
        self._is_valid: Callable[[Any], bool] | None = None
        self._is_valid_by_library: Callable[[Any], bool] | None = None
        if _size(self._schema, self._schema, _inner, {}) <= _MOST_PARTS:
            # OverflowError: for limits of integers that are not integers
            with suppress(SchemaError, OverflowError):
                self._is_valid = pydantic_validators.validator_of(self._schema).isinstance_python
        if not reader.is_whole and _size(schema, schema, _inner, {}) <= _MOST_PARTS:
            self._is_valid_by_library = library_validator(schema)

    def problems(self, value: Any) -> list[Problem]:
        """Return the validation errors of a JSON value."""
        if self._is_valid is None or not self._is_valid(value):
            found = problems(self._schema, value)
            if found or self._is_valid is not None:
                return found or [Problem("", "the value does not match the schema")]
        if self._is_valid_by_library is not None and not self._is_valid_by_library(value):
            return [Problem("", "the value does not match the schema")]
        return []


def library_validator(schema: object, *, asserts_formats: bool = False) -> Callable[[Any], bool] | None:
    """Return a validator of all keywords; None if `mcpkit[jsonschema]` is missing or rejects the schema."""
    try:
        library: Any = import_module("jsonschema_rs")
    except ModuleNotFoundError:
        return None
    try:
        is_valid: Callable[[Any], bool] = library.validator_for(
            schema, validate_formats=asserts_formats, offline=True, pattern_options=library.RegexOptions()
        ).is_valid
    except (library.ValidationError, library.ReferencingError, ValueError, TypeError):
        return None
    return is_valid


# Results of tools (server/tools, "Output Schema")


def output_schema_of(tool: Json) -> ServerSchema | UnusableSchemaError:
    """Return the schema of the results of a tool, or the error if it cannot be used for validation.

    Args:
        tool: The tool, as the server lists it. It has an `outputSchema`.
    """
    text = to_json(tool["outputSchema"])
    try:
        return _cached_schema(text) if len(text) <= _MOST_CACHED else ServerSchema(tool["outputSchema"])
    except UnusableSchemaError as error:
        return error


@lru_cache(maxsize=256)
def _cached_schema(text: bytes) -> ServerSchema:
    return ServerSchema(from_json(text))


def result_problems(schema: ServerSchema, result: Json) -> list[Problem]:
    """Return the validation errors of a result.

    Args:
        schema: The `outputSchema` of the tool.
        result: All members of the result.
    """
    if "structuredContent" not in result:
        return [Problem("", "structured content is missing")]
    return schema.problems(result["structuredContent"])


# Conversion to the keywords that pydantic-core and `problems` check


class _SchemaReader:
    """Converts a schema to the form that `core_schema` and `problems` accept."""

    def __init__(self, root: object, *, asserts_formats: bool) -> None:
        self.is_whole = True
        self.parts: list[Json] = []
        self._root = root
        self._asserts_formats = asserts_formats
        self._left = _MOST_PARTS
        self._names: dict[str, str] = {}
        self._waiting: list[tuple[str, object]] = []

    def read(self) -> Json:
        """Return the schema with its definitions under `$defs`."""
        read = self._schema(self._root)
        definitions: Json = {}
        while self._waiting:
            name, schema = self._waiting.pop()
            definitions[name] = self._schema(schema)
        if definitions:
            read["$defs"] = definitions
        return read

    def _schema(self, schema: object) -> Json:
        self._left -= 1
        if self._left < 0:
            raise UnusableSchemaError(f"it consists of more than {_MOST_PARTS} schemas")
        if isinstance(schema, bool):
            return {} if schema else {"enum": []}
        if not is_object(schema):
            raise UnusableSchemaError(f"a schema must be an object or a boolean, got {schema!r:.50}")
        if not _LIBRARY_KEYWORDS.isdisjoint(schema):
            self.is_whole = False
        self.parts.append(_all_of(list(self._demands(schema))))
        return self.parts[-1]

    def _demands(self, schema: Json) -> Iterator[Json]:
        if "$ref" in schema and (name := self._name(schema["$ref"])):
            yield {"$ref": f"#/$defs/{name}"}
        for union in ("anyOf", "oneOf"):
            if union in schema:
                yield {"anyOf": self._each(union, schema[union])}
        yield from self._each("allOf", schema.get("allOf", []))
        kinds = _kinds(schema)
        if "enum" in schema or "const" in schema:
            choices: object = schema.get("enum", [schema.get("const")])
            if not is_array(choices):
                raise UnusableSchemaError(f"`enum` must be an array, got {choices!r:.50}")
            yield {"enum": choices}
            if all(any(KINDS[kind](choice) for kind in kinds) for choice in choices):
                return
        if len(kinds) == 1:
            yield from self._typed(kinds[0], schema)
        elif kinds:
            yield {"anyOf": [_all_of(list(self._typed(kind, schema))) for kind in kinds]}
        elif not _ASSERTED.isdisjoint(schema.keys() - {"$ref", "anyOf", "allOf", "enum", "const"}):
            self.is_whole = False  # rules for some kinds, where any is allowed

    def _each(self, keyword: str, schemas: object) -> list[Json]:
        if not is_array(schemas):
            raise UnusableSchemaError(f"`{keyword}` must be an array, got {schemas!r:.50}")
        return [self._schema(each) for each in schemas]

    def _name(self, reference: object) -> str | None:
        """Return the name of the definition of a reference; None if the reference leaves the schema."""
        if not isinstance(reference, str):
            raise UnusableSchemaError(f"`$ref` must be a string, got {reference!r:.50}")
        if reference not in self._names:
            try:
                target = resolved(reference, self._root)
            except LookupError:
                self.is_whole = False
                return None
            self._names[reference] = str(len(self._names))
            self._waiting.append((self._names[reference], target))
        return self._names[reference]

    def _typed(self, kind: str, schema: Json) -> Iterator[Json]:
        typed: Json = {"type": kind}
        if kind in ("integer", "number"):
            typed |= {key: schema[key] for key in _LIMITS if _is_number(schema.get(key))}
            if _is_number(schema.get("multipleOf")) and schema["multipleOf"] > 0:
                typed["multipleOf"] = schema["multipleOf"]
        elif kind == "string":
            typed |= _counts(schema, "minLength", "maxLength") | self._text(schema)
        elif kind == "array":
            typed |= _counts(schema, "minItems", "maxItems") | self._array(schema)
        elif kind == "object":
            typed |= self._object(schema)
            if counts := _counts(schema, "minProperties", "maxProperties"):
                yield {"type": kind, **counts}
        yield typed

    def _text(self, schema: Json) -> Json:
        typed: Json = {}
        pattern, format_ = schema.get("pattern"), schema.get("format")
        if isinstance(pattern, str):
            try:
                linear_pattern(pattern)  # pydantic's engine
                typed["pattern"] = pattern
            except RegistrationError:
                self.is_whole = False
        if self._asserts_formats and isinstance(format_, str) and format_ in FORMATS:
            typed["format"] = format_
        return typed

    def _array(self, schema: Json) -> Json:
        typed: Json = {"uniqueItems": True} if schema.get("uniqueItems") is True else {}
        prefix, items = schema.get("prefixItems"), schema.get("items", True)
        if is_array(prefix) and (items is False or schema.get("maxItems") == len(prefix)):
            typed["prefixItems"] = self._each("prefixItems", prefix)
        elif prefix is None and not is_array(items) and items is not True:
            typed["items"] = self._schema(items)
        return typed

    def _object(self, schema: Json) -> Json:
        properties, required = schema.get("properties", {}), schema.get("required", [])
        if not is_object(properties) or not is_array(required):
            raise UnusableSchemaError("`properties` must be an object, and `required` an array")
        typed: Json = {"properties": {name: self._schema(inner) for name, inner in properties.items()}}
        additional: object = schema.get("additionalProperties", True)
        if "patternProperties" in schema:
            additional = True
        if not isinstance(additional, bool):
            additional = self._schema(additional)
        if additional is not True:
            typed["additionalProperties"] = additional
        typed["required"] = list(dict.fromkeys(name for name in required if isinstance(name, str)))
        for name in typed["required"]:
            others: Json = additional if is_object(additional) else {} if additional else {"enum": []}
            typed["properties"].setdefault(name, others)
        if "propertyNames" in schema and not typed["properties"] and additional is not False:
            names = self._schema(schema["propertyNames"])
            if names.get("type", "string") == "string":
                typed["propertyNames"] = names
        return typed


def _all_of(demands: list[Json]) -> Json:
    return {"allOf": demands} if len(demands) > 1 else demands[0] if demands else {}


def _kinds(schema: Json) -> list[str]:
    kinds: object = schema.get("type", [])
    named = kinds if is_array(kinds) else [kinds]
    for kind in named:
        if not isinstance(kind, str) or kind not in KINDS:
            raise UnusableSchemaError(f"unknown type {kind!r:.50}")
    return list(map(str, named))


def _is_number(value: object) -> bool:
    return type(value) is int or (type(value) is float and math.isfinite(value))


def _counts(schema: Json, *keywords: str) -> Json:
    return {key: schema[key] for key in keywords if type(schema.get(key)) is int and schema[key] >= 0}


def _alternatives(schema: Json, root: object) -> Iterator[object]:
    if "$ref" in schema:
        yield resolved(schema["$ref"], root)
    yield from (schema[key] for key in ("anyOf", "allOf") if key in schema)


def _size(
    schema: object, root: object, inner: Callable[[Json, object], Iterator[object]], sizes: dict[int, float]
) -> float:
    """Return the number of subschemas, each counted at every reference; infinite for recursion.

    This bounds the time of a validator for each value.

    Args:
        schema: The schema.
        root: The root of its references.
        inner: Returns the direct subschemas of a schema, or arrays of them.
        sizes: Known sizes, by the `id()` of the schemas.
    """

    def size(part: object, depth: int) -> float:
        if depth > _DEEPEST or part is _UNBOUNDED:
            return math.inf
        if is_array(part):
            return sum(size(each, depth + 1) for each in part)
        if not is_object(part):
            return 0
        key = id(part)
        if key not in sizes:
            sizes[key] = math.inf  # for a recursive reference to this part
            sizes[key] = 1 + sum(size(each, depth + 1) for each in inner(part, root))
        return sizes[key]

    return size(schema, 0)


_UNBOUNDED: Final = object()
"""In place of a subschema of unknown size."""


def _inner(schema: Json, root: object) -> Iterator[object]:
    if "$dynamicRef" in schema or "$recursiveRef" in schema or ("$id" in schema and schema is not root):
        yield _UNBOUNDED
    if isinstance(reference := schema.get("$ref"), str):
        try:
            yield resolved(reference, root)
        except LookupError:
            yield _UNBOUNDED
    for (keyword, *_), inner in subschemas(schema):
        if keyword not in ("$defs", "definitions"):  # counted where they are referred to
            yield inner


# Results as Python types

_WRAPPED: Final = {"result"}
"""The member in which servers wrap a result that is not an object, for versions before 2026-07-28."""


def read_into(result: CallResult, into: Any, name: str) -> Any:
    """Convert the result of a tool to a type: its structured content, else its text as JSON or as a string.

    A result that the server has wrapped in `{"result": ...}` is unwrapped. Members unknown to the type are ignored.

    Args:
        result: The result.
        into: The type: any class or type hint that a tool's argument may have.
        name: The name of the tool.

    Raises:
        ToolError: The tool failed.
        InvalidResultError: The result does not fit the type; the message names the place.
        RegistrationError: The type has no JSON form.
    """
    if result.is_error:
        raise ToolError(result.error_text)
    try:
        hash(into)
    except TypeError:  # such as of an `Annotated` with a list
        type_validator, schema = _validator.__wrapped__(into)
    else:
        type_validator, schema = _validator(into)
    errors: dict[bool, tuple[Any, ValidationError]] = {}
    for value, is_wrapped in _candidates(result, into, schema):
        extra: Any = "forbid" if is_wrapped else None
        try:
            return type_validator.validate_python(value, by_alias=True, by_name=False, extra=extra)
        except ValidationError as error:
            errors.setdefault(is_wrapped, (value, error))
    if not errors:
        raise InvalidResultError(f"the result of {name} contains neither structured content nor text", result)

    value, first = errors[False]
    found = problems(schema, value) or from_validator(first, value, schema)
    is_class = isinstance(into, type) and get_origin(into) is None
    shown = into.__name__ if is_class else str(into).replace("typing.", "")
    lines = [f"the result of {name} cannot be read as {shown}:", str(ArgumentsError(found))]
    raise InvalidResultError("\n".join(lines), result)


@lru_cache(maxsize=256)
def _validator(into: Any) -> tuple[SchemaValidator, Json]:
    described = describe(into)
    return validator(described.core), {**described.schema, "$defs": dict(described.definitions)}


def _candidates(result: CallResult, into: Any, schema: Json) -> Iterator[tuple[Any, bool]]:
    """Yield candidate values of a result, and whether each is still wrapped and so must have known members only.

    If none of them fits, the error is about the first that is not wrapped.
    """
    if "structuredContent" in result.raw:
        structured = result.structured_content
        if (
            is_object(structured)
            and structured.keys() == _WRAPPED
            and "result" not in schema.get("properties", ())
        ):
            yield structured, True
            yield structured["result"], False
        else:
            yield structured, False
    elif any(block.get("type") == "text" for block in result.content):
        if into is not str:
            with suppress(ValueError):  # the text is not JSON
                yield from_json(result.text, allow_inf_nan=False), False
        yield result.text, False
