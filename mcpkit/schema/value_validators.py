"""Validators of single JSON values, as pydantic-core schemas.

Each accepts exactly the values of its JSON Schema. They run in Python mode on results of `pydantic_core.from_json`.
JSON Schema differs from Python in a few places: 5.0 is an integer and so is 1e300, `true` is not a number, a numeric
string is not a date, and a set has no duplicates. Only types with such a difference have extra cost.
"""

from __future__ import annotations

import binascii
import sys
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from operator import methodcaller
from typing import Any, cast

from pydantic_core import CoreSchema, PydanticCustomError, SchemaValidator, core_schema

from ..protocol.jsonrpc import is_array
from .json_schema import identity, is_unique
from .patterns_and_formats import BASE64URL_PATTERN, FORMATS, format_pattern, linear_pattern

# For a pydantic model or dataclass, pydantic-core uses the validator and serializer that the class has already, and not
# the schema that it is given. That validator reads "5" as an integer, which JSON Schema forbids. Only the private
# `_use_prebuilt` turns this off. The public way, `cls.model_construct` on the fields' validator, takes 4 times as long
# (44 against 11 µs for a model of 5 fields), and skips an `__init__` of the author.


def validator(core: CoreSchema) -> SchemaValidator:
    """Return the validator of a schema.

    Raises:
        SchemaError: The schema is invalid.
    """
    return SchemaValidator(core, _use_prebuilt=False)


def refusal(reason: str) -> PydanticCustomError:
    """Return the error that a validator raises to refuse a value."""
    # The text stays in the package: validation_errors.py words what was expected.
    return PydanticCustomError("json_schema", "{reason}", {"reason": reason})


_NUMERIC = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum",
            "multiple_of": "multipleOf"}  # fmt: skip
# Keywords by type and by the name of the constraint in pydantic-core.
CONSTRAINTS: Mapping[str | None, Mapping[str, str]] = {
    "integer": _NUMERIC,
    "number": _NUMERIC,
    "string": {"min_length": "minLength", "max_length": "maxLength", "pattern": "pattern"},
    "array": {"min_length": "minItems", "max_length": "maxItems"},
    "object": {"min_length": "minProperties", "max_length": "maxProperties"},
}

# Floats from here on are integers, but pydantic does not read them as such.
_WIDEST = 2.0**63


def integer(**constraints: Any) -> CoreSchema:
    """Return a validator of integers; a float without fraction is one and becomes `int`."""
    strict = cast("CoreSchema", {"type": "int", "strict": True, **constraints})
    near = core_schema.float_schema(gt=-_WIDEST, lt=_WIDEST)
    narrow = core_schema.chain_schema([near, core_schema.int_schema()])
    largest = core_schema.float_schema(allow_inf_nan=False, ge=_WIDEST)
    smallest = core_schema.float_schema(allow_inf_nan=False, le=-_WIDEST)
    wide = in_order([largest, smallest])
    widest = core_schema.chain_schema([wide, core_schema.no_info_plain_validator_function(int)])
    whole: list[CoreSchema] = [core_schema.is_instance_schema(float), in_order([narrow, widest]), strict]
    return in_order([strict, core_schema.chain_schema(whole)])


def number(**constraints: Any) -> CoreSchema:
    """Return a validator of numbers, which become `float`."""
    return cast("CoreSchema", {"type": "float", **constraints, "strict": True, "allow_inf_nan": False})


def string(**constraints: Any) -> CoreSchema:
    """Return a validator of strings.

    Raises:
        RegistrationError: The `pattern` among the constraints is not supported; see `linear_pattern`.
    """
    if "pattern" in constraints:
        constraints["pattern"] = linear_pattern(constraints["pattern"])
    return cast("CoreSchema", {"type": "str", **constraints, "strict": True})


def formatted(name: str) -> CoreSchema:
    """Return a validator of strings in a format of `FORMATS`."""
    return string(pattern=FORMATS[name])


def temporal(name: str, then: CoreSchema, tz_constraint: object = None) -> CoreSchema:
    """Return a validator of the strings of `format_schema(name, tz_constraint)`, which `then` converts."""
    return core_schema.chain_schema([string(pattern=format_pattern(name, tz_constraint)), then])


if sys.version_info >= (3, 11):
    decode_base64: Callable[[str], bytes] = partial(binascii.a2b_base64, strict_mode=True)
    """Returns the bytes of a base64 string (RFC 4648, section 4); raises ValueError for other strings."""
