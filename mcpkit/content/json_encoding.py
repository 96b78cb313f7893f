"""Python values to JSON: those of JSON types, pydantic models, dataclasses, and all that has an encoder.

A value that consists of JSON types is passed on at little cost. Another one is converted member by member, so that an
error has its place and cause.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import inspect
import math
import os
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from contextvars import ContextVar
from decimal import Decimal
from functools import lru_cache
from itertools import chain
from types import BuiltinFunctionType, FunctionType, GeneratorType, MethodType
from typing import Any, NoReturn, ParamSpec, TypeVar, cast

from pydantic_core import CoreSchema, SchemaSerializer, core_schema, from_json, to_json, to_jsonable_python

from .._utils.exceptions import HandlerError, OutputError, ProtocolError, RegistrationError, exception_text
from ..protocol.jsonrpc import SCALARS, Json, is_array, is_object, without
from .blocks import ContentError, LeaveLoop, Steps, WholeResult, base64, described, path, shown, unreadable
from .iterators_and_third_party_values import NoFormError, encoder, is_file, items_of, renderer

P = ParamSpec("P")
T = TypeVar("T")

# The levels of arrays and objects that a result may have: readers of JSON that clients use end at 200.
MAX_DEPTH = 190

# Digits that a number needs at least to be infinite to readers of JSON that have doubles only.
LONG = 308

# Integers from this one on, and its negative, are infinite to readers of JSON that have doubles only.
MAX_INTEGER = 2**1024

_STEP = 20
_DIGITS_AS_ZERO = bytes(48 if byte in b"0123456789" else 32 for byte in range(256))
_LONG_RUN = b"0" * (LONG // _STEP)
_JSON_TYPES = SCALARS | {dict, list}
_TEXT_ONLY = frozenset({str})
_VALUES = cast("Callable[[Any], Iterable[Any]]", vars(dict)["values"])
_FEW_ITEMS = 8
_MANY_CONTAINERS = 10_000
_TIMES = frozenset({dt.datetime, dt.date, dt.time, dt.timedelta})
_ARRAYS = (list, tuple, set, frozenset, deque)
# Errors of pydantic for models that contain themselves or are nested too deeply.
_TOO_DEEP = ("Circular reference detected", "Maximum serialization depth exceeded")


# --- JSON values and their text


def is_json(value: Any, levels: int = MAX_DEPTH) -> bool:
    """Return whether a value consists only of JSON types.

    Strings and numbers are not checked; they may still be impossible to encode.

    Args:
        value: The value.
        levels: Maximum number of levels of arrays and objects.
    """
    kind: Any = type(value)  # pyright: ignore[reportUnknownVariableType]  # `cast` costs as much as the rest
    if kind is list and len(value) > _FEW_ITEMS:
        return _is_level_json([value], levels)
    if kind is list or kind is dict:
        if kind is dict:
            for key in value:
                if type(key) is not str:
                    return False
            value = value.values()
        for item in value:  # noqa: SIM110 - `all` and a generator cost as much again
            if type(item) not in SCALARS and not (levels > 1 and is_json(item, levels - 1)):
                return False
        return True
    return kind in SCALARS


def _is_level_json(level: list[Any], levels: int) -> bool:
    """Return the same for many arrays and objects at once, with few steps in Python for each."""
    while levels:
        dicts: list[Any] = [each for each in level if type(each) is dict]
        if not _TEXT_ONLY.issuperset(map(type, chain.from_iterable(dicts))):
            return False
        inner: list[Any] = list(chain.from_iterable(map(_VALUES, dicts)))
        if len(dicts) < len(level):
            lists: list[Any] = [each for each in level if type(each) is list]
            inner.extend(chain.from_iterable(lists))
        kinds: set[Any] = set(map(type, inner))
        if kinds <= SCALARS:
            return True
        if not kinds <= _JSON_TYPES:
            return False
        level = [each for each in inner if type(each) not in SCALARS]
        if len(level) > _MANY_CONTAINERS:  # one that contains itself would occur more and more often
            level = list(dict(zip(map(id, level), level, strict=True)).values())
        levels -= 1
    return False


def member_name(value: Any) -> str:
    """Return a scalar key as the name of a member of a JSON object."""
    return str(next(iter(from_json(to_json({value: None})))))


def text_of(data: Any) -> str:
    """Return a JSON value as text: a string as it is, other values as JSON.

    Raises:
        OutputError: It has a lone surrogate, or a number that few JSON parsers support.
    """
    return data if type(data) is str else json_of(data).decode()


def json_of(data: Any) -> bytes:
    """Return the JSON of a JSON value.

    Raises:
        OutputError: It has a lone surrogate, or a number that few JSON parsers support.
    """
    try:
        text = to_json(data, inf_nan_mode="null")  # as `protocol.encode`, with a frame less
    except ValueError as error:
        raise json_error(data) or error from None
    if len(text) > LONG and may_have_huge_number(text) and (problem := json_error(data)):
        raise problem
    return text


def may_have_huge_number(text: bytes) -> bool:
    """Return whether a JSON text may have a number of more than 300 digits, by checking every twentieth byte."""
    return text[::_STEP].translate(_DIGITS_AS_ZERO).find(_LONG_RUN) >= 0


def json_error(value: Any) -> OutputError | None:
    """Return the error of a result or its data that cannot be converted to JSON; None if there is none."""
    parts = [value]
    if is_object(value) and "structuredContent" in value:
        parts.insert(0, value["structuredContent"])
    for part in parts:
        try:
            checked_json(part)
        except OutputError as error:
            return error
    return None


def check_sendable(where: str, part: str, value: Any) -> None:
    """Check that a text or schema can be sent, as one wrong entry would make a whole list fail.

    Args:
        where: Component or argument, for messages; empty if the caller adds it.
        part: Name of the value in messages: `description`, `schema`.
        value: The value.

    Raises:
        RegistrationError: It is not JSON, or has a lone surrogate, NaN, or a number that few clients support.
    """
    if value is None or (type(value) is str and value.isascii()):
        return
    with suppress(ValueError):
        text = to_json(value, inf_nan_mode="constants")
        is_long = len(text) > LONG and may_have_huge_number(text)
        if not is_long and b"NaN" not in text and b"Infinity" not in text:
            return
    prefix = f"{where}: " if where else ""
    if (problem := json_error(value)) is not None:
        reason = str(problem).removeprefix("result")
        # Raised by the author's class, and its text is for the log of a call.
        if problem.__cause__ is not None:
            reason = f"{reason.partition(';')[0]}; write it as JSON"
        raise RegistrationError(f"{prefix}{part}{reason}") from problem.__cause__
    for steps, name in infinite_places(value).items():
        place = path((part, *steps))
        raise RegistrationError(f"{prefix}{place} cannot be converted to JSON: {name}; use a finite number")


# --- Python values to JSON


def json_value(value: Any, place: str = "result") -> Any:
    """Return a value of any type as a JSON value; JSON values are returned as they are.

    Models, dataclasses and the like follow the schemas of their classes, bytes become base64 (RFC 4648, section 4),
    and iterators are read. NaN and the infinities become null.

    Args:
        value: The value.
        place: Name of the value in messages.

    Raises:
        OutputError: It cannot be converted to JSON. The message has the place, the type and the remedy.
        HandlerError: Code of the author raised an exception while the value was read.
    """
    return value if is_json(value) else _Converter(value, place).convert_root()


def checked_json(value: Any) -> Any:
    """Return the JSON value of a value, with each string and number checked. NaN and the infinities become None.

    Raises:
        OutputError: It cannot be converted to JSON. The message has the place, the type and the remedy.
        HandlerError: Code of the author raised an exception while the value was read.
    """
    return _Converter(value, is_thorough=True).convert_root()


def json_without_bytes(value: Any) -> Any:
    """Return the JSON value of a value of a type with text, in which bytes are an error.

    Raises:
        OutputError: There are bytes; or as for `checked_json`.
        HandlerError: Code of the author raised an exception while the value was read.
    """
    return _Converter(value, has_bytes=False).convert_root()


def infinite_places(value: Any) -> dict[Steps, str]:
    """Return the places of NaN and the infinities in a value, with their names."""
    converter = _Converter(value, is_thorough=True)
    with suppress(OutputError):
        converter.convert_root()
    return converter.infinite


def unrolled(value: Any, place: str = "result") -> Any:
    """Return the items of an iterator as a list; other values unchanged.

    Raises:
        OutputError: The iterator has too many items, or raised an exception.
        HandlerError: The iterator raised it.
    """
    is_once = issubclass(type(value), Iterator) and not is_file(type(value))
    return call_user_code(place, items_of, value) if is_once else value


def call_user_code(place: str, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function that may run code of the author, with errors as in `_fail`."""
    try:
        return function(*args, **kwargs)
    except Exception as error:  # noqa: BLE001 - of the file system, or the author's code
        _fail(place, error)


