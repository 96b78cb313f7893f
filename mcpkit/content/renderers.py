"""Renderers, which convert objects of other libraries to content: `as_content`, tables, figures, display methods.

No library is imported: an object of a library has imported it already.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import lru_cache
from inspect import iscoroutinefunction
from io import BytesIO
from typing import Any, Final

from typing_extensions import Self

from .._utils.exceptions import RegistrationError
from .blocks import TypedText
from .display import can_display, display
from .media import Image

Make = Callable[[Any], Any]
"""Makes of a value what a function may return as content; None where it is data after all."""

_said: Final[dict[Registration, None]] = {}
"""The renderers, in order of registration."""


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
    _said[registration] = None
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
        _said.pop(self, None)

    def __enter__(self) -> Self:
        """Return the registration. The renderer applies in all threads."""
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the renderer."""
        self.remove()


def maker(kind: Any) -> Make | None:
    """Return the renderer of a class, or None if its values are data."""
    # The cache says to type checkers that a class is hashable only where they know which class it is.
    return _maker(kind, tuple(_said))


def is_said(kind: Any) -> bool:
    """Return whether `as_content` has registered a renderer for a class."""
    said = tuple(_said)
    return bool(said) and any(_of(base, said) is not None for base in kind.__mro__)


@lru_cache(maxsize=512)
def _maker(kind: type, said: tuple[Registration, ...]) -> Make | None:
    for base in kind.__mro__:
        make = _of(base, said) or next((_ROWS[name] for name in _names(base) if name in _ROWS), None)
        if make is not None:
            return make
    return display if can_display(kind) else None


def _of(base: type, said: tuple[Registration, ...]) -> Make | None:
    names = _names(base)
    return next((each.make for each in reversed(said) if each.kind is base or each.kind in names), None)


def _names(kind: type) -> tuple[str, str]:
    package = kind.__module__.partition(".")[0]
    return f"{kind.__module__}.{kind.__qualname__}", f"{package}.{kind.__qualname__}"


def _figure(figure: Any) -> Image:
    """Return a figure as a PNG, and close it if pyplot made it."""
    buffer = BytesIO()
    figure.savefig(buffer, format="png", bbox_inches="tight")
    if pyplot := sys.modules.get("matplotlib.pyplot"):
        pyplot.close(figure)  # which keeps each figure of its own until it is told so
    return Image(data=buffer.getvalue(), mime_type="image/png")


def _pandas(table: Any) -> TypedText:
    """Return a table as complete CSV, with its index unless that only counts the rows.

    HTML would cost a model many times the tokens, and the plain text of pandas leaves out rows and columns.
    """
    from .foreign import is_row_number

    return TypedText(table.to_csv(index=not is_row_number(table.index), lineterminator="\n"), "text/csv")


def _polars(table: Any) -> TypedText | None:
    frame = table.collect() if hasattr(table, "collect") else table
    frame = frame.to_frame() if hasattr(frame, "to_frame") else frame
    # CSV has no lists: what holds any is JSON instead.
    is_nested = any(kind.is_nested() for kind in frame.dtypes)
    return None if is_nested else TypedText(frame.write_csv(), "text/csv")


_ROWS: dict[str, Make] = {
    "matplotlib.figure.Figure": _figure,
    "pandas.DataFrame": _pandas,
    "pandas.Series": _pandas,
    "polars.DataFrame": _polars,
    "polars.LazyFrame": _polars,
    "polars.Series": _polars,
}
