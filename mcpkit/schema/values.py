"""Validators of JSON values, as pydantic-core schemas: each accepts exactly the values of its JSON Schema.

They run in Python mode on results of `pydantic_core.from_json`. JSON Schema differs from Python in a few places: 5.0
is an integer and so is 1e300, `true` is not a number, a numeric string is not a date, and a set has no duplicates.
Only types with such a difference have extra cost.
"""

from __future__ import annotations

import binascii
import enum
import re
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from operator import methodcaller
from typing import Any, cast

from pydantic_core import (
    CoreSchema,
    PydanticCustomError,
    SchemaError,
    SchemaValidator,
    core_schema,
    from_json,
    to_json,
)

from .._utils.exceptions import OutputError, RegistrationError
from ..content.blocks import base64, blocking_allowed, described
from ..content.convert import LONG, json_error, json_value, may_have_huge_number
from ..content.third_party import encode_unknown
from ..protocol.jsonrpc import SCALARS, is_array
from .equality import LARGEST_HASH, identity

Json = dict[str, Any]

MOST_PATTERNS = 1024
"""Size of the cache of compiled patterns. A server has few, but a client reads the schemas of any server."""

BASE64URL_PATTERN = "^(?:[A-Za-z0-9_-]{4})*(?:[A-Za-z0-9_-]{2}==|[A-Za-z0-9_-]{3}=)?$"
DECIMAL_PATTERN = r"^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,4})?$"


_NUMERIC = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum",
            "multiple_of": "multipleOf"}  # fmt: skip
CONSTRAINTS: Mapping[str, Mapping[str, str]] = {
    "integer": _NUMERIC,
    "number": _NUMERIC,
    "string": {"min_length": "minLength", "max_length": "maxLength", "pattern": "pattern"},
    "array": {"min_length": "minItems", "max_length": "maxItems"},
    "object": {"min_length": "minProperties", "max_length": "maxProperties"},
}
"""What may be asked of the values of a type, in the words of pydantic-core, and the keyword of each."""


def refusal(reason: str) -> PydanticCustomError:
    """Return what a validator raises to refuse a value."""
    # The text never leaves the package: problems.py says what was expected in its own words.
    return PydanticCustomError("json_schema", "{reason}", {"reason": reason})


_WIDEST = 2.0**63
"""From here on pydantic does not read floats as integers; all of them are."""


def integer(**constraints: Any) -> CoreSchema:
    """Return a validator of integers; a float without fraction is one and becomes `int`."""
    strict = cast("CoreSchema", {"type": "int", "strict": True, **constraints})
    narrow = core_schema.chain_schema(
        [core_schema.float_schema(gt=-_WIDEST, lt=_WIDEST), core_schema.int_schema()]
    )
    wide: list[Any] = [
        core_schema.float_schema(allow_inf_nan=False, ge=_WIDEST),
        core_schema.float_schema(allow_inf_nan=False, le=-_WIDEST),
    ]
    convert = core_schema.no_info_plain_validator_function(int)
    widest = core_schema.chain_schema([in_order(wide), convert])
    whole = core_schema.chain_schema(
        [core_schema.is_instance_schema(float), in_order([narrow, widest]), strict]
    )
    return in_order([strict, whole])


def number(**constraints: Any) -> CoreSchema:
    """Return a validator of numbers, which become `float`."""
    return cast("CoreSchema", {"type": "float", **constraints, "strict": True, "allow_inf_nan": False})


def string(**constraints: Any) -> CoreSchema:
    """Return a validator of strings.

    Raises:
        RegistrationError: The `pattern` among the constraints is no regular expression.
    """
    if "pattern" in constraints:
        constraints |= _engine(constraints.pop("pattern"))
    is_match = constraints.pop("is_match", None)
    text = cast("CoreSchema", {"type": "str", **constraints, "strict": True})
    return text if is_match is None else _matching(is_match, text)


def _matching(is_match: Callable[[str], bool], text: CoreSchema) -> CoreSchema:
    def check(value: str) -> str:
        if not is_match(value):
            raise refusal("no match")
        return value

    return core_schema.no_info_after_validator_function(check, text)


@lru_cache(maxsize=MOST_PATTERNS)
def _engine(pattern: str | re.Pattern[str]) -> Json:
    """Return a pattern as one of three engines reads it: pydantic's own takes linear time, and knows no look-around.

    Of the others one counts its steps, and Python's is left for what it does not know.
    """
    from . import backtracking, patterns

    written = patterns.source(pattern)
    known = patterns.read(written)
    rust, python = (written, written) if known is None else (known.rust, known.python)
    engine: Json = {"pattern": rust}
    try:
        SchemaValidator(core_schema.str_schema(pattern=rust))
    except SchemaError:
        try:
            re.compile(python)
        except re.error as error:
            raise RegistrationError(f"the pattern {written!r} is not a regular expression: {error}") from None
        is_match = None if known is None else backtracking.matcher(backtracking.written(known.rust))
        engine = {"is_match": is_match}
        if is_match is None:
            patterns.warn_of_time(written)
            engine = {"pattern": python, "regex_engine": "python-re"}
    if known is None:
        patterns.warn(written)
    return engine