def _fail(place: str, error: Exception) -> NoReturn:
    """Raise the error for an exception of the author's code, without its text, which may be confidential."""
    if isinstance(error, (OutputError, HandlerError, ProtocolError)):
        raise error
    if isinstance(error, ContentError):
        raise OutputError(f"{place} cannot be sent: {error}") from None
    if isinstance(error, NoFormError):
        raise OutputError(f"{place} cannot be converted to JSON: {error}") from None
    if any(words in (exception_text(error) or "") for words in _TOO_DEEP):
        reason = f"it contains itself, or more than {MAX_DEPTH} levels of arrays and objects"
        raise OutputError(f"{place} cannot be converted to JSON: {reason}") from None
    raise OutputError(unreadable(place, error)) from error


# Conversions of values of a class, and of classes derived from it, to plainer values.
_PLAINER: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
    # In this order: an enum may be a str or an int as well, and a bool is an int.
    (enum.Enum, lambda member: member.value),
    (str, str.__str__),
    (int, int),
    (float, float),
    ((bytes, bytearray), base64),
    (Decimal, lambda number: str(number) if number.is_finite() else float(number)),
)


class _Converter:
    """One conversion of a value to JSON.

    Args:
        value: The value.
        place: Name of the value in messages.
        is_thorough: Whether all strings and numbers are checked.
        has_bytes: Whether bytes are allowed; they become base64.

    Attributes:
        infinite: Places of NaN and the infinities, with their names.
    """

    def __init__(
        self, value: Any, place: str = "result", *, is_thorough: bool = False, has_bytes: bool = True
    ) -> None:
        self._root = value
        self._path: list[str | int] = [place]
        self._open: dict[int, int] = {}  # id of each container that is being read: length of the path to it
        self._is_thorough = is_thorough
        self._has_bytes = has_bytes
        self.infinite: dict[Steps, str] = {}

    def convert_root(self) -> Any:
        """Return the value as JSON."""
        try:
            return self._convert(self._root)
        except RecursionError:
            raise OutputError(
                f"{self._path[0]} cannot be converted to JSON: it is nested too deeply; return less, or a flat list"
            ) from None
        except Exception as error:  # noqa: BLE001 - of the author's code, at the current path
            _fail(self._place, error)

    @property
    def _place(self) -> str:
        return path(tuple(self._path))

    def _refuse(self, reason: str) -> NoReturn:
        raise OutputError(f"{self._place} cannot be converted to JSON: {reason}")

    def _convert(self, value: Any) -> Any:
        kind = cast("Any", type(value))
        if kind is str and self._is_thorough:
            self._check_text(value, "text")
        elif kind is int and not -MAX_INTEGER < value < MAX_INTEGER:
            self._refuse(
                f"an integer of {value.bit_length():,} bits, which few JSON parsers support; return a string"
            )
        elif kind is float and not math.isfinite(value):
            name = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
            self.infinite[tuple(self._path[1:])] = name
            return None
        if kind in SCALARS:
            return value
        if kind is dict or kind is list:
            if len(self._path) <= 2 and not self._is_thorough and is_json(value, MAX_DEPTH - len(self._open)):
                return value
            return self._within(value, self._object if kind is dict else self._array)
        if kind is tuple:
            return self._within(value, self._array)
        return to_jsonable_python(value) if kind in _TIMES else self._other(value, kind)

    def _check_text(self, text: str, part: str) -> None:
        if not text.isascii():
            try:
                text.encode()
            except UnicodeEncodeError as error:
                self._refuse(
                    f"a lone surrogate, U+{ord(text[error.start]):04X}, at index {error.start} of a {part}; "
                    'decode the source with errors="replace"'
                )

    def _within(self, value: Any, convert: Callable[[Any], Any]) -> Any:
        """Convert a container, unless it contains itself or is too deep."""
        if (length := self._open.get(id(value))) is not None:
            self._refuse(f"it is {path(tuple(self._path[:length]))} again, a circular reference; remove it")
        if len(self._open) >= MAX_DEPTH:
            self._refuse(f"more than {MAX_DEPTH} levels of arrays and objects; return less, or a flat list")
        self._open[id(value)] = len(self._path)
        try:
            return convert(value)
        finally:
            del self._open[id(value)]

    # After an error the path stays as it is, for the message.

    def _array(self, value: Iterable[Any]) -> list[Any]:
        result: list[Any] = []
        for index, item in enumerate(items_of(value)):
            self._path.append(index)
            result.append(self._convert(item))
            self._path.pop()
        return result

    def _object(self, value: Mapping[Any, Any]) -> Json:
        result: Json = {}
        for key, item in items_of(value.items(), type(value)):
            name = key if type(key) is str else self._key(key)
            if self._is_thorough:
                self._check_text(name, "key")
            self._path.append(name)
            if name in result:
                self._refuse(f"two keys become {shown(name)}; use different strings as keys")
            result[name] = self._convert(item)
            self._path.pop()
        return result

    def _key(self, key: Any) -> str:
        """Return a key as the name of a member; the key of a JSON type as in its JSON text."""
        plain: Any = key if issubclass(type(key), (tuple, frozenset)) else self._convert(key)
        if type(plain) is str:
            return plain
        if type(plain) not in SCALARS or (plain is None and key is not None):
            self._refuse(f"{described(key)} as a key; use a string")
        return member_name(plain)

    def _other(self, value: Any, kind: type[Any]) -> Any:
        if kind is GeneratorType and value.gi_frame is None:
            self._refuse("an exhausted generator; return a list")
        if isinstance(value, type):
            self._refuse("a class; return an instance or the name")
        if (encode := encoder(kind)) is not None:
            return self._within(value, lambda unknown: self._convert(encode(unknown)))
        if not self._has_bytes and isinstance(value, (bytes, bytearray)):
            raise OutputError(
                f"{self._place}: expected text, got bytes; decode them, or change the type to `bytes`"
            )
        for known, plainer in _PLAINER:
            if isinstance(value, known):
                return self._convert(plainer(value))
        convert: Callable[[Any], Any] | None = None
        if isinstance(value, dict):
            convert = self._object
        elif isinstance(value, _ARRAYS):
            convert = self._array
        elif hasattr(kind, "__pydantic_serializer__"):
            convert = self._model
        elif dataclasses.is_dataclass(value):
            convert = self._dataclass
        return self._last(value, kind) if convert is None else self._within(value, convert)

    def _model(self, value: Any) -> Any:
        cls = cast("Any", type(value))
        if not self._is_thorough:
            # An error of a member is found below, where the members are converted one by one.
            with suppress(Exception):
                return from_json(serialized(_serializer(cls), value))
        if getattr(cls, "__pydantic_root_model__", False):
            return self._convert(value.root)
        serializer = cls.__pydantic_serializer__
        if cls.__pydantic_decorators__.model_serializers:
            return self._convert(serializer.to_python(value, by_alias=True))
        members: Json = {}
        computed = getattr(cls, "__pydantic_computed_fields__", ())
        for name in (*getattr(cls, "__pydantic_fields__", ()), *computed):
            self._path.append(name)
            members |= serializer.to_python(value, include={name}, by_alias=True, warnings=False)
            self._path.pop()
        return self._object(members | (getattr(value, "__pydantic_extra__", None) or {}))

    def _dataclass(self, value: Any) -> Any:
        members: Json = {}
        for field in dataclasses.fields(value):
            self._path.append(field.name)
            members[field.name] = getattr(value, field.name)
            self._path.pop()
        return self._object(members)

    def _last(self, value: Any, kind: type[Any]) -> Any:
        """Convert a value of a class that is not known, or raise the error for one that is returned by mistake."""
        if isinstance(value, os.PathLike):
            return self._convert(os.fspath(cast("Any", value)))
        name = described(value)
        if isinstance(value, complex):
            self._refuse("a complex number; return [z.real, z.imag]")
        if isinstance(value, (FunctionType, MethodType, BuiltinFunctionType)):
            self._refuse("a function; call it, and return its result")
        if isinstance(value, BaseException):
            self._refuse(f"{name}; raise it instead of returning it")
        if inspect.isawaitable(value):
            _close_coroutines(self._root)
            is_whole = len(self._path) == 1
            remedy = (
                "write `return await ...`"
                if is_whole
                else "await it first, several with `asyncio.gather(...)`"
            )
            self._refuse(f"{name} that was not awaited; {remedy}")
        if hasattr(kind, "__aiter__"):
            self._refuse(
                f"{name} that was not iterated; write `[item async for item in ...]` in an async function"
            )
        if issubclass(kind, WholeResult):
            self._refuse(f"{name}, which must be the whole result; return it alone")
        if getattr(kind, "__mcp_content__", False) or renderer(kind) is not None:
            self._refuse(
                f"{name}, which is a content block and cannot be part of the data; "
                "return a list of both, or ToolResult([...], structured=...)"
            )
        try:
            return to_jsonable_python(value)
        except Exception:  # noqa: BLE001 - pydantic does not support the class either
            self._refuse(f"{name}; return its data as a dict, a dataclass or a model")


