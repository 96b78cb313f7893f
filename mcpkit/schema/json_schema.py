"""JSON Schemas as documents: subschemas, references, inlined definitions, and the form that is published.

Only keywords hold schemas: a property may be called `default`, `enum` or `$ref`, and data may look like a schema.
Every function that reads or rewrites a whole schema uses `subschemas` or `replaced`.
"""

from __future__ import annotations

import enum
import inspect
import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from functools import cache
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple, cast

from pydantic_core import CoreSchema, from_json, to_json

from .._utils.exceptions import OutputError, RegistrationError
from ..content.blocks import base64, blocking_allowed, described
from ..content.iterators_and_third_party_values import encode_unknown
from ..content.json_encoding import LONG, json_error, json_value, may_have_huge_number
from ..protocol.jsonrpc import SCALARS, Json, is_array, is_object, without
from .patterns_and_formats import published_pattern

logger = logging.getLogger(__name__)

# --- Types with their schemas

Mode = Literal["validation", "serialization"]

# Whether the current schema is for arguments (`validation`) or results.
mode: Final[ContextVar[Mode]] = ContextVar("mode", default="validation")


def is_incoming() -> bool:
    """Return whether the current schema is for arguments, not for results."""
    return mode.get() == "validation"


class Described(NamedTuple):
    """A type with its JSON Schema, validator and serializer.

    Args:
        schema: JSON Schema for clients.
        core: Validator that accepts and converts the same values.
        output: Serializer of Python values; None if JSON values need none.
        is_plain: Whether JSON value and Python value are the same.
        definitions: Targets of `$ref` in the schema, for recursive types.
    """

    schema: Json
    core: CoreSchema
    output: CoreSchema | None = None
    is_plain: bool = False
    definitions: Mapping[str, Any] = MappingProxyType({})


class JsonType(NamedTuple):
    """JSON form of a class, registered by the author.

    Args:
        cls: The class.
        form: Returns schema and validator of the data. It raises RegistrationError if the type given as schema has no
            JSON form, and UnresolvedHint if it needs a name that is not defined yet.
        encode: Returns the data of a value.
        decode: Returns the value for data that match the schema; None for a class that is only used in results.
    """

    cls: type
    form: Callable[[], Described]
    encode: Callable[[Any], Any]
    decode: Callable[[Any], Any] | None


# Registered JSON forms by class.
json_types: Final[dict[Any, JsonType]] = {}


# --- Equality of instances

LARGEST_HASH = sys.hash_info.modulus

# Types that are equal in Python if they are equal in JSON, and safe against chosen hash collisions.
_ALIKE = frozenset({str, float, type(None)})


def identity(value: Any) -> Any:
    """Return a hashable object that is equal for two JSON values that are equal in JSON Schema.

    JSON Schema 2020-12, "Instance Equality": 1 and 1.0 are equal, `true` and 1 are not. Clients cannot construct many
    values with the same hash: large numbers and tuples are converted to strings, and hashes of strings are randomized.
    """
    if type(value) is str or value is None:
        return value
    if is_object(value) or is_array(value):
        return object, _identity_text(value)
    if isinstance(value, bool):
        return bool, value
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return hex(value).encode() if isinstance(value, int) and abs(value) > LARGEST_HASH else value


def _identity_text(value: Any) -> str:
    # Inner texts are not quoted again at each level, which would need gigabytes after a few levels.
    if is_object(value):
        return f"{{{','.join(sorted(f'{key!r}:{_identity_text(item)}' for key, item in value.items()))}}}"
    if is_array(value):
        return f"[{','.join(map(_identity_text, value))}]"
    return repr(identity(value))


def is_unique(items: Sequence[Any]) -> bool:
    """Return whether JSON values are all different."""
    kinds = set(map(type, items))
    if kinds == {int}:
        is_within = min(items) > -LARGEST_HASH and max(items) < LARGEST_HASH
        return len(set(items if is_within else map(hex, items))) == len(items)
    if kinds <= _ALIKE:
        return len(set(items)) == len(items)
    return len({identity(item) for item in items}) == len(items)