@lru_cache(maxsize=MOST_PATTERNS)
def matches(pattern: str) -> Callable[[Any], bool]:
    """Return a function that matches a pattern as validators of strings do, in linear time if they do.

    Raises:
        RegistrationError: It is not a valid regular expression.
    """
    return SchemaValidator(string(pattern=pattern)).isinstance_python


def boolean() -> CoreSchema:
    """Return a validator of booleans."""
    return core_schema.bool_schema(strict=True)


def formatted(name: str) -> CoreSchema:
    """Return a validator of strings in a format of `FORMATS`."""
    from .formats import FORMATS

    return string(pattern=FORMATS[name])


def temporal(name: str, then: CoreSchema, tz_constraint: object = None) -> CoreSchema:
    """Return a validator of the texts of `formats.schema(name, tz_constraint)`, which `then` converts."""
    from .formats import pattern

    return core_schema.chain_schema([string(pattern=pattern(name, tz_constraint)), then])


if sys.version_info >= (3, 11):
    decode_base64: Callable[[str], bytes] = partial(binascii.a2b_base64, strict_mode=True)
    """Returns the bytes of a base64 text (RFC 4648, section 4) by one call of C; ValueError where it is none."""
else:
    from base64 import b64decode

    def decode_base64(text: str) -> bytes:
        """Return the same: what is strict came later."""
        return b64decode(text.encode("ascii"), validate=True)


def base64_bytes(then: CoreSchema) -> CoreSchema:
    """Return a validator of base64 strings, which become `bytes` and go on to `then`."""
    return core_schema.chain_schema([text_to(decode_base64), then])


def base64url_bytes(then: CoreSchema) -> CoreSchema:
    """Return the same for base64 strings of the other alphabet (RFC 4648, section 5)."""
    translate = methodcaller("translate", str.maketrans("-_", "+/"))
    steps = [string(pattern=BASE64URL_PATTERN), text_to(translate), text_to(decode_base64), then]
    return core_schema.chain_schema(steps)


def default(value: Any) -> Any:
    """Return a default as the JSON value that a schema shows.

    Args:
        value: A value of Python. A set is sorted, so that the schema is the same on every run.

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


def one_of(choices: Sequence[tuple[Any, Any]]) -> CoreSchema:
    """Return a validator of a few JSON values, each with the Python value that it becomes."""
    kinds: set[type[Any]] = {type(value) for value, _ in choices}
    if len(kinds) == 1 and (kind := kinds.pop()) in (str, int, bool):
        steps: list[CoreSchema] = [core_schema.literal_schema([value for value, _ in choices])]
        if kind is not str:  # by itself it takes `true` for 1, as Python does
            steps.insert(0, integer() if kind is int else boolean())
        if any(value is not result for value, result in choices):
            steps.append(core_schema.no_info_plain_validator_function(dict(choices).__getitem__))
        return core_schema.chain_schema(steps) if len(steps) > 1 else steps[0]
    table = {identity(value): result for value, result in choices}

    def choose(value: Any) -> Any:
        try:
            return table[identity(value)]
        except KeyError:
            raise refusal("no choice") from None

    return core_schema.no_info_plain_validator_function(choose)


_MOST_FLAGS = 6


def plain(choice: Any) -> Any:
    """Return the JSON value of a member of an Enum; anything else as it is.

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


def members(cls: type[enum.Enum]) -> list[tuple[Any, enum.Enum]]:
    """Return the members of an Enum by their values; of a Flag also what is combined of them, if they are few.

    Raises:
        RegistrationError: The value of a member has no form in JSON.
    """
    named: list[tuple[Any, enum.Enum]] = [(plain(member), member) for member in cls]
    if not issubclass(cls, enum.Flag) or len(named) > _MOST_FLAGS:
        return named
    combined = dict(named)
    for _, member in named:
        for each in [cls(0), *combined.values()]:
            both: Any = cast("Any", each) | member
            combined.setdefault(both.value, both)
    return [(0, cls(0)), *sorted(combined.items())]


def first_choices(choices: Sequence[Any]) -> list[Any]:
    """Return what a value is read as before all the choices of a union are weighed against each other.

    Any text is a `str`: those written before it would never be chosen. What is no text by intention may be base64
    by accident, and is none of them. A number with a fraction of zero is an integer only where there is no `float`.
    """
    last = next((index for index, core in enumerate(choices) if core["type"] == "str"), 0)
    first = [core for core in choices[:last] if _takes_text(core)]
    if any(core["type"] == "union" and core["choices"][0]["type"] == "int" for core in choices):
        written = core_schema.is_instance_schema(float)
        first += [core_schema.chain_schema([written, core]) for core in choices if core["type"] == "float"]
    return first