def _close_coroutines(value: Any, depth: int = 4) -> None:
    """Close the coroutines in a value, so that Python does not warn that they were never awaited."""
    if inspect.iscoroutine(value):
        value.close()
    elif depth and isinstance(value, (list, tuple, dict)):
        items = cast("Any", value)
        for each in items.values() if isinstance(value, dict) else items:
            _close_coroutines(each, depth - 1)


@lru_cache(maxsize=256)
def _serializer(cls: Any) -> SchemaSerializer:
    """Return the serializer of a pydantic model or dataclass, as for its annotation."""
    from pydantic import TypeAdapter

    return serializer(serializing(TypeAdapter(cls).core_schema))


# --- Core schemas of pydantic, rewritten

Node = dict[str, Any]
Rewrite = Callable[[Node], Any]

# Keys of schemas below which there are schemas that validate.
CHILDREN = frozenset({
    "schema", "items_schema", "keys_schema", "values_schema", "extras_schema", "extras_keys_schema",
    "choices", "fields", "computed_fields", "definitions", "steps", "return_schema", "arguments_schema",
    "var_args_schema", "var_kwargs_schema", "json_schema", "python_schema", "strict_schema", "lax_schema"
})  # fmt: skip


def rewritten(value: Any, rewrites: Mapping[str, Rewrite], children: Collection[str] = CHILDREN) -> Any:
    """Return a copy of a core schema with rewritten nodes, from the innermost outwards.

    Args:
        value: The schema, or several.
        rewrites: Functions that replace a node, by its type; under "keys", one for each node with keys.
        children: Keys of nodes with inner schemas.
    """
    if isinstance(value, tuple):  # a choice of a union, with its label
        choice, label = cast("Any", value)
        return rewritten(choice, rewrites, children), label
    if is_array(value):
        return [rewritten(item, rewrites, children) for item in value]
    if not is_object(value):
        return value
    kind = value.get("type")
    if not isinstance(kind, str):  # a mapping of names to schemas
        return {name: rewritten(item, rewrites, children) for name, item in value.items()}
    node = value | {key: rewritten(value[key], rewrites, children) for key in value.keys() & children}
    built = rewrites[kind](node) if kind in rewrites else node
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