else:
    from base64 import b64decode

    def decode_base64(text: str) -> bytes:
        """Return the bytes of a base64 string: `strict_mode` is new in Python 3.11."""
        return b64decode(text.encode("ascii"), validate=True)


def string_to(convert: Callable[[str], Any]) -> CoreSchema:
    """Return a validator of strings, which `convert` turns into another value."""
    return core_schema.no_info_after_validator_function(convert, string())


def base64_bytes(then: CoreSchema, *, is_url_safe: bool = False) -> CoreSchema:
    """Return a validator of base64 strings, which become `bytes` and go on to `then`.

    Args:
        then: The next validator.
        is_url_safe: Whether they have the alphabet of RFC 4648, section 5.
    """
    steps = [string_to(decode_base64), then]
    if is_url_safe:
        translate = methodcaller("translate", str.maketrans("-_", "+/"))
        steps[:0] = [string(pattern=BASE64URL_PATTERN), string_to(translate)]
    return core_schema.chain_schema(steps)


def in_order(choices: Sequence[Any]) -> CoreSchema:
    """Return a validator of the first of some choices that a value fits."""
    return core_schema.union_schema(list(choices), mode="left_to_right")


def first_choices(choices: Sequence[Any]) -> list[Any]:
    """Return the choices of a union that are tried before all others.

    Any string is a `str`, so types written before it would never be chosen. Other strings may be base64 by accident.
    A number with a fraction of zero is an integer only where there is no `float`.
    """
    last = next((index for index, core in enumerate(choices) if core["type"] == "str"), 0)
    first = [core for core in choices[:last] if _takes_string(core)]
    if any(core["type"] == "union" and core["choices"][0]["type"] == "int" for core in choices):
        is_float = core_schema.is_instance_schema(float)
        first += [core_schema.chain_schema([is_float, core]) for core in choices if core["type"] == "float"]
    return first


def _takes_string(core: Any) -> bool:
    kind = core["type"]
    if kind == "chain":
        return core["steps"][0]["type"] == "literal" or _takes_string(core["steps"][0])
    if kind == "function-after":
        return core["function"]["function"] is not decode_base64 and _takes_string(core["schema"])
    return kind in ("str", "function-plain")


def one_of(choices: Sequence[tuple[Any, Any]]) -> CoreSchema:
    """Return a validator of a few JSON values, each with the Python value that it becomes."""
    kinds: set[type[Any]] = {type(value) for value, _ in choices}
    if len(kinds) == 1 and (kind := kinds.pop()) in (str, int, bool):
        steps: list[CoreSchema] = [core_schema.literal_schema([value for value, _ in choices])]
        if kind is not str:  # by itself it takes `true` for 1, as Python does
            steps.insert(0, integer() if kind is int else core_schema.bool_schema(strict=True))
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


def array(then: CoreSchema) -> CoreSchema:
    """Return a validator of arrays, which go on to `then`."""
    return core_schema.chain_schema([core_schema.list_schema(strict=True), then])


def mapping(keys: CoreSchema | None = None, items: CoreSchema | None = None) -> CoreSchema:
    """Return a validator of objects, by their keys and values."""
    return cast("CoreSchema", {**core_schema.dict_schema(keys, items, strict=True), "fail_fast": True})


def unique(then: CoreSchema) -> CoreSchema:
    """Return a validator of arrays without duplicates, which go on to `then`."""

    def check(value: Any) -> Any:
        if is_array(value) and not is_unique(value):
            raise refusal("duplicates")
        return value

    return core_schema.no_info_before_validator_function(check, then)


MAX_COLLISIONS = 100


def check_hashes(values: Collection[Any]) -> None:
    """Refuse values of which many have the same hash: a set compares each of those with all others."""
    if len(set(map(hash, values))) > len(values) - MAX_COLLISIONS:
        return
    if max(Counter(map(hash, values)).values()) > MAX_COLLISIONS:
        raise refusal(f"expected at most {MAX_COLLISIONS} values that have the same hash in Python")


def hashed(build: Callable[[list[Any]], Any], items: CoreSchema, **constraints: Any) -> CoreSchema:
    """Return a validator of arrays without duplicates, which `build` turns into a set."""

    def make(values: list[Any]) -> Any:
        check_hashes(values)
        return build(values)

    items = core_schema.list_schema(items, strict=True, fail_fast=True, **constraints)
    return unique(core_schema.no_info_after_validator_function(make, items))