# --- Parts of a schema

_ONE = frozenset({
    "additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if", "items", "not",
    "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties"
})  # fmt: skip
_SEVERAL = frozenset({"allOf", "anyOf", "items", "oneOf", "prefixItems"})  # `items` up to 2019-09
# Keywords with a schema, an array of schemas, or schemas by name as value. All others contain data.
_NAMED = {"$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"}


def subschemas(schema: Json) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Yield the schemas directly within one: the steps that lead to each (`("properties", "city")`), and the schema.

    Booleans, which are schemas too, are among them.
    """
    for key, value in schema.items():
        if is_object(value):
            if key in _ONE:
                yield (key,), value
            elif key in _NAMED:
                for name, inner in value.items():
                    if isinstance(inner, (dict, bool)):  # `dependencies` holds arrays of names as well
                        yield (key, name), inner
        elif is_array(value):
            if key in _SEVERAL:
                yield from (((key, index), inner) for index, inner in enumerate(value))
        elif key in _ONE:
            yield (key,), value


def replaced(schema: Json, change: Callable[[str, Any], Any]) -> Json:
    """Return a copy of a schema with changed subschemas.

    Args:
        schema: The schema.
        change: Returns the replacement of a subschema; it receives the keyword that holds it, and the subschema.
    """
    result = dict(schema)
    for steps, inner in subschemas(schema):
        key, names = str(steps[0]), steps[1:]
        if not names:
            result[key] = change(key, inner)
            continue
        if result[key] is schema[key]:
            result[key] = schema[key].copy()
        result[key][names[0]] = change(key, inner)
    return result


def nodes(schema: Any, root: Json | None = None) -> Iterator[Json]:
    """Yield a schema and all its subschemas, without booleans.

    Args:
        schema: A JSON Schema.
        root: Start of references, to follow each of them once; None to follow none.
    """
    waiting = [schema]
    followed: set[str] = set()
    while waiting:
        part = waiting.pop()
        if not is_object(part):
            continue
        yield part
        reference = part.get("$ref")
        if root is not None and isinstance(reference, str) and reference not in followed:
            followed.add(reference)
            waiting.append(target(part, root))
        waiting += [inner for _, inner in subschemas(part)]


# --- References


def resolved(reference: object, root: object) -> Any:
    """Return the target of a `$ref` within a schema.

    Raises:
        LookupError: It leads out of the schema, or nowhere.
    """
    if not isinstance(reference, str) or (reference != "#" and not reference.startswith("#/")):
        raise LookupError(reference)
    found = root
    from urllib.parse import unquote  # here, as most schemas have no references

    for step in reference.split("/")[1:]:
        key = unquote(step).replace("~1", "/").replace("~0", "~")
        if is_object(found):
            found = found[key]
        elif is_array(found) and key.isdecimal() and len(key) < 10:
            found = found[int(key)]
        else:
            raise LookupError(reference)
    return found


def target(schema: Json, root: Json) -> Json:
    """Return the target of a schema's `$ref`, with the keywords beside the reference."""
    beside = without(schema, "$ref")
    try:
        found = resolved(schema["$ref"], root)
    except LookupError:
        # A reference of another form is an author's own; only the validator follows it.
        return beside
    return {**found, **beside} if is_object(found) else beside


_PREFIX = "#/$defs/"
_NO_STANDARD_FORMATS = ("path", "file-path", "directory-path", "binary", "base64", "base64url")
UNRESOLVED = "$ref cannot be resolved: {!r}; put the schema under `$defs` and write `#/$defs/<name>`"
# Stands for the `items` of a tuple, which depend on its `prefixItems` as they are once definitions are inlined.
ITEMS_OF_TUPLE: Json = {"mcpkit:items": "prefixItems"}


