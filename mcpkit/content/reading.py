"""Conversion of Python values to JSON values, one by one, with the place and cause of errors."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import inspect
import math
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from decimal import Decimal
from functools import lru_cache
from types import BuiltinFunctionType, FunctionType, GeneratorType, MethodType
from typing import Any, NoReturn, cast

from pydantic_core import SchemaSerializer, from_json, to_jsonable_python

from .._utils.exceptions import HandlerError, OutputError, ProtocolError, exception_text
from ..protocol.jsonrpc import SCALARS
from ..protocol.types import Json
from . import foreign
from .blocks import WholeResult, base64
from .display import is_file
from .lazy import NoFormError, is_held, items_of, written
from .plain import DEEPEST, is_json, member_name
from .renderers import maker
from .wording import Steps, described, path, shown, unreadable

_GREATEST = 2**1024
"""Integers beyond it, and its negative, are infinite to readers of JSON that have doubles only."""

_TOO_DEEP = ("Circular reference detected", "Maximum serialization depth exceeded")
"""Errors of pydantic for models that contain themselves or are nested too deeply."""

_TIMES = frozenset({dt.datetime, dt.date, dt.time, dt.timedelta})
_ARRAYS = (list, tuple, set, frozenset, deque)


def converted(value: Any, place: str = "result") -> Any:
    """Return the JSON value of a value, as `data.json_value` does, without checking strings."""
    return _Reading(value, place).all()


def read(value: Any, place: str = "result") -> Any:
    """Return the JSON value of a value, with each string and number checked. NaN and the infinities become None.

    Raises:
        OutputError: It cannot be converted to JSON. The message has the place, the type and the remedy.
        HandlerError: Code of the author raised an exception while the value was read.
    """
    return _Reading(value, place, is_thorough=True).all()


def with_texts(value: Any) -> Any:
    """Return the JSON value of a value of a type with text, in which bytes are an error.

    Raises:
        OutputError: There are bytes; or as for `read`.
        HandlerError: Code of the author raised an exception while the value was read.
    """
    return _Reading(value, has_bytes=False).all()


def unrolled(value: Any, place: str = "result") -> Any:
    """Return the items of an iterator as a list; other values unchanged.

    Raises:
        OutputError: The iterator has too many items, or raised an exception.
        HandlerError: The iterator raised it.
    """
    is_once = issubclass(type(value), Iterator) and not is_file(type(value))
    return _Reading(value, place).items() if is_once else value


def read_file(file: Any, place: str) -> str | bytes:
    """Return the contents of an open file, on disk or in memory.

    Raises:
        OutputError: It is closed, or cannot be read.
    """
    content: str | bytes = _Reading(file, place).contents()
    return content


def unsayable(value: Any) -> OutputError | None:
    """Return the error of a value that cannot be converted to JSON; None if there is none."""
    try:
        read(value)
    except OutputError as error:
        return error
    return None


def infinite_places(value: Any) -> dict[Steps, str]:
    """Return the places of NaN and the infinities in a value, with their names."""
    reading = _Reading(value, is_thorough=True)
    with suppress(OutputError):
        reading.all()
    return reading.infinite


_PLAINER: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
    # In this order: an enum may be a str or an int as well, and a bool is an int.
    (enum.Enum, lambda member: member.value),
    (str, str.__str__),
    (int, int),
    (float, float),
    ((bytes, bytearray), base64),
    (Decimal, lambda number: str(number) if number.is_finite() else float(number)),
)
"""What makes values of a class, and of classes derived from it, plainer."""


class _Reading:
    """One conversion of a value.

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
        self._open: dict[int, int] = {}  # what is being read: how long the path to it is
        self._is_thorough = is_thorough
        self._has_bytes = has_bytes
        self.infinite: dict[Steps, str] = {}

    def all(self) -> Any:
        """Return the value as JSON."""
        try:
            return self._read(self._root)
        except RecursionError:
            raise OutputError(
                f"{self._path[0]} cannot be converted to JSON: it is nested too deeply; return less, or a flat list"
            ) from None
        except Exception as error:  # noqa: BLE001 - of the author's code, wherever the path has come to
            self._failed(error)

    def items(self) -> list[Any]:
        """Return the items of an iterator as they are."""
        items: list[Any] = self._encoded(foreign.items, self._root)
        return items

    def contents(self) -> Any:
        """Return the contents of a file."""
        encode = foreign.encoder(type(self._root))
        assert encode is not None
        return self._encoded(encode, self._root)

    def _refuse(self, what: str) -> NoReturn:
        raise OutputError(f"{path(tuple(self._path))} cannot be converted to JSON: {what}")

    def _failed(self, error: Exception) -> NoReturn:
        """Raise the error for an exception of the author's code, without its text, which may be confidential."""
        if isinstance(error, (OutputError, HandlerError, ProtocolError)):
            raise error
        if isinstance(error, NoFormError):
            self._refuse(str(error))
        if (said := exception_text(error)) is not None and any(words in said for words in _TOO_DEEP):
            self._refuse(f"it contains itself, or more than {DEEPEST} levels of arrays and objects")
        raise OutputError(unreadable(path(tuple(self._path)), error)) from error

    def _read(self, value: Any) -> Any:
        kind = cast("Any", type(value))
        if kind is str and self._is_thorough:
            self._check_text(value)
        elif kind is int and not -_GREATEST < value < _GREATEST:
            self._refuse(
                f"an integer of {value.bit_length():,} bits, which few JSON parsers support; return a string"
            )
        elif kind is float and not math.isfinite(value):
            return self._infinite(value)
        if kind in SCALARS:
            return value
        if kind is tuple:
            return self._within(value, self._array)
        if kind is not dict and kind is not list:
            return to_jsonable_python(value) if kind in _TIMES else self._other(value, kind)
        if len(self._path) <= 2 and not self._is_thorough and is_json(value, DEEPEST - len(self._open)):
            return value
        return self._within(value, self._object if kind is dict else self._array)

    def _check_text(self, text: str, what: str = "text") -> None:
        if not text.isascii():
            try:
                text.encode()
            except UnicodeEncodeError as error:
                self._refuse(
                    f"a lone surrogate, U+{ord(text[error.start]):04X}, at index {error.start} of a {what}; "
                    'decode the source with errors="replace"'
                )

    def _infinite(self, value: float) -> None:
        what = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        self.infinite[tuple(self._path[1:])] = what

    def _within(self, value: Any, read: Callable[[Any], Any]) -> Any:
        """Read a container, unless it contains itself or is too deep."""
        if (length := self._open.get(id(value))) is not None:
            self._refuse(f"it is {path(tuple(self._path[:length]))} again, a circular reference; remove it")
        if len(self._open) >= DEEPEST:
            self._refuse(f"more than {DEEPEST} levels of arrays and objects; return less, or a flat list")
        self._open[id(value)] = len(self._path)
        try:
            return read(value)
        finally:
            del self._open[id(value)]

    def _array(self, value: Iterable[Any]) -> list[Any]:
        result: list[Any] = []
        here = self._path
        for index, item in enumerate(value if is_held(type(value)) else items_of(value)):
            here.append(index)
            result.append(self._read(item))
            here.pop()
        return result

    def _object(self, value: Mapping[Any, Any]) -> Json:
        result: Json = {}
        here = self._path
        members = value.items()
        for key, item in members if is_held(type(value)) else items_of(members, type(value)):
            name = key if type(key) is str else self._key(key)
            if self._is_thorough:
                self._check_text(name, "key")
            here.append(name)
            if name in result:
                self._refuse(f"two keys become {shown(name)}; use different strings as keys")
            result[name] = self._read(item)
            here.pop()
        return result

    def _key(self, key: Any) -> str:
        """Return a key as the name of a member; a key that is a value of JSON as JSON writes it."""
        plain: Any = key if issubclass(type(key), (tuple, frozenset)) else self._read(key)
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
        if (encoder := foreign.encoder(kind)) is not None:
            return self._within(value, lambda foreigner: self._read(self._encoded(encoder, foreigner)))
        if not self._has_bytes and isinstance(value, (bytes, bytearray)):
            place = path(tuple(self._path))
            raise OutputError(
                f"{place}: expected text, got bytes; decode them, or change the type to `bytes`"
            )
        for known, plainer in _PLAINER:
            if isinstance(value, known):
                return self._read(plainer(value))
        reads: list[tuple[bool, Callable[[Any], Any]]] = [
            (isinstance(value, dict), self._object),
            (isinstance(value, _ARRAYS), self._array),
            (hasattr(kind, "__pydantic_serializer__"), self._model),
            (dataclasses.is_dataclass(value), self._dataclass),
        ]
        read = next((read for is_it, read in reads if is_it), None)
        return self._last(value, kind) if read is None else self._within(value, read)

    def _encoded(self, encode: Callable[[Any], Any], value: Any) -> Any:
        try:
            return encode(value)
        except Exception as error:  # noqa: BLE001 - of the author's code, such as an iterator
            self._failed(error)

    def _model(self, value: Any) -> Any:
        if self._is_thorough:
            return self._members(value)
        try:
            serializer = _serializer(cast("Any", type(value)))
            return from_json(written(serializer, value))
        except Exception:  # noqa: BLE001 - what it was is found member by member
            return self._members(value)

    def _members(self, value: Any) -> Any:
        """Read a model member by member, as one of them does not match its annotation."""
        cls = cast("Any", type(value))
        if getattr(cls, "__pydantic_root_model__", False):
            return self._read(value.root)
        if cls.__pydantic_decorators__.model_serializers:
            return self._read(cls.__pydantic_serializer__.to_python(value, by_alias=True))
        names = [*getattr(cls, "__pydantic_fields__", ()), *getattr(cls, "__pydantic_computed_fields__", ())]
        members: Json = {}
        serializer = cls.__pydantic_serializer__
        for name in names:
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
        if isinstance(value, complex):
            self._refuse("a complex number; return [z.real, z.imag]")
        if isinstance(value, BaseException):
            self._refuse(f"{described(value)}; raise it instead of returning it")
        if isinstance(value, os.PathLike):
            return self._read(os.fspath(cast("Any", value)))
        if inspect.isawaitable(value):
            close_coroutines(self._root)
            is_alone = len(self._path) == 1
            cure = (
                "write `return await ...`"
                if is_alone
                else "await it first, several with `asyncio.gather(...)`"
            )
            self._refuse(f"{described(value)} that was not awaited; {cure}")
        if hasattr(kind, "__aiter__"):
            self._refuse(
                f"{described(value)} that was not iterated; write `[item async for item in ...]` in an async function"
            )
        if isinstance(value, (FunctionType, MethodType, BuiltinFunctionType)):
            self._refuse("a function; call it, and return its result")
        if issubclass(kind, WholeResult):
            self._refuse(f"{described(value)}, which must be the whole result; return it alone")
        if getattr(kind, "__mcp_content__", False) or maker(kind) is not None:
            self._refuse(
                f"{described(value)}, which is a content block and cannot be part of the data; "
                "return a list of both, or ToolResult([...], structured=...)"
            )
        try:
            return to_jsonable_python(value)
        except Exception:  # noqa: BLE001 - nobody has a form for it
            self._refuse(f"{described(value)}; return its data as a dict, a dataclass or a model")


def close_coroutines(value: Any, depth: int = 4) -> None:
    """Close the coroutines in a value, so that Python does not warn that they were never awaited."""
    if inspect.iscoroutine(value):
        value.close()
    elif depth and isinstance(value, (list, tuple, dict)):
        held = cast("Any", value)
        for each in held.values() if isinstance(value, dict) else held:
            close_coroutines(each, depth - 1)


@lru_cache(maxsize=256)
def _serializer(cls: Any) -> SchemaSerializer:
    """Return the serializer of a pydantic model or dataclass, as for its annotation."""
    from pydantic import TypeAdapter

    from .._utils.core_schema import serializer
    from .serializing import serializing

    return serializer(serializing(TypeAdapter(cls).core_schema, converted))
