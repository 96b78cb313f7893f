"""Values that neither JSON nor pydantic supports: iterators, files, and objects of other libraries.

An encoder converts a value to plainer data, a renderer to content: `as_content`, tables, figures, display methods of
IPython. No library is imported: an object of a library has imported it already, and its class is recognized by the
names of package and class.
"""

from __future__ import annotations

import collections.abc
import io
import sys
from binascii import a2b_base64
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from functools import lru_cache
from inspect import iscoroutinefunction
from itertools import chain, islice
from operator import attrgetter, methodcaller
from typing import Any, Final, TypeGuard, cast

from typing_extensions import Self

from .._utils.concurrency import current
from .._utils.exceptions import RegistrationError
from ..protocol.jsonrpc import Json
from .blocks import Image, TypedText, may_block

# Items that are taken from an iterator, which may have no end. A list may have more.
MAX_ITEMS = 100_000

# Modules of container classes that only iterate over their items.
_PLAIN_CODE = frozenset({"array", "builtins", "collections", "os", "types"})


class NoFormError(ValueError):
    """A value of a known class cannot be converted to JSON. Messages begin with its place."""


class EndlessError(NoFormError):
    """An iterator has too many items, or no end.

    Args:
        kind: Class of the iterator.
        limit: Number of items that were read.
    """

    def __init__(self, kind: type[Any], limit: int = MAX_ITEMS) -> None:
        super().__init__(
            f"a {kind.__name__} with more than {limit:,} items, perhaps endless; "
            "limit it with itertools.islice, or return a list if you need so many"
        )


# Iterators, and containers that compute their items


def is_iterator(value: object) -> TypeGuard[Iterator[Any]]:
    """Return whether a value is an iterator; open files, which are read as a whole, are not."""
    return _is_iterator_class(type(value))


def _is_iterator_class(kind: type[Any]) -> bool:
    return hasattr(kind, "__next__") and hasattr(kind, "__iter__") and not hasattr(kind, "read")


@lru_cache(maxsize=512)
def stores_items(kind: type[Any]) -> bool:
    """Return whether values of a class store their items, so that iterating runs no code of the author."""
    defining = {
        name: next((base for base in kind.__mro__ if name in vars(base)), object)
        for name in ("__iter__", "items", "__getitem__")
    }
    if defining["items"] is Mapping:  # it calls the other two
        del defining["items"]
    elif defining["__iter__"] is Sequence:  # it calls `__getitem__`
        del defining["__iter__"]
    elif defining["__iter__"].__module__ in _PLAIN_CODE:
        del defining["__getitem__"]
    is_plain = all(each.__module__ in _PLAIN_CODE for each in defining.values())
    return is_plain and not _is_iterator_class(kind)


def items_of(values: Iterable[Any], kind: Any = None) -> list[Any]:
    """Return the items of an iterable; computed items only in a thread, and not without end.

    An iterator is closed if it is not read to its end: when it has too many items, and when the call is over.

    Args:
        values: The iterable. One with a length may have more than `MAX_ITEMS`, up to its length.
        kind: Class that computes the items, also for the error message; None takes that of `values`.

    Raises:
        LeaveLoop: Items are computed, and this is the thread of an event loop.
        EndlessError: Items are computed, and there are too many.
        CallEndedError: The call is over.
        BaseException: Raised by the iterable.
    """
    kind = kind or type(values)
    if stores_items(kind):
        return list(values)
    may_block()
    return take_items(iter(values), kind, max(MAX_ITEMS, len(values) if isinstance(values, Sized) else 0))


def take_items(iterator: Iterator[Any], kind: Any = None, limit: int = MAX_ITEMS) -> list[Any]:
    """Return the items of an iterator as `items_of` does, but in an event loop as well."""
    call = current.get(None)  # None in a worker process, which is ended from outside
    items: list[Any] = []
    try:
        for item in islice(iterator, limit):
            items.append(item)
            if call is not None:
                call.check_open()
        if len(items) == limit and next(iterator, items) is not items:
            raise EndlessError(kind or type(iterator), limit)
    except BaseException:
        if close := getattr(iterator, "close", None):
            close()
        raise
    return items