def serializer(core: CoreSchema) -> SchemaSerializer:
    """Return the serializer of a schema.

    Raises:
        SchemaError: The schema is invalid.
    """
    # For the reason at `schema.value_validators.validator`.
    return SchemaSerializer(core, _use_prebuilt=False)


# --- Serializers of pydantic that follow the JSON Schemas of types: its core schemas, rewritten

# Types of keys that have different names in JSON.
_DISTINCT_KEYS = frozenset({"str", "int", "float", "bool", "date", "datetime", "time", "uuid"})

# Settings of an author's class that change the form in JSON; the JSON Schema has one form only.
_FORMS = ("ser_json_temporal", "ser_json_timedelta", "ser_json_bytes", "ser_json_inf_nan")

_must_leave_loop: ContextVar[bool] = ContextVar("_must_leave_loop", default=False)


def serialized(serializer: SchemaSerializer, value: Any) -> bytes:
    """Return the JSON of a value by a serializer of a `serializing` schema. A value of another type is an error.

    Args:
        serializer: The serializer.
        value: The value.

    Raises:
        LeaveLoop: The conversion may block, and this is the thread of an event loop.
        Exception: Raised by pydantic or the author's code.
    """
    try:
        return serializer.to_json(value, by_alias=True, warnings="error")
    finally:
        if _must_leave_loop.get():
            _must_leave_loop.set(False)
            raise LeaveLoop


