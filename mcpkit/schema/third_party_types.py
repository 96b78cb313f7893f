"""Classes that neither JSON nor pydantic knows: of numpy, pandas, polars, attrs, msgspec, and some of Python's own.

The counterpart of content/iterators_and_third_party_values.py, which makes JSON of a value. Here too no library is
imported: classes are found in `sys.modules`, or known by their names.
"""

from __future__ import annotations

import collections.abc
import re
import sys
import typing
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from fractions import Fraction
from functools import partial
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, cast, get_args, get_origin

import typing_extensions
from pydantic_core import CoreSchema, core_schema
from typing_extensions import NotRequired, is_typeddict

from .._utils.exceptions import RegistrationError
from ..content.iterators_and_third_party_values import attrs_fields, is_struct, struct_fields
from ..protocol.jsonrpc import Json, is_array, is_object
from .function_signatures import classes_of, fields_of, hints_of, last_text
from .json_schema import Described, JsonType, any_of, default_value, is_incoming, json_types
from .patterns_and_formats import EXACT_DURATION, FRACTION, format_schema
from .pydantic_validators import copied, core_of
from .value_validators import CONSTRAINTS

_Convert = Callable[[Any], Any]
# The schema of data, and the function that converts data that fit it.
_Form = tuple[Json, _Convert]

# Subscribed with what is only known at run time, which no type checker follows.
_ANNOTATED: Any = Annotated
_LIST: Any = list
_LITERAL: Any = Literal
_TUPLE: Any = tuple
_UNION: Any = Union

# --- Annotations

_ITERATORS: frozenset[Any] = frozenset({collections.abc.Iterator, collections.abc.Generator})
_ASYNCHRONOUS: frozenset[Any] = frozenset(
    {collections.abc.AsyncIterator, collections.abc.AsyncGenerator, collections.abc.AsyncIterable}
)
_VIEWS: frozenset[Any] = frozenset({collections.abc.Iterable, collections.abc.Reversible})
_LITERAL_STRINGS = (typing_extensions.LiteralString, getattr(typing, "LiteralString", str))

ANNOTATION = "mcpkit"
# Keys of the metadata of a core schema: the annotation of a class, and a text of `Annotated`.
TEXT = "mcpkit_text"


class _Marked(NamedTuple):
    """Adds metadata to the core schema of a type, in `Annotated`; `Field` would change a class in all places."""

    key: str
    value: Any

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> CoreSchema:
        """Return the core schema with the metadata."""
        if self.key == ANNOTATION:
            inner: Any = core_schema.is_instance_schema(get_origin(self.value))
        else:
            inner = handler(source)
        return cast("CoreSchema", {**inner, "metadata": {**inner.get("metadata", {}), self.key: self.value}})


