"""Annotations of classes that neither JSON nor pydantic knows: schema, and what makes a value of JSON.

The counterpart of `content.third_party`, which converts values to JSON. Here too no library is imported.
"""

from __future__ import annotations

import collections.abc
import re
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, get_args, get_origin

from pydantic_core import core_schema

from .._utils.exceptions import RegistrationError
from ..protocol.jsonrpc import is_array
from . import formats, from_schema, values
from .declared import JsonType, declared
from .described import Described, NotInTable, is_incoming
from .values import Json

_DURATION = re.compile(
    r"(-?)P(?:([0-9]+)D)?(?:T(?:([0-9]+)H)?(?:([0-9]+)M)?(?:([0-9]+)(?:\.([0-9]{1,9}))?S)?)?"
)
_MOST_DIMENSIONS = 2
"""Number of dimensions in the schema of an array without a declared number of dimensions."""

Convert = Callable[[Any], Any]
Form = tuple[Json, Convert]
"""The schema of data, and what makes a value of data that fits it."""

_LIST: Json = {"type": "array", "items": {}}
_OBJECT: Json = {"type": "object", "additionalProperties": True}

# Subscribed with what is only known at run time, which no type checker follows.
_TUPLE: Any = tuple


def described(annotation: Any, describe: Callable[[Any], Described]) -> Described:
    """Return schema and validator of an annotation.

    Args:
        annotation: A class, or one with arguments in brackets.
        describe: Returns the same for a type within.

    Raises:
        NotInTable: Nothing is known of it.
        RegistrationError: JSON has no form for it, or none that can be read back.
    """
    annotation = unaliased(annotation)
    origin = get_origin(annotation) or annotation
    if not isinstance(origin, type):
        raise NotInTable
    if (own := declared(origin)) is not None:
        return of_json_type(own)
    if (found := iterated_as(origin, get_args(annotation))) is not None:
        if origin in _ASYNCHRONOUS and is_incoming():
            raise RegistrationError("an async iterable cannot be an argument; use a list")
        item, is_iterator = found
        return _array_of(describe(item), iter if is_iterator else list)
    package = origin.__module__.partition(".")[0]
    if package == "numpy":
        return _of_numpy(origin, get_args(annotation))
    known = _BY_NAME.get((package, origin.__qualname__))
    # With types in brackets pydantic knows what a missing item of a defaultdict is.
    if known is None or (package == "collections" and annotation is not origin):
        raise NotInTable
    return _of_schema(*known(origin))


def unaliased(annotation: Any) -> Any:
    """Return what an alias of numpy with arguments in brackets stands for, such as `NDArray[T]`; others as they are."""
    alias = get_origin(annotation)
    if alias is None or isinstance(alias, type) or not getattr(alias, "__module__", "").startswith("numpy."):
        return annotation
    return alias.__value__[get_args(annotation)]


def of_json_type(own: JsonType) -> Described:
    """Return schema and validator of a class with a registered JSON form."""
    if own.decode is None and is_incoming():
        raise RegistrationError(
            f"{own.cls.__qualname__} is for results only; pass decode= to its json_type to use it for arguments"
        )
    return _converted(own.form(), own.decode or _refuse_data)


def _refuse_data(_: Any) -> Any:
    raise ValueError(
        "values of this type are for results only; pass decode= to its json_type to use it for arguments"
    )


def _converted(form: Described, convert: Convert) -> Described:
    def checked(value: Any) -> Any:
        try:
            return convert(value)
        except (TypeError, ArithmeticError) as error:
            raise ValueError(" ".join(str(error).split()) or type(error).__name__) from error

    core = core_schema.no_info_after_validator_function(checked, form.core)
    return Described(form.schema, core, definitions=form.definitions)


def _of_schema(schema: Json, convert: Convert) -> Described:
    """Return what accepts the values that fit a schema, and converts them."""
    return _converted(Described(schema, from_schema.core(schema)), convert)


def _array_of(items: Described, convert: Convert) -> Described:
    form = Described(
        {"type": "array", "items": items.schema}, core_schema.list_schema(items.core, strict=True)
    )
    return _converted(form, convert)


_DICT: dict[Any, Any] = {}
_ITERATORS = frozenset({collections.abc.Iterator, collections.abc.Generator})
_ASYNCHRONOUS = frozenset(
    {collections.abc.AsyncIterator, collections.abc.AsyncGenerator, collections.abc.AsyncIterable}
)
_PAIRS = frozenset({collections.abc.ItemsView, type(_DICT.items())})
_VIEWS = frozenset({
    collections.abc.Iterable, collections.abc.Reversible, collections.abc.KeysView, collections.abc.ValuesView,
    type(_DICT.keys()), type(_DICT.values())
})  # fmt: skip


def iterated_as(origin: Any, arguments: tuple[Any, ...]) -> tuple[Any, bool] | None:
    """Return the type of the items of what is iterated, and whether it is an iterator; None for anything else."""
    if origin in _PAIRS:
        return (_TUPLE[arguments] if arguments else list), False
    if origin not in _ITERATORS | _ASYNCHRONOUS | _VIEWS:
        return None
    return (arguments[0] if arguments else Any), origin in _ITERATORS


def _range_of(numbers: list[int]) -> range:
    if len(numbers) < 2:
        return range(numbers[0], numbers[0] + 1) if numbers else range(0)
    step = numbers[1] - numbers[0]
    if step:
        found = range(numbers[0], numbers[-1] + (1 if step > 0 else -1), step)
        if list(found) == numbers:
            return found
    raise ValueError("expected integers with a constant step")


def _length(cls: Any) -> Form:
    return {"type": "string", "pattern": formats.EXACT_DURATION}, lambda text: cls(_nanoseconds(text), "ns")