def serializing(core: CoreSchema) -> CoreSchema:
    """Return a core schema of pydantic with serializers that follow the JSON Schema of the type."""
    return cast("CoreSchema", rewritten(core, _REWRITES, CHILDREN | {"serialization"}))


def _serialized_by(encode: Callable[[Any], Any]) -> Rewrite:
    serialization = core_schema.plain_serializer_function_ser_schema(encode, when_used="json")
    return lambda node: {"serialization": serialization, **node}


def _encode_any(value: Any) -> Any:
    try:
        return json_value(value)
    except LeaveLoop:
        # Raised here, pydantic would catch it, try other choices of a union, and consume an iterator.
        _must_leave_loop.set(True)
        return None


_by_value = _serialized_by(_encode_any)


def _instance(node: Node) -> Node:
    cls: Any = node["cls"]
    # pydantic knows the items of the classes of `collections`, which have the same type of node.
    is_other = isinstance(cls, type) and cls.__module__ not in ("collections", "collections.abc")
    return _by_value(node) if is_other and encoder(cls) is not None else node


def _enumeration(node: Node) -> Node:
    # pydantic writes members that are JSON values; the others follow the schema.
    return node if all(type(member.value) in SCALARS for member in node["cls"]) else _by_value(node)


def _model(node: Node) -> Any:
    fields, config = node["schema"], node.get("config", {})
    if config.get("extra_fields_behavior") == "allow" and fields["type"] == "model-fields":
        node["schema"] = {"extras_schema": _by_value({"type": "any"}), **fields}
    return _of_class(node)