class _Iterated(NamedTuple):
    """Marks a list that the function receives as an iterator."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> CoreSchema:
        """Return the core schema that makes an iterator of the list."""
        inner = handler(source)
        return core_schema.no_info_after_validator_function(iter, inner) if is_incoming() else inner


def supported(annotation: Any) -> Any:
    """Return an annotation that pydantic supports, in place of `NDArray[T]`, `Iterator[T]` or `LiteralString`.

    Raises:
        RegistrationError: It is an async iterable, which cannot be an argument.
    """
    origin, arguments = get_origin(annotation), get_args(annotation)
    if not arguments or origin is Literal:
        return str if annotation in _LITERAL_STRINGS else annotation
    annotation = _unaliased(annotation)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is not collections.abc.Iterable and (found := _iterated(origin, arguments)):
        item, is_iterator = found
        items = _LIST[supported(item)]
        return _ANNOTATED[items, _Iterated()] if is_iterator else items
    if isinstance(origin, type) and origin.__module__ == "numpy":
        return _ANNOTATED[origin, _Marked(ANNOTATION, annotation)]
    inner, metadata = arguments, tuple[Any, ...]()
    if origin is Annotated:
        inner, metadata = arguments[:1], annotation.__metadata__
    texts = [item if (text := last_text([item])) is None else _Marked(TEXT, text) for item in metadata]
    parts = (*map(supported, inner), *texts)
    if all(new is old for new, old in zip(parts, (*inner, *metadata), strict=True)):
        return annotation
    if hasattr(annotation, "copy_with") and origin is not Annotated:
        return annotation.copy_with(parts)
    subscribed = cast("Any", Union if origin is UnionType else origin)
    return subscribed[parts]


def _unaliased(annotation: Any) -> Any:
    """Return the type of an alias of numpy with arguments in brackets, such as `NDArray[T]`; others unchanged."""
    alias = get_origin(annotation)
    if alias is None or isinstance(alias, type) or not getattr(alias, "__module__", "").startswith("numpy."):
        return annotation
    return alias.__value__[get_args(annotation)]


def _iterated(origin: Any, arguments: tuple[Any, ...]) -> tuple[Any, bool] | None:
    """Return the type of the items of an iterable, and whether it is an iterator; None for other types."""
    if origin in _ASYNCHRONOUS and is_incoming():
        raise RegistrationError("an async iterable cannot be an argument; use a list")
    if origin not in _ITERATORS | _ASYNCHRONOUS | _VIEWS:
        return None
    return (arguments[0] if arguments else Any), origin in _ITERATORS


# --- Nodes of core schemas


def described_node(node: Any, describe: Callable[[Any], Described]) -> Described | None:
    """Return schema and validator of a node of a core schema of pydantic; None to use those of pydantic.

    Args:
        node: It is of a class that pydantic does not know, or describes otherwise.
        describe: Returns the same for a type.

    Raises:
        RegistrationError: JSON has no form for the class.
    """
    annotation = _class_of(node)
    if annotation is collections.abc.Hashable:  # a key or an item of pandas; any value
        return Described({}, core_schema.any_schema())
    origin = get_origin(annotation) or annotation
    if not isinstance(origin, type):
        return None
    if (own := json_types.get(origin)) is not None:
        return of_json_type(own)
    if (found := _iterated(origin, get_args(annotation))) is not None:
        items = describe(found[0])
        schema = {"type": "array", "items": items.schema}
        form = Described(schema, core_schema.list_schema(items.core, strict=True))
        return _converted(form, iter if found[1] else list)
    package = origin.__module__.partition(".")[0]
    if package == "numpy":
        return _numpy(origin, get_args(annotation))
    known = _FORMS.get((package, origin.__qualname__))
    return None if known is None else _of_schema(*known(origin))


def _class_of(node: Any) -> Any:
    """Return the annotation of a class that pydantic does not know; None for other nodes."""
    kind = node.get("type")
    if kind == "is-instance":
        return node.get("metadata", {}).get(ANNOTATION, node["cls"])
    if kind == "lax-or-strict":  # of a Fraction, before pydantic 2.14
        function = node["lax_schema"].get("function")
        name = getattr(is_object(function) and function.get("function"), "__name__", "")
        return Fraction if name == "fraction_validator" else None
    return Fraction if kind == "fraction" else None


def of_json_type(own: JsonType) -> Described:
    """Return schema and validator of a class with a registered JSON form."""
    if own.decode is None and is_incoming():
        raise RegistrationError(
            f"{own.cls.__qualname__} is for results only; pass decode= to its json_type to use it for arguments"
        )

    def refuse(_: Any) -> Any:
        raise ValueError(
            "values of this type are for results only; pass decode= to its json_type to use it for arguments"
        )

    return _converted(own.form(), own.decode or refuse)


def _converted(form: Described, convert: _Convert) -> Described:
    def checked(value: Any) -> Any:
        try:
            return convert(value)
        except (TypeError, ArithmeticError) as error:
            raise ValueError(" ".join(str(error).split()) or type(error).__name__) from error

    core = core_schema.no_info_after_validator_function(checked, form.core)
    return Described(form.schema, core, definitions=form.definitions)


def _of_schema(schema: Json, convert: _Convert) -> Described:
    return _converted(Described(schema, core_of(schema)), convert)


def restored(core: Any) -> Any:
    """Return a core schema with the type arguments of numpy's classes in fields, which pydantic drops."""
    return _restored(core, {}, {}) if "numpy" in sys.modules else core


# Annotations with type arguments, by class.
_Aliases = Mapping[Any, Any]