# Files


def is_file(kind: Any) -> bool:
    """Return whether values of a class are open files, on disk or in memory."""
    names = (kind.__module__, kind.__name__)
    return issubclass(kind, io.IOBase) or names == ("tempfile", "_TemporaryFileWrapper")


def read_file(file: Any) -> str | bytes:
    """Return the whole contents of a file, and close it.

    Raises:
        NoFormError: It is closed, or not open for reading.
        LeaveLoop: It is on disk, and this is the thread of an event loop.
        OSError: It cannot be read.
    """
    if file.closed:
        raise NoFormError("a closed file; return its contents with `file.read()`, or `File(path)`")
    if isinstance(file, (io.BytesIO, io.StringIO)):
        return file.getvalue()
    may_block()
    with file:  # a function that returns a file does not close it
        try:
            if file.seekable():
                file.seek(0)
            return cast("str | bytes", file.read())
        except io.UnsupportedOperation as error:
            raise NoFormError(f"a file could not be read: {error}; open it for reading") from None


# Encoders

Encode = Callable[[Any], Any]

_declared: Final[dict[type, Encode]] = {}


def declare_encoder(cls: type, encode: Encode) -> None:
    """Register an author's encoder for values of a class and its subclasses."""
    _declared[cls] = encode


def encoder(cls: Any) -> Encode | None:
    """Return the function that converts values of a class to plainer data, or None.

    Its results are JSON values, or values that are converted in turn. It raises NoFormError for a value that cannot be
    converted.

    Args:
        cls: Class of a value.
    """
    for base in cls.__mro__ if _declared else ():
        if base in _declared:
            return _declared[base]
    return _encoder(cls)


@lru_cache(maxsize=512)
def _encoder(cls: type[Any]) -> Encode | None:
    for base in cls.__mro__:
        known = _ENCODERS.get((base.__module__.partition(".")[0], base.__qualname__))
        if known is not None:
            return known
    if issubclass(cls, _IN_JSON):
        return None
    marked = (encode for mark, encode in _ENCODERS_BY_MARK.items() if hasattr(cls, mark))
    of_base = (encode for kind, encode in _ENCODERS_BY_BASE if issubclass(cls, kind))
    return next(marked, None) or next(of_base, None)


def encode_unknown(value: Any) -> Any:
    """Return a value as plainer data, for `fallback=` of pydantic-core.

    Raises:
        TypeError: There is no encoder.
        Exception: Raised by the encoder.
    """
    if (encode := encoder(type(value))) is None:
        raise TypeError(
            f"a {type(value).__name__} cannot be converted to JSON; register its class with mcpkit.types.json_type"
        )
    return encode(value)


def _numpy_scalar(value: Any) -> Any:
    kind = value.dtype.kind
    if kind == "M":
        text = str(value)
        return None if text == "NaT" else text
    if kind == "V":
        names = value.dtype.names
        return bytes(value) if names is None else {name: value[name] for name in names}
    if value.dtype.char in "gG":  # `item` returns these unchanged
        return float(value) if kind == "f" else complex(value)
    return _numpy_duration(value) if kind == "m" else value.item()


def _numpy_duration(value: Any) -> str | None:
    numpy = sys.modules["numpy"]
    if numpy.isnat(value):
        return None
    unit, step = numpy.datetime_data(value.dtype)
    if unit in ("Y", "M"):
        count = int(value.astype("int64")) * int(step)
        return f"{'-' if count < 0 else ''}P{abs(count)}{unit}"
    if unit in ("generic", "ps", "fs", "as"):  # no unit, or one that is finer
        raise NoFormError(f"a timedelta64 in {unit} units; convert it with .astype('timedelta64[ns]')")
    return _duration(int(value.astype("timedelta64[ns]").astype("int64")))


