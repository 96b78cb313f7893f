"""What an object shows of itself: IPython's display protocol, matplotlib's figures, tables of pandas and polars.

None of these libraries is imported: an object of theirs brings its library with it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import lru_cache
from io import BytesIO, IOBase
from typing import Any, NamedTuple, cast

from .lazy import may_block


class Shown(NamedTuple):
    """One representation of an object."""

    mime_type: str
    data: str | bytes
    """Text as it is; an image as bytes."""


_BUNDLE = "_repr_mimebundle_"
_METHODS = {
    "_repr_png_": "image/png",
    "_repr_jpeg_": "image/jpeg",
    "_repr_svg_": "image/svg+xml",
    "_repr_markdown_": "text/markdown",
    "_repr_html_": "text/html",
}
"""IPython's methods in the order in which a model profits from them."""

_TABLES = ("DataFrame", "Series", "LazyFrame")

_BUNDLE_ORDER = (
    "image/png",
    "image/jpeg",
    "image/gif",
    "image/webp",
    "image/svg+xml",
    "text/markdown",
    "text/plain",
    "text/html",
)


def can_show(kind: Any) -> bool:
    """Tell whether objects of a class may show themselves."""
    # The cache says to type checkers that a class is hashable only where they know which class it is.
    return _can_show(kind)


@lru_cache(maxsize=512)
def _can_show(kind: type) -> bool:
    return _is_figure(kind) or _is_table(kind) or any(hasattr(kind, name) for name in (_BUNDLE, *_METHODS))


def show(value: object) -> Shown | None:
    """Return the best representation of an object whose class `can_show`, or None where it has none now.

    A figure is a PNG; one of pyplot's is closed, as nobody else will. A table is CSV in full, with the index of pandas
    where that says something: its own HTML costs a model many times the tokens, and its plain text leaves out rows
    and columns.
    """
    may_block()
    kind = type(value)
    if _is_figure(kind):
        return _figure(value)
    if _is_table(kind):
        return _table(value)
    if hasattr(kind, _BUNDLE) and (shown := _from_bundle(value)):
        return shown
    for name, mime_type in _METHODS.items():
        if hasattr(kind, name) and (shown := _shown(mime_type, getattr(value, name)())):
            return shown
    return None


def _from_bundle(value: Any) -> Shown | None:
    bundle = _without_metadata(getattr(value, _BUNDLE)(include=None, exclude=None))
    if not isinstance(bundle, Mapping):
        return None
    representations = cast("Mapping[str, Any]", bundle)
    shown = (_shown(mime_type, representations.get(mime_type)) for mime_type in _BUNDLE_ORDER)
    return next(filter(None, shown), None)


def _without_metadata(shown: Any) -> Any:
    # With metadata beside it, a representation is the first of a pair.
    return cast("Any", shown)[0] if isinstance(shown, tuple) else shown


def _shown(mime_type: str, data: Any) -> Shown | None:
    data = _without_metadata(data)
    if not data:
        return None
    is_image = mime_type.startswith("image/")
    if is_image and isinstance(data, str):
        from binascii import a2b_base64

        data = data.encode() if mime_type == "image/svg+xml" else a2b_base64(data)
    if not isinstance(data, bytes if is_image else str):
        return None
    return Shown(mime_type, data)


def _is_figure(kind: type) -> bool:
    return any(base.__name__ == "Figure" and base.__module__ == "matplotlib.figure" for base in kind.__mro__)


def _figure(figure: Any) -> Shown:
    buffer = BytesIO()
    figure.savefig(buffer, format="png", bbox_inches="tight")
    if pyplot := sys.modules.get("matplotlib.pyplot"):
        pyplot.close(figure)  # which keeps each figure of its own until it is told so
    return Shown("image/png", buffer.getvalue())


def _is_table(kind: type) -> bool:
    return any(
        base.__name__ in _TABLES and base.__module__.partition(".")[0] in ("pandas", "polars")
        for base in kind.__mro__
    )


def _table(table: Any) -> Shown | None:
    if any(base.__module__.partition(".")[0] == "polars" for base in type(table).__mro__):
        frame = table.collect() if hasattr(table, "collect") else table
        frame = frame.to_frame() if hasattr(frame, "to_frame") else frame
        # CSV has no lists: what holds any is JSON instead.
        is_nested = any(kind.is_nested() for kind in frame.dtypes)
        return None if is_nested else Shown("text/csv", frame.write_csv())
    from .foreign import is_row_number

    return Shown("text/csv", table.to_csv(index=not is_row_number(table.index), lineterminator="\n"))


def is_file(kind: Any) -> bool:
    """Tell whether values of a class are files that an author has opened, on disk or in memory."""
    return issubclass(kind, IOBase) or (kind.__module__, kind.__name__) == (
        "tempfile",
        "_TemporaryFileWrapper",
    )