def _restored(core: Any, fields: Mapping[str, _Aliases], aliases: _Aliases) -> Any:
    if not is_object(core):
        return copied(core, lambda inner: _restored(inner, fields, aliases))
    kind = core.get("type")
    if kind == "is-instance" and core["cls"] in aliases:
        return {**core, "metadata": {**core.get("metadata", {}), ANNOTATION: aliases[core["cls"]]}}
    if kind in ("model", "dataclass", "typed-dict", "named-tuple"):
        fields = _aliases_of(core.get("cls"))
    elif kind == "call":  # a NamedTuple before pydantic 2.14
        fields = _aliases_of(core["function"])
    elif isinstance(core.get("name"), str) and "schema" in core:
        aliases = fields.get(core["name"], {})
    if kind in ("model-fields", "typed-dict"):
        inner = core["fields"].items()
        return {**core, "fields": {name: _restored(field, {}, fields.get(name, {})) for name, field in inner}}
    return copied(core, lambda inner: _restored(inner, fields, aliases), ("metadata", "config", "cls"))


def _aliases_of(cls: Any) -> Mapping[str, _Aliases]:
    def of_numpy(hint: Any) -> Iterator[Any]:
        hint = _unaliased(hint)
        origin = get_origin(hint)
        if isinstance(origin, type) and origin.__module__ == "numpy":
            yield hint
        else:
            for part in get_args(hint):
                yield from of_numpy(part)

    try:
        hints = hints_of(cls)
    except (NameError, TypeError):  # pydantic has found the names elsewhere
        return {}
    return {name: {get_origin(part): part for part in of_numpy(hint)} for name, hint in hints.items()}


# --- Classes by name

_OBJECT: Json = {"type": "object", "additionalProperties": True}
_ARRAY: Json = {"type": "array", "items": {}}
_BASE64: Json = {"type": "string", "contentEncoding": "base64"}
_DURATION = re.compile(
    r"(-?)P(?:([0-9]+)D)?(?:T(?:([0-9]+)H)?(?:([0-9]+)M)?(?:([0-9]+)(?:\.([0-9]{1,9}))?S)?)?"
)


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


def _duration(cls: Any) -> _Form:
    schema = {"type": "string", "pattern": EXACT_DURATION}
    return schema, lambda text: cls(_nanoseconds(text), "ns")


def _range(numbers: list[int]) -> range:
    if len(numbers) < 2:
        return range(numbers[0], numbers[0] + 1) if numbers else range(0)
    step = numbers[1] - numbers[0]
    if step:
        found = range(numbers[0], numbers[-1] + (1 if step > 0 else -1), step)
        if list(found) == numbers:
            return found
    raise ValueError("expected integers with a constant step")


_FORMS: dict[tuple[str, str], Callable[[Any], _Form]] = {
    # (package, class): the form of such an annotation
    ("fractions", "Fraction"): lambda cls: ({"type": "string", "pattern": FRACTION}, cls),
    ("builtins", "bytearray"): lambda cls: (_BASE64, cls),
    ("builtins", "memoryview"): lambda cls: (_BASE64, cls),
    ("builtins", "range"): lambda _: ({"type": "array", "items": {"type": "integer"}}, _range),
    ("types", "SimpleNamespace"): lambda cls: (_OBJECT, lambda members: cls(**members)),
    ("collections", "defaultdict"): lambda cls: (_OBJECT, partial(cls, None)),
    ("pandas", "Timestamp"): lambda cls: (format_schema("date-time"), cls),
    ("pandas", "Timedelta"): _duration,
    **{(package, name): lambda cls: (_ARRAY, cls)
       for package, name in (("pandas", "Series"), ("pandas", "Index"), ("polars", "Series"))},
    **{(package, "DataFrame"): lambda cls: ({"type": "array", "items": _OBJECT}, cls)
       for package in ("pandas", "polars")},
}  # fmt: skip


# --- numpy

# Number of dimensions in the schema of an array without a declared number of dimensions.
_MAX_DIMENSIONS = 2
# The classes of values for abstract classes in annotations.
_EXACT = {
    **dict.fromkeys(("integer", "signedinteger"), "int64"),
    **dict.fromkeys(("number", "inexact", "floating"), "float64"),
    "unsignedinteger": "uint64",
}


def _numpy(cls: Any, arguments: tuple[Any, ...]) -> Described | None:
    numpy: Any = sys.modules["numpy"]
    if cls is numpy.ndarray:
        shape, dtype = arguments or (Any, Any)
        return _numpy_array(numpy, shape, next(iter(get_args(dtype)), Any))
    if not issubclass(cls, numpy.generic):
        return None
    return _of_schema(*_numpy_scalar(getattr(numpy, _EXACT.get(cls.__name__, ""), cls)))