def inlined(schema: Json) -> Json:
    """Return a schema with all definitions inlined, except recursive ones, as many hosts do not follow `$ref`.

    Args:
        schema: A schema with references of the form `#/$defs/...`.

    Returns:
        A new schema; `$defs` has the remaining definitions, in order of first use.

    Raises:
        RegistrationError: A reference has no target.
    """
    defined: Json = schema.get("$defs", {})

    def name_of(reference: object) -> str | None:
        if not isinstance(reference, str) or not reference.startswith(_PREFIX):
            return None
        return reference.removeprefix(_PREFIX).replace("~1", "/").replace("~0", "~")

    recursive = {
        name
        for name in defined
        if any(name_of(node.get("$ref")) == name for node in nodes(defined[name], schema))
    }
    used: Json = {}

    def expand(value: Any) -> Any:
        if not is_object(value):
            return value
        rest = replaced(without(value, "$defs"), lambda _, inner: expand(inner))
        if rest.get("format") in _NO_STANDARD_FORMATS:
            del rest["format"]
        if rest.get("propertyNames") == {}:
            del rest["propertyNames"]
        if rest.get("items") == ITEMS_OF_TUPLE:
            rest["items"] = items_of_tuple(rest.get("prefixItems", []))
        if "$ref" not in rest:
            return rest
        name = name_of(rest["$ref"])
        if name is None or name not in defined:
            raise RegistrationError(UNRESOLVED.format(rest["$ref"]))
        if name not in recursive:
            return {**expand(defined[name]), **without(rest, "$ref")}
        if name not in used:
            used[name] = None  # its place, before those that it uses
            used[name] = expand(defined[name])
        return rest

    expanded: Json = expand(schema)
    return {**expanded, "$defs": used} if used else expanded


# --- Patterns of published schemas

# Keywords with schemas that must not become more permissive, and the keywords to remove in that case.
_NEGATING = {"not": ("not",), "if": ("if", "then", "else")}


def published(schema: Json, *, drops: bool = True) -> Json:
    """Return a schema with patterns in the syntax of ECMA-262. It allows whatever the original schema allows.

    Args:
        schema: A JSON Schema with patterns of any engine.
        drops: Whether patterns that ECMA-262 cannot express are removed.

    Returns:
        The same object if nothing changes.
    """
    result, _ = _published(schema, drops)
    return schema if result == schema else result


def _published(schema: Any, drops: bool) -> tuple[Any, bool]:
    """Return a schema with patterns of ECMA-262, and whether it allows more than before."""
    if not is_object(schema):
        return schema, False
    wider: set[str] = set()

    def publish(keyword: str, inner: Any) -> Any:
        written, is_wider = _published(inner, drops)
        if is_wider:
            wider.add(keyword)
        return written

    result = replaced(schema, publish)
    if isinstance(result.get("pattern"), str):
        result["pattern"] = _written(result["pattern"], drops)
        if result["pattern"] is None:
            del result["pattern"]
            wider.add("pattern")
    if is_object(named := result.get("patternProperties")):
        written = {_written(name, drops): inner for name, inner in named.items()}
        result["patternProperties"] = {name: inner for name, inner in written.items() if name is not None}
        if len(result["patternProperties"]) < len(named):
            wider.add("patternProperties")
    _widen(result, wider)
    return result, bool(wider)


def _widen(result: Json, wider: set[str]) -> None:
    """Remove the keywords that would forbid more, now that parts of the schema allow more."""
    for keyword in wider & _NEGATING.keys():
        for other in _NEGATING[keyword]:
            result.pop(other, None)
    if "oneOf" in wider:  # only the pattern may have kept its branches apart
        result.setdefault("anyOf", result.pop("oneOf"))
    if "contains" in wider:
        result.pop("maxContains", None)
    if "patternProperties" in wider:
        result.pop("additionalProperties", None)
        result.pop("unevaluatedProperties", None)


def _written(pattern: str, drops: bool) -> str | None:
    known = published_pattern(pattern)
    if known is None:
        _warn(pattern)
        return None if drops else pattern
    return known


@cache
def _warn(pattern: str) -> None:
    """Log once that the published schema does not have a pattern."""
    logger.warning(
        "the pattern %r is checked, but not part of the published schema: clients read patterns as ECMA-262, "
        "which does not support it. Describe it in the description of the field",
        pattern,
    )