def _list(cls: Any) -> Form:
    return _LIST, cls


def _table(cls: Any) -> Form:
    return {"type": "array", "items": _OBJECT}, cls


_BY_NAME: dict[tuple[str, str], Callable[[Any], Form]] = {
    # (package, class): the form of such an annotation
    ("fractions", "Fraction"): lambda cls: ({"type": "string", "pattern": formats.FRACTION}, cls),
    ("builtins", "range"): lambda _: ({"type": "array", "items": {"type": "integer"}}, _range_of),
    ("types", "SimpleNamespace"): lambda cls: (_OBJECT, lambda members: cls(**members)),
    ("collections", "defaultdict"): lambda cls: (_OBJECT, partial(cls, None)),
    ("pandas", "Timestamp"): lambda cls: (formats.schema("date-time"), cls),
    ("pandas", "Timedelta"): _length,
    ("pandas", "Series"): _list,
    ("pandas", "Index"): _list,
    ("pandas", "DataFrame"): _table,
    ("polars", "Series"): _list,
    ("polars", "DataFrame"): _table,
}


def _nanoseconds(text: str) -> int:
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError(
            "expected an ISO 8601 duration of days, hours, minutes and seconds such as P1DT2H30M"
        )
    sign, *parts, fraction = match.groups()
    days, hours, minutes, seconds = (int(part or 0) for part in parts)
    total = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    nanoseconds = total * 1_000_000_000 + int((fraction or "").ljust(9, "0"))
    return -nanoseconds if sign else nanoseconds


def _of_numpy(cls: Any, arguments: tuple[Any, ...]) -> Described:
    numpy: Any = sys.modules["numpy"]
    if cls is numpy.ndarray:
        return _array(numpy, *(arguments or (Any, Any)))
    if not issubclass(cls, numpy.generic):
        raise NotInTable
    return _of_schema(*_scalar(_exact(numpy, cls)))


_EXACT = {
    **dict.fromkeys(("integer", "signedinteger"), "int64"),
    **dict.fromkeys(("number", "inexact", "floating"), "float64"),
    "unsignedinteger": "uint64",
}
"""What is made where an annotation names a kind of number."""


def _exact(numpy: Any, cls: Any) -> Any:
    return getattr(numpy, _EXACT.get(cls.__name__, ""), cls)


def _scalar(cls: Any) -> Form:
    """Return the schema of a number, text or time of numpy, and what makes one of JSON."""
    for base in cls.__mro__:
        if base.__name__ in _SCALARS:
            return _SCALARS[base.__name__](cls)
    raise RegistrationError(f"{cls.__name__} of numpy cannot be converted to JSON; use another type")


def _integer(cls: Any) -> Form:
    if cls(0).itemsize >= 8:  # beyond what readers of JSON hold exactly
        return {"type": "integer"}, cls
    limits = sys.modules["numpy"].iinfo(cls)
    return {"type": "integer", "minimum": int(limits.min), "maximum": int(limits.max)}, cls


def _finite(numpy: Any, make: Convert) -> Convert:
    """Return what refuses numbers that a kind of float is too small for: JSON itself knows no infinity."""

    def convert(value: Any) -> Any:
        with numpy.errstate(over="ignore"):
            made = make(value)
        if numpy.isinf(made).any():
            raise ValueError(f"expected a number within the range of {made.dtype}")
        return made

    return convert


def _bytes(cls: Any) -> Form:
    form = {"type": "string", "contentEncoding": "base64"}
    return form, lambda text: cls(values.decode_base64(text))


_SCALARS: dict[str, Callable[[Any], Form]] = {
    # numpy's class, or one it is derived from: before those that these are derived from in turn
    "timedelta64": _length,  # an integer, says numpy
    "integer": _integer,
    "floating": lambda cls: ({"type": "number"}, _finite(sys.modules["numpy"], cls)),
    "bool": lambda cls: ({"type": "boolean"}, cls),
    "bool_": lambda cls: ({"type": "boolean"}, cls),
    "str_": lambda cls: ({"type": "string"}, cls),
    "bytes_": _bytes,
    "datetime64": lambda cls: (_moment(), cls),
}


def _moment() -> Json:
    """Return the schema of what datetime64 reads: a date, or a date and time without offset."""
    branches: list[Json] = formats.schema("date-time").get("anyOf", [])
    local = [branch for branch in branches if "format" not in branch]
    return values.any_of([formats.schema("date"), *local])


def _array(numpy: Any, shape: Any, dtype: Any) -> Described:
    scalar: Any = next(iter(get_args(dtype)), Any)
    if scalar in (Any, numpy.generic, numpy.object_) or not isinstance(scalar, type):
        return _of_schema(_LIST, numpy.array)
    scalar = _exact(numpy, scalar)
    item, convert_item = _scalar(scalar)
    if issubclass(scalar, numpy.floating):
        item = values.nullable(item)  # NaN
    # What numpy does not read itself is converted one by one.
    is_read = not issubclass(scalar, (numpy.timedelta64, numpy.bytes_))

    def convert(value: Any) -> Any:
        return numpy.array(value if is_read else _each(convert_item, value), scalar)

    checked = _finite(numpy, convert) if issubclass(scalar, numpy.floating) else convert
    sizes = get_args(shape)
    if sizes and Ellipsis not in sizes:
        for _ in sizes:
            item = {"type": "array", "items": item}
        return _of_schema(item, checked)
    inner = _LIST
    for _ in range(_MOST_DIMENSIONS):
        inner = {"type": "array", "items": values.any_of([item, inner])}
    return _of_schema(inner, checked)


def _each(convert: Convert, value: Any) -> Any:
    return [_each(convert, item) for item in value] if is_array(value) else convert(value)