def _numpy_array(numpy: Any, shape: Any, scalar: Any) -> Described:
    if scalar in (Any, numpy.generic, numpy.object_) or not isinstance(scalar, type):
        return _of_schema(_ARRAY, numpy.array)
    scalar = getattr(numpy, _EXACT.get(scalar.__name__, ""), scalar)
    is_float = issubclass(scalar, numpy.floating)
    item, convert_item = _numpy_scalar(scalar)
    if is_float:
        item = any_of([item, {"type": "null"}])  # NaN
    # Values that numpy does not read itself are converted one by one.
    is_read = not issubclass(scalar, (numpy.timedelta64, numpy.bytes_))

    def each(value: Any) -> Any:
        return [each(inner) for inner in value] if is_array(value) else convert_item(value)

    def convert(value: Any) -> Any:
        return numpy.array(value if is_read else each(value), scalar)

    checked = _finite(numpy, convert) if is_float else convert
    sizes = get_args(shape)
    if sizes and Ellipsis not in sizes:
        for _ in sizes:
            item = {"type": "array", "items": item}
        return _of_schema(item, checked)
    schema = _ARRAY
    for _ in range(_MAX_DIMENSIONS):
        schema = {"type": "array", "items": any_of([item, schema])}
    return _of_schema(schema, checked)


def _finite(numpy: Any, make: _Convert) -> _Convert:
    """Return a function that refuses numbers beyond the range of a kind of float: JSON has no infinity."""

    def convert(value: Any) -> Any:
        with numpy.errstate(over="ignore"):
            made = make(value)
        if numpy.isinf(made).any():
            raise ValueError(f"expected a number within the range of {made.dtype}")
        return made

    return convert


def _numpy_scalar(cls: Any) -> _Form:
    """Return the form of a number, text or time of numpy."""
    for base in cls.__mro__:
        if base.__name__ in _NUMPY:
            return _NUMPY[base.__name__](cls)
    raise RegistrationError(f"{cls.__name__} of numpy cannot be converted to JSON; use another type")


def _numpy_integer(cls: Any) -> _Form:
    if cls(0).itemsize >= 8:  # beyond the integers that readers of JSON hold exactly
        return {"type": "integer"}, cls
    limits = sys.modules["numpy"].iinfo(cls)
    return {"type": "integer", "minimum": int(limits.min), "maximum": int(limits.max)}, cls


_NUMPY: dict[str, Callable[[Any], _Form]] = {
    # numpy's class, or a base class of it; derived classes first
    "timedelta64": _duration,  # an integer in numpy
    "integer": _numpy_integer,
    "floating": lambda cls: ({"type": "number"}, _finite(sys.modules["numpy"], cls)),
    **dict.fromkeys(("bool", "bool_"), lambda cls: ({"type": "boolean"}, cls)),
    "str_": lambda cls: ({"type": "string"}, cls),
    "bytes_": lambda cls: (_BASE64, cls),
    # It reads a date, or a date and time without offset.
    "datetime64": lambda cls: (any_of([format_schema("date"), format_schema("date-time", "naive")]), cls),
}


# --- Classes with fields
#
# pydantic describes a TypedDict of the same fields in place of a class of attrs or msgspec.

HOOK = "__get_pydantic_core_schema__"
_equivalents: dict[Any, Any] = {}


def prepare(annotation: Any) -> None:
    """Make pydantic accept every class of attrs and msgspec and every TypedDict of `typing` in a type.

    Each such class gets pydantic's own hook: nothing else would reach those in the fields of a dataclass. Before 3.12
    pydantic refuses TypedDicts of `typing`, because inherited fields lose their qualifiers.
    """
    has_structs = "attr" in sys.modules or "msgspec" in sys.modules
    has_typed_dicts = sys.version_info < (3, 12)
    for cls in classes_of(annotation) if has_structs or has_typed_dicts else ():
        if hasattr(cls, HOOK):
            continue
        if has_structs and is_struct(cls):
            setattr(cls, HOOK, _describe_struct)
        elif has_typed_dicts and is_typeddict(cls) and type(cls).__module__ == "typing":
            hints = {name: hint if is_required else NotRequired[hint]
                     for name, (hint, is_required) in fields_of(cls).items()}  # fmt: skip
            built = _typed_dict(cls, hints)
            if (config := getattr(cls, "__pydantic_config__", None)) is not None:
                built.__pydantic_config__ = config
            setattr(cls, HOOK, partial(_describe_as, built))