def _numpy_array(value: Any) -> Any:
    # `tolist` makes integers of dates with nanoseconds, and tuples of records.
    if value.dtype.kind in "mMV" or value.dtype.char in "gG":
        return list(value) if value.ndim else value[()]
    return value.tolist()


def _duration(nanoseconds: int) -> str:
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


def _only_counts_rows(index: Any) -> bool:
    """Return whether a pandas index has no information but the number of a row."""
    is_range = type(index).__name__ == "RangeIndex" and index.name is None
    return is_range and index.start == 0 and index.step == 1


def _pandas_records(frame: Any) -> Any:
    """Return a table as a list of objects, with its index unless that only counts the rows."""
    if not _only_counts_rows(frame.index):
        frame = frame.reset_index()
    if not frame.columns.is_unique:
        twice = frame.columns[frame.columns.duplicated()][0]
        raise NoFormError(f"a DataFrame with two columns {twice!r}; rename one of them")
    return frame.to_dict("records")


def _sqlalchemy_columns(instance: Any) -> Json:
    """Return the loaded columns of an instance of SQLAlchemy's ORM, without database access."""
    loaded = cast("Json", vars(instance))
    columns: Json = {}
    for attribute in cast("Any", type(instance)).__mapper__.column_attrs:
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
    has_fields = hasattr(cls, "__attrs_attrs__") or hasattr(cls, "__struct_encode_fields__")
    return isinstance(cls, type) and has_fields


def attrs_fields(instance: Any) -> Json:
    """Return the fields of an attrs instance by the parameter names of its `__init__`."""
    return {
        getattr(field, "alias", None) or field.name.lstrip("_"): getattr(instance, field.name)
        for field in cast("Any", type(instance)).__attrs_attrs__
    }


def struct_fields(instance: Any) -> Any:
    """Return the fields of a msgspec Struct as msgspec encodes them: renamed, tagged, or as an array."""
    cls = cast("Any", type(instance))
    unset = sys.modules["msgspec"].UNSET
    config = cls.__struct_config__
    values = [getattr(instance, name) for name in cls.__struct_fields__]
    if config.array_like:
        return values if config.tag is None else [config.tag, *values]
    tag = {} if config.tag is None else {config.tag_field: config.tag}
    fields = zip(cls.__struct_encode_fields__, values, strict=True)
    return tag | {name: value for name, value in fields if value is not unset}


_ENCODERS: dict[tuple[str, str], Encode] = {
    # (package, class): encoder of the class and of classes derived from it
    ("numpy", "generic"): _numpy_scalar,
    ("numpy", "ndarray"): _numpy_array,
    ("pandas", "Timestamp"): methodcaller("isoformat"),
    ("pandas", "Timedelta"): lambda value: _duration(value.value),
    **{("pandas", name): lambda _: None for name in ("NaTType", "NAType")},
    ("pandas", "Period"): str,
    ("pandas", "Interval"): lambda value: {"left": value.left, "right": value.right, "closed": value.closed},
    **{("pandas", name): methodcaller("tolist") for name in ("Series", "Index", "ExtensionArray")},
    ("pandas", "DataFrame"): _pandas_records,
    ("polars", "DataFrame"): methodcaller("to_dicts"),
    ("polars", "Series"): methodcaller("to_list"),
    ("sqlite3", "Row"): lambda row: dict(zip(row.keys(), row, strict=True)),
    ("sqlalchemy", "Row"): lambda row: dict(attrgetter("_mapping")(row)),  # its documented name
    ("fractions", "Fraction"): str,
    ("types", "SimpleNamespace"): vars,
    ("collections", "UserString"): str,
    ("tempfile", "_TemporaryFileWrapper"): read_file,
    ("builtins", "memoryview"): bytes,
}
_ENCODERS_BY_MARK: dict[str, Encode] = {
    # attribute of a class: encoder of its instances
    "__attrs_attrs__": attrs_fields,
    "__struct_encode_fields__": struct_fields,
    "__mapper__": _sqlalchemy_columns,
}
_ENCODERS_BY_BASE: tuple[tuple[type, Encode], ...] = (
    (io.IOBase, read_file),  # before iterators: a file is an iterator of its lines
    (collections.abc.Mapping, lambda value: dict(items_of(value.items(), type(value)))),
    (collections.abc.Sequence, items_of),
    (collections.abc.Set, items_of),
    (collections.abc.MappingView, items_of),
    (collections.abc.Iterator, items_of),
)
# Classes that pydantic-core writes itself, in subclasses as well.
_IN_JSON = (str, bytes, bytearray, int, float, dict, list, tuple, set, frozenset)