def _takes_text(core: Any) -> bool:
    kind = core["type"]
    if kind == "chain":
        return core["steps"][0]["type"] == "literal" or _takes_text(core["steps"][0])
    if kind == "function-after":
        return core["function"]["function"] is not decode_base64 and _takes_text(core["schema"])
    return kind in ("str", "function-plain")


def in_order(choices: list[Any]) -> CoreSchema:
    """Return a validator of the first of some choices that a value fits."""
    return core_schema.union_schema(choices, mode="left_to_right")


def hashed(build: Callable[[list[Any]], Any], items: CoreSchema, **constraints: Any) -> CoreSchema:
    """Return a validator of arrays without duplicates, which become a set.

    Args:
        build: Makes it.
        items: The validator of the items.
        constraints: How many there may be.
    """

    def make(values: list[Any]) -> Any:
        check_hashes(values)
        return build(values)

    array = core_schema.list_schema(items, strict=True, fail_fast=True, **constraints)
    return unique(core_schema.no_info_after_validator_function(make, array))


MOST_COLLISIONS = 100


def check_hashes(values: Collection[Any]) -> None:
    """Refuse values of which many have the same hash: a set compares each of those with all others."""
    if len(set(map(hash, values))) > len(values) - MOST_COLLISIONS:
        return
    if max(Counter(map(hash, values)).values()) > MOST_COLLISIONS:
        raise refusal(f"expected at most {MOST_COLLISIONS} values that have the same hash in Python")


def unique(then: CoreSchema) -> CoreSchema:
    """Return a validator of arrays without duplicates, which go on to `then`."""

    def check(value: Any) -> Any:
        if is_array(value) and not is_unique(value):
            raise refusal("duplicates")
        return value

    return core_schema.no_info_before_validator_function(check, then)


_ALIKE = frozenset({str, float, type(None)})
"""Types that are equal in Python if they are equal in JSON, and safe against chosen hash collisions."""


def is_unique(items: Sequence[Any]) -> bool:
    """Return whether JSON values are all different."""
    kinds = set(map(type, items))
    if kinds == {int}:
        is_within = min(items) > -LARGEST_HASH and max(items) < LARGEST_HASH
        return len(set(items if is_within else map(hex, items))) == len(items)
    if kinds <= _ALIKE:
        return len(set(items)) == len(items)
    return len({identity(item) for item in items}) == len(items)


def mapping(keys: CoreSchema, values: CoreSchema) -> CoreSchema:
    """Return a validator of objects, by their keys and values."""
    return cast("CoreSchema", {**core_schema.dict_schema(keys, values, strict=True), "fail_fast": True})


def array(then: CoreSchema) -> CoreSchema:
    """Return a validator that lets nothing but arrays go on to `then`."""
    return core_schema.chain_schema([core_schema.list_schema(strict=True), then])


def text_to(convert: Callable[[str], Any]) -> CoreSchema:
    """Return a validator of strings, which `convert` turns into something else."""
    return core_schema.no_info_after_validator_function(convert, string())


def nullable(schema: Json) -> Json:
    """Return the JSON Schema of `schema` or null.

    Written with `anyOf`: a `type` that is an array is legal too, but hosts that translate schemas for
    models with single types (Gemini's function declarations) refuse or drop it, while `anyOf` with a
    null branch is understood by all that know null.
    """
    return any_of([schema, {"type": "null"}])


def any_of(schemas: Iterable[Mapping[str, Any]]) -> Json:
    """Return the JSON Schema that accepts what one of `schemas` accepts, without nesting or repetition."""
    branches: list[Json] = []
    for schema in schemas:
        inner: list[Json] = schema["anyOf"] if list(schema) == ["anyOf"] else [dict(schema)]
        branches += [branch for branch in inner if branch not in branches]
    return branches[0] if len(branches) == 1 else {"anyOf": branches}


_MOST_OF_ITEMS = 1_000
"""How many bytes `items` may add to the schema of a tuple."""


def items_of_tuple(schemas: list[Json]) -> Json:
    """Return `items` for an array of a fixed length, with `maxItems` equal to the number of its `prefixItems`.

    It does not change the valid arrays. Some hosts drop `prefixItems`, and model APIs refuse an array without `items`.
    """
    import json  # not part of the start of a server without tuples

    distinct: list[Json] = []
    distinct += (schema for schema in schemas if schema not in distinct)
    items = distinct[0] if len(distinct) == 1 else {"anyOf": distinct} if distinct else {}
    return items if len(json.dumps(items, separators=(",", ":"))) <= _MOST_OF_ITEMS else {}
