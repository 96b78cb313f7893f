"""Conversion of classes that neither JSON nor pydantic supports.

numpy, pandas, polars, SQLAlchemy, attrs, msgspec, iterators and more. No library is imported: an object of a library
has imported it already, and its class is recognized by the names of package and class.
"""

from __future__ import annotations

import collections.abc
import io
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from operator import attrgetter, methodcaller
from typing import Any, cast

from ..protocol.types import Json
from .lazy import NoFormError, is_held, items_of, may_block

Encode = Callable[[Any], Any]


def encoder(cls: Any) -> Encode | None:
    """Return the function that converts values of a class to plainer data, or None.

    Its results are JSON values, or values that are converted in turn. It raises NoFormError for a value that cannot be
    converted.

    Args:
        cls: Class of a value.
    """
    # The cache says to type checkers that a class is hashable only where they know which class it is.
    for base in cls.__mro__ if _declared else ():
        if base in _declared:
            return _declared[base]
    return _encoder(cls)


_declared: dict[type, Encode] = {}


def declare(cls: type, encode: Encode) -> None:
    """Register an author's encoder for values of a class and its subclasses."""
    _declared[cls] = encode


def plain(value: Any) -> Any:
    """Return a value as plainer data, for `fallback=` of pydantic-core.

    Raises:
        TypeError: There is no encoder.
        Exception: Raised by the encoder.
    """
    encode = encoder(type(value))
    if encode is None:
        cls = type(value).__name__
        raise TypeError(
            f"a {cls} cannot be converted to JSON; register its class with mcpkit.types.json_type"
        )
    return encode(value)


@lru_cache(maxsize=512)
def _encoder(cls: type[Any]) -> Encode | None:
    for base in cls.__mro__:
        known = _BY_NAME.get((base.__module__.partition(".")[0], base.__qualname__))
        if known is not None:
            return known
    if issubclass(cls, _IN_JSON):
        return None
    marked = (encode for mark, encode in _BY_MARK.items() if hasattr(cls, mark))
    of_its_kind = (encode for kind, encode in _BY_KIND if issubclass(cls, kind))
    return next(marked, None) or next(of_its_kind, None)


def _class_of(value: object) -> Any:
    return type(value)


def items(values: Iterable[Any]) -> list[Any]:
    """Return the items of an iterable; computed items only in a thread, and not without end.

    Raises:
        LeaveLoop: Items are computed, and this is the thread of an event loop.
        EndlessError: Items are computed, and there are too many.
        BaseException: Raised by the iterable.
    """
    return list(values) if is_held(type(values)) else items_of(values)


def _members(value: Mapping[Any, Any]) -> dict[Any, Any]:
    return dict(value.items() if is_held(type(value)) else items_of(value.items(), type(value)))


def _content(value: Any) -> str | bytes:
    """Return the whole contents of a file, and close it."""
    if value.closed:
        raise NoFormError("a closed file; return its contents with `file.read()`, or `File(path)`")
    if isinstance(value, (io.BytesIO, io.StringIO)):
        return value.getvalue()
    may_block()
    with value:  # who returns a file has given it away
        try:
            if value.seekable():
                value.seek(0)
            return cast("str | bytes", value.read())
        except io.UnsupportedOperation as error:
            raise NoFormError(f"a file could not be read: {error}; open it for reading") from None


def _number_of_numpy(value: Any) -> Any:
    kind = value.dtype.kind
    if kind == "M":
        text = str(value)
        return None if text == "NaT" else text
    if kind == "m":
        return _duration_of_numpy(value)
    if kind == "V":
        names = value.dtype.names
        return bytes(value) if names is None else {name: value[name] for name in names}
    if value.dtype.char in "gG":  # what `item` makes of these is they themselves
        return float(value) if kind == "f" else complex(value)
    return value.item()


def _duration_of_numpy(value: Any) -> str | None:
    numpy = sys.modules["numpy"]
    if numpy.isnat(value):
        return None
    unit = numpy.datetime_data(value.dtype)[0]
    if unit in ("Y", "M"):
        _, step = numpy.datetime_data(value.dtype)
        count = int(value.astype("int64")) * int(step)
        return f"{'-' if count < 0 else ''}P{abs(count)}{unit}"
    if unit == "generic":
        raise NoFormError("a timedelta64 without a unit; give it one, such as numpy.timedelta64(5, 's')")
    if unit in ("ps", "fs", "as"):
        raise NoFormError(
            f"a timedelta64 in {unit}, which is finer than nanoseconds; convert it with .astype('timedelta64[ns]')"
        )
    return duration(int(value.astype("timedelta64[ns]").astype("int64")))