# Renderers

# Returns content for a value, of any kind that a function may return; None where the value is data.
Make = Callable[[Any], Any]


def as_content(kind: type | str, make: Make) -> Registration:
    """Register a function that converts values of a class to content.

    It applies to all servers from now on, to subclasses, and to values in lists. The renderer of the nearest base
    class is used; of several for one class, the last. A function with the class as return annotation has no output
    schema. Iterators are read first, so a renderer for an iterator class is not called.

    Args:
        kind: The class, or its dotted name, which needs no import: module and class, `"PIL.Image.Image"`, or package
            and class, `"pandas.DataFrame"`.
        make: Returns content of any kind for a value: `Image`, text, a list. None treats the value as data. It runs in
            a thread. When it raises an exception, the client gets an error without its text; a `ToolError` keeps its
            text.

    Returns:
        A registration. Its `remove` or the end of its `with` block removes the renderer.

    Raises:
        RegistrationError: `kind` is neither a class nor a dotted name, or `make` is not a function, or is async.
    """
    given: Any = kind
    names = given.split(".") if isinstance(given, str) else ()
    if not isinstance(given, type) and not (len(names) > 1 and all(map(str.isidentifier, names))):
        raise RegistrationError(
            f"as_content takes a class or its dotted name, such as 'PIL.Image.Image', got {kind!r}"
        )
    function: Any = make
    if not callable(function) or iscoroutinefunction(function):
        raise RegistrationError(f"as_content({kind!r}) takes a function that is not async, got {make!r}")
    registration = Registration(kind, make)
    _registrations[registration] = None
    return registration


class Registration:
    """A registered renderer; `remove` or the end of a `with` block removes it.

    Args:
        kind: The class or its dotted name.
        make: The renderer.
    """

    def __init__(self, kind: type | str, make: Make) -> None:
        self.kind = kind
        self.make = make

    def remove(self) -> None:
        """Remove the renderer; an earlier one for the class applies again. Further calls have no effect."""
        _registrations.pop(self, None)

    def __enter__(self) -> Self:
        """Return the registration. The renderer applies in all threads."""
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the renderer."""
        self.remove()


# The renderers of `as_content`, in order of registration.
_registrations: Final[dict[Registration, None]] = {}


def renderer(kind: Any) -> Make | None:
    """Return the renderer of a class, or None if its values are data."""
    return _renderer(kind, tuple(_registrations))


def has_own_renderer(kind: Any) -> bool:
    """Return whether `as_content` has registered a renderer for a class."""
    known = tuple(_registrations)
    return bool(known) and any(_registered(base, known) is not None for base in kind.__mro__)


@lru_cache(maxsize=512)
def _renderer(kind: type, registrations: tuple[Registration, ...]) -> Make | None:
    for base in kind.__mro__:
        make = _registered(base, registrations)
        make = make or next((_RENDERERS[name] for name in _names(base) if name in _RENDERERS), None)
        if make is not None:
            return make
    return _display if any(hasattr(kind, name) for name in ("_repr_mimebundle_", *_DISPLAY_METHODS)) else None


def _registered(base: type, registrations: tuple[Registration, ...]) -> Make | None:
    names = _names(base)
    found = (each.make for each in reversed(registrations) if each.kind is base or each.kind in names)
    return next(found, None)


def _names(kind: type) -> tuple[str, str]:
    """Return the dotted names of a class: with its module, and with its package only."""
    package = kind.__module__.partition(".")[0]
    return f"{kind.__module__}.{kind.__qualname__}", f"{package}.{kind.__qualname__}"


def _figure(figure: Any) -> Image:
    """Return a figure as a PNG, and close it if pyplot made it."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", bbox_inches="tight")
    if pyplot := sys.modules.get("matplotlib.pyplot"):
        pyplot.close(figure)  # else pyplot keeps each of its figures
    return Image(data=buffer.getvalue(), mime_type="image/png")