def _describe_as(built: Any, source: Any, handler: Any) -> Any:
    return handler.generate_schema(built)


def _typed_dict(cls: Any, hints: dict[str, Any]) -> Any:
    """Return the TypedDict that pydantic describes in place of a class."""
    build: Any = typing_extensions.TypedDict
    built = build(cls.__name__, hints)
    built.__module__, built.__qualname__, built.__doc__ = cls.__module__, cls.__qualname__, cls.__doc__
    return built


def struct_hints(cls: Any) -> dict[str, Any]:
    """Return the types of the constructor's arguments of a class of attrs or msgspec, by their names in JSON."""
    return hints_of(_equivalent(cls))


def _equivalent(cls: Any) -> Any:
    if cls not in _equivalents:
        hints = _attrs_hints(cls) if hasattr(cls, "__attrs_attrs__") else _msgspec_hints(cls)
        _equivalents[cls] = _typed_dict(cls, dict(hints))
    return _equivalents[cls]


def _describe_struct(source: Any, handler: Any) -> Any:
    """Return the core schema of a class (`__get_pydantic_core_schema__`)."""
    cls = get_origin(source) or source
    inner = handler.generate_schema(_equivalent(cls))
    names: dict[str, str] = {}
    dump = attrs_fields
    if not hasattr(cls, "__attrs_attrs__"):
        dump = struct_fields
        names = dict(zip(cls.__struct_encode_fields__, cls.__struct_fields__, strict=True))
        if cls.__struct_config__.tag is not None:
            names[cls.__struct_config__.tag_field] = ""

    def construct(fields: dict[str, Any]) -> Any:
        arguments: dict[str, Any] = {names.get(name, name): value for name, value in fields.items()}
        arguments.pop("", None)
        try:
            return cls(**arguments)
        except TypeError as error:  # raised by the validators of attrs for a type
            raise ValueError(error.args[0] if error.args else str(error)) from error

    serializer = core_schema.plain_serializer_function_ser_schema(dump, return_schema=inner)
    return core_schema.no_info_after_validator_function(construct, inner, serialization=serializer)


def _attrs_hints(cls: Any) -> Iterator[tuple[str, Any]]:
    hints = hints_of(cls)
    attr: Any = sys.modules["attr"]
    for field in cls.__attrs_attrs__:
        if field.init:
            name = getattr(field, "alias", None) or field.name.lstrip("_")
            hint = hints.get(field.name, Any)
            yield name, hint if field.default is attr.NOTHING else _with_default(hint, field.default)


# Members of `msgspec.Meta` that pydantic's `Field` has, too.
_META = (*CONSTRAINTS["number"], *CONSTRAINTS["string"], "title", "description", "examples")


def _msgspec_hints(cls: Any) -> Iterator[tuple[str, Any]]:
    from pydantic import Field

    msgspec: Any = sys.modules["msgspec"]
    config = cls.__struct_config__
    if config.array_like:
        raise RegistrationError(
            f"{cls.__qualname__} has array_like=True, which a schema cannot describe; remove it"
        )
    if config.tag is not None:
        yield config.tag_field, _LITERAL[config.tag]
    hints = hints_of(cls)
    for field in msgspec.structs.fields(cls):
        hint = hints[field.name]
        parts = get_args(hint)
        if msgspec.UnsetType in parts:  # the marker of an absent field
            hint = _UNION[tuple(part for part in parts if part is not msgspec.UnsetType)]
        if get_origin(hint) is Annotated:
            metadata: list[Any] = [
                Field(**{name: value for name in _META if (value := getattr(item, name)) is not None})
                if isinstance(item, msgspec.Meta)
                else item
                for item in hint.__metadata__
            ]
            parts = (hint.__origin__, *metadata)
            hint = _ANNOTATED[parts]
        yield field.encode_name, hint if field.required else _with_default(hint, field.default)


def _with_default(hint: Any, default: Any) -> Any:
    from pydantic import Field

    with suppress(ValueError):  # a factory, or a value without a JSON form, is not in the schema
        hint = _ANNOTATED[hint, Field(json_schema_extra={"default": default_value(default)})]
    return NotRequired[hint]