# --- New schemas


def any_of(schemas: Iterable[Mapping[str, Any]]) -> Json:
    """Return the JSON Schema that accepts what one of `schemas` accepts, without nesting or repetition.

    Null is a branch: hosts that translate schemas for models with single types (Gemini's function declarations) refuse
    or drop a `type` that is an array.
    """
    branches: list[Json] = []
    for schema in schemas:
        inner: list[Json] = schema["anyOf"] if list(schema) == ["anyOf"] else [dict(schema)]
        branches += [branch for branch in inner if branch not in branches]
    return branches[0] if len(branches) == 1 else {"anyOf": branches}


# The types of JSON by those of Python.
KINDS: Mapping[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null",
                            list: "array", dict: "object"}  # fmt: skip


def enumeration(values: list[Any], cls: type | None = None) -> Json | None:
    """Return the schema of a choice of JSON values, with the docstring of their Enum; None if JSON lacks a value."""
    kinds: set[type[Any]] = {type(value) for value in values}
    if not kinds <= KINDS.keys():
        return None
    schema: Json = {"type": KINDS[kinds.pop()]} if len(kinds) == 1 else {}
    schema["enum"] = list({identity(value): value for value in values}.values())
    if schema.get("type") == "array":
        schema["items"] = {}
    text = vars(cls).get("__doc__") if cls is not None else None
    if text and text != "An enumeration.":  # written by the enum module before Python 3.13
        schema["description"] = inspect.cleandoc(text)
    return schema


def choice_value(choice: Any) -> Any:
    """Return the JSON value of a member of an Enum; any other value unchanged.

    Raises:
        RegistrationError: It has none.
    """
    if not isinstance(choice, enum.Enum):
        return choice
    value = choice.value
    if type(value) in SCALARS:
        return value
    try:
        with blocking_allowed():
            return json_value(value)
    except OutputError:
        raise RegistrationError(
            f"the value of {choice} is {described(value)}, which cannot be converted to JSON; use a string or a number"
        ) from None


_MAX_FLAGS = 6


def members(cls: type[enum.Enum]) -> list[tuple[Any, enum.Enum]]:
    """Return the members of an Enum by their values, and the combinations of a Flag with few members.

    Raises:
        RegistrationError: The value of a member has no form in JSON.
    """
    named: list[tuple[Any, enum.Enum]] = [(choice_value(member), member) for member in cls]
    if not issubclass(cls, enum.Flag) or len(named) > _MAX_FLAGS:
        return named
    combined = dict(named)
    for _, member in named:
        for each in [cls(0), *combined.values()]:
            both: Any = cast("Any", each) | member
            combined.setdefault(both.value, both)
    return [(0, cls(0)), *sorted(combined.items())]


_MAX_ITEMS_BYTES = 1_000


def items_of_tuple(schemas: list[Json]) -> Json:
    """Return `items` for an array of a fixed length, with `maxItems` equal to the number of its `prefixItems`.

    It does not change the valid arrays. Some hosts drop `prefixItems`, and model APIs refuse an array without `items`.
    """
    distinct: list[Json] = []
    distinct += (schema for schema in schemas if schema not in distinct)
    items = distinct[0] if len(distinct) == 1 else {"anyOf": distinct} if distinct else {}
    return items if len(to_json(items)) <= _MAX_ITEMS_BYTES else {}


def default_value(value: Any) -> Any:
    """Return a default as JSON value; a set is sorted, so that the schema is the same on every run.

    Raises:
        ValueError: JSON has no form for it.
    """
    if isinstance(value, (bytes, bytearray)):
        return base64(value)
    with blocking_allowed():
        text = to_json(value, by_alias=True, inf_nan_mode="constants", fallback=encode_unknown)
    shown = from_json(text, allow_inf_nan=False)
    if len(text) > LONG and may_have_huge_number(text) and json_error(shown) is not None:
        raise ValueError("it contains a number beyond the range of most JSON parsers; write it as a string")
    return sorted(shown, key=to_json) if isinstance(value, (set, frozenset)) else shown