def duration(nanoseconds: int) -> str:
    """Return a duration in ISO 8601."""
    seconds, fraction = divmod(abs(nanoseconds), 1_000_000_000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    part = f".{fraction:09}".rstrip("0") if fraction else ""
    counts = ((hours, "H"), (minutes, "M"), (f"{seconds}{part}" if seconds or fraction else 0, "S"))
    time = "".join(f"{count}{unit}" for count, unit in counts if count)
    date = f"{days}D" if days else ""
    if not date and not time:
        time = "0S"
    return f"{'-' if nanoseconds < 0 else ''}P{date}{'T' if time else ''}{time}"


def _array_of_numpy(value: Any) -> Any:
    # `tolist` makes integers of dates with nanoseconds, and tuples of records.
    if value.dtype.kind in "mMV" or value.dtype.char in "gG":
        return list(value) if value.ndim else value[()]
    return value.tolist()


def _records(frame: Any) -> Any:
    """Return a pandas table as a list of objects, with its index unless that only counts the rows."""
    if not is_row_number(frame.index):
        frame = frame.reset_index()
    if not frame.columns.is_unique:
        twice = frame.columns[frame.columns.duplicated()][0]
        raise NoFormError(f"a DataFrame with two columns {twice!r}; rename one of them")
    return frame.to_dict("records")


def is_row_number(index: Any) -> bool:
    """Return whether a pandas index only counts the rows."""
    return (
        type(index).__name__ == "RangeIndex" and index.name is None and index.start == 0 and index.step == 1
    )


def _columns(instance: Any) -> Json:
    """Return the loaded columns of an instance of SQLAlchemy's ORM, without database access."""
    cls = _class_of(instance)
    loaded = cast("Json", vars(instance))
    columns: Json = {}
    for attribute in cls.__mapper__.column_attrs:
        if attribute.key in loaded:
            columns[attribute.key] = loaded[attribute.key]
        elif not attribute.deferred:
            raise NoFormError(
                f"the column {attribute.key!r} of a {type(instance).__name__} is not loaded; "
                "refresh the object, or set expire_on_commit=False"
            )
    return columns


def is_struct(cls: object) -> bool:
    """Return whether an object is a class of attrs or msgspec."""
    return isinstance(cls, type) and (
        hasattr(cls, "__attrs_attrs__") or hasattr(cls, "__struct_encode_fields__")
    )


def attrs_fields(instance: Any) -> Json:
    """Return the fields of an attrs instance by the parameter names of its `__init__`."""
    cls = _class_of(instance)
    return {
        getattr(field, "alias", None) or field.name.lstrip("_"): getattr(instance, field.name)
        for field in cls.__attrs_attrs__
    }


def struct_fields(instance: Any) -> Any:
    """Return the fields of a msgspec Struct as msgspec encodes them: renamed, tagged, or as an array."""
    cls = _class_of(instance)
    unset = sys.modules["msgspec"].UNSET
    config = cls.__struct_config__
    values = [getattr(instance, name) for name in cls.__struct_fields__]
    if config.array_like:
        return values if config.tag is None else [config.tag, *values]
    tag = {} if config.tag is None else {config.tag_field: config.tag}
    fields = zip(cls.__struct_encode_fields__, values, strict=True)
    return tag | {name: value for name, value in fields if value is not unset}


_BY_NAME: dict[tuple[str, str], Encode] = {
    # (package, class): what makes data of it, and of classes derived from it
    ("numpy", "generic"): _number_of_numpy,
    ("numpy", "ndarray"): _array_of_numpy,
    ("pandas", "Timestamp"): methodcaller("isoformat"),
    ("pandas", "Timedelta"): lambda value: duration(value.value),
    ("pandas", "NaTType"): lambda _: None,
    ("pandas", "NAType"): lambda _: None,
    ("pandas", "Period"): str,
    ("pandas", "Interval"): lambda value: {"left": value.left, "right": value.right, "closed": value.closed},
    ("pandas", "Series"): methodcaller("tolist"),
    ("pandas", "Index"): methodcaller("tolist"),
    ("pandas", "ExtensionArray"): methodcaller("tolist"),
    ("pandas", "DataFrame"): _records,
    ("polars", "DataFrame"): methodcaller("to_dicts"),
    ("polars", "Series"): methodcaller("to_list"),
    ("sqlite3", "Row"): lambda row: dict(zip(row.keys(), row, strict=True)),
    ("sqlalchemy", "Row"): lambda row: dict(attrgetter("_mapping")(row)),  # its documented name
    ("fractions", "Fraction"): str,
    ("ipaddress", "_IPAddressBase"): str,  # unknown to pydantic before 2.13
    ("types", "SimpleNamespace"): vars,
    ("collections", "UserString"): str,
    ("tempfile", "_TemporaryFileWrapper"): _content,
    ("builtins", "memoryview"): bytes,
}

_BY_MARK: dict[str, Encode] = {
    # attribute of a class: what makes data of its instances
    "__attrs_attrs__": attrs_fields,
    "__struct_encode_fields__": struct_fields,
    "__mapper__": _columns,
}

_IN_JSON = (str, bytes, bytearray, int, float, dict, list, tuple, set, frozenset)
"""What pydantic-core writes as it is, in subclasses as well."""

_BY_KIND: tuple[tuple[type, Encode], ...] = (
    # In this order: a file is an iterator of its lines.
    (io.IOBase, _content),
    (collections.abc.Mapping, _members),
    (collections.abc.Sequence, items),
    (collections.abc.Set, items),
    (collections.abc.MappingView, items),
    (collections.abc.Iterator, items),
)