def _typed_dict(node: Node) -> Node:
    if "config" in node:
        node["config"] = without(node["config"], *_FORMS)
    return node


def _of_class(node: Node) -> Any:
    # A union accepts only instances of the class; a model alone writes the fields that any object has.
    choices: list[Any] = [_typed_dict(node), core_schema.none_schema()]
    return instead_of(node, core_schema.union_schema(choices))


def _mapping(node: Node) -> Node:
    def write_distinct(value: Any, write: Callable[[Any], Any]) -> Any:
        members, given = write(value), value
        if isinstance(value, Mapping) and len(members) < len(given):
            # The value is converted again, and the error then has the keys.
            raise ValueError("two keys of a dict become the same JSON member; use strings as keys")
        return members

    if node.get("keys_schema", {}).get("type") in _DISTINCT_KEYS:
        return node
    distinct = core_schema.wrap_serializer_function_ser_schema(write_distinct, when_used="json")
    return {"serialization": distinct, **node}


# Functions that rewrite the nodes of a core schema, by type of the node.
_REWRITES: dict[str, Rewrite] = {
    "dict": _mapping,
    "model": _model,
    "dataclass": _of_class,
    "typed-dict": _typed_dict,
    "any": _by_value,
    "bytes": _serialized_by(lambda value: base64(value) if isinstance(value, (bytes, bytearray)) else value),
    "decimal": _serialized_by(lambda value: f"{value:f}" if isinstance(value, Decimal) else value),
    "enum": _enumeration,
    "is-instance": _instance,
    # It has no schemas of the items.
    "call": lambda node: _by_value(node) if is_named_tuple(node) else node,
}