def _pandas_table(table: Any) -> TypedText:
    """Return a table as complete CSV, with its index unless that only counts the rows.

    HTML would cost a model many times the tokens, and the plain text of pandas leaves out rows and columns.
    """
    return TypedText(table.to_csv(index=not _only_counts_rows(table.index), lineterminator="\n"), "text/csv")


def _polars_table(table: Any) -> TypedText | None:
    frame = table.collect() if hasattr(table, "collect") else table
    frame = frame.to_frame() if hasattr(frame, "to_frame") else frame
    # CSV has no lists, so a table with lists is sent as JSON.
    is_nested = any(kind.is_nested() for kind in frame.dtypes)
    return None if is_nested else TypedText(frame.write_csv(), "text/csv")


_RENDERERS: dict[str, Make] = {
    "matplotlib.figure.Figure": _figure,
    **dict.fromkeys(("pandas.DataFrame", "pandas.Series"), _pandas_table),
    **dict.fromkeys(("polars.DataFrame", "polars.LazyFrame", "polars.Series"), _polars_table),
}

# IPython's methods, the most useful for a model first.
_DISPLAY_METHODS = {
    "_repr_png_": "image/png",
    "_repr_jpeg_": "image/jpeg",
    "_repr_svg_": "image/svg+xml",
    "_repr_markdown_": "text/markdown",
    "_repr_html_": "text/html",
}

# Media types in a bundle of IPython, the most useful for a model first.
_BUNDLE_TYPES = (
    *("image/png", "image/jpeg", "image/gif", "image/webp", "image/svg+xml"),
    *("text/markdown", "text/plain", "text/html"),
)


def _display(value: Any) -> Image | TypedText | None:
    """Return the best representation of an object with display methods of IPython, or None."""
    kind = cast("Any", type(value))
    bundle: Any = None
    if hasattr(kind, "_repr_mimebundle_"):
        bundle = _without_metadata(value._repr_mimebundle_(include=None, exclude=None))
    members = cast("Json", bundle) if isinstance(bundle, Mapping) else {}
    in_bundle = ((each, members.get(each)) for each in _BUNDLE_TYPES)
    forms = ((each, getattr(value, name)()) for name, each in _DISPLAY_METHODS.items() if hasattr(kind, name))
    contents = (_representation(mime_type, data) for mime_type, data in chain(in_bundle, forms))
    return next((content for content in contents if content is not None), None)


def _without_metadata(representation: Any) -> Any:
    # A representation with metadata is the first of a pair.
    return cast("Any", representation)[0] if isinstance(representation, tuple) else representation


def _representation(mime_type: str, data: Any) -> Image | TypedText | None:
    data = _without_metadata(data)
    if not data:
        return None
    if not mime_type.startswith("image/"):
        return TypedText(data, mime_type) if isinstance(data, str) else None
    if isinstance(data, str):
        data = data.encode() if mime_type == "image/svg+xml" else a2b_base64(data)
    return Image(data=data, mime_type=mime_type) if isinstance(data, bytes) else None
