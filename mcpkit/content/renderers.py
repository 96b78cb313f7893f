"""What makes content of objects of other libraries: the author's word, a table, or what they show of themselves.

None of these libraries is imported: an object of theirs brings its library with it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import lru_cache
from inspect import iscoroutinefunction
from io import BytesIO
from typing import Any, Final

from typing_extensions import Self

from ..common.errors import RegistrationError
from .blocks import TypedText
from .display import can_display, display
from .media import Image

Make = Callable[[Any], Any]
"""Makes of a value what a function may return as content; None where it is data after all."""

_said: Final[dict[Registration, None]] = {}
"""The renderers, in order of registration."""


def as_content(kind: type | str, make: Make) -> Registration:
    """Say what the values of a class, and of those derived from it, are as content, by themselves or in a list.

    It holds for all servers, from now on, also for what is registered already. Of several classes the one nearest to
    that of a value counts, of one class what was said last. A return annotation of the class has no output schema.
    What is an iterator, too, is gone through before anybody asks what it is.

    Args:
        kind: The class, or its dotted name, so that nothing has to be imported: `"PIL.Image.Image"`, as its module and
            the class say; or the package and the class, `"pandas.DataFrame"`.
        make: Makes of a value whatever a function may return as content: `Image`, text, a list of them. None where it
            is data after all. It is called in a thread. What it raises is told to the client as a result that cannot
            be read, and a `ToolError` as itself.

    Returns:
        What takes it back: by `remove`, or at the end of a `with` block.

    Raises:
        RegistrationError: It is neither a class nor the dotted name of one, or `make` is no function, or async.
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
    """What `as_content` has said: `remove` takes it back, and so does the end of a `with` block."""

    def __init__(self, kind: type | str, make: Make) -> None:
        self.kind = kind
        self.make = make

    def remove(self) -> None:
        """Take it back; what was said of the class before counts again. Called again, it does nothing."""
        _said.pop(self, None)

    def __enter__(self) -> Self:
        """Return this: it holds inside the block, in all threads."""
        return self

    def __exit__(self, *_: object) -> None:
        """Take it back."""
        self.remove()


def maker(kind: Any) -> Make | None:
    """Return what makes content of the values of a class; None where they are data."""
    # The cache says to type checkers that a class is hashable only where they know which class it is.
    return _maker(kind, tuple(_said))


def is_said(kind: Any) -> bool:
    """Tell whether an author has said what the values of a class are as content."""
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
    """Return a figure as a PNG; one of pyplot's is closed, as nobody else will."""
    buffer = BytesIO()
    figure.savefig(buffer, format="png", bbox_inches="tight")
    if pyplot := sys.modules.get("matplotlib.pyplot"):
        pyplot.close(figure)  # which keeps each figure of its own until it is told so
    return Image(data=buffer.getvalue(), mime_type="image/png")


def _pandas(table: Any) -> TypedText:
    """Return a table as CSV in full, with its index where that says something.

    Its own HTML costs a model many times the tokens, and its plain text leaves out rows and columns.
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
