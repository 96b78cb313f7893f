"""What an author returns, and the content that it becomes on the wire."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, ParamSpec, TypeVar, cast

from ..common.errors import HandlerError, OutputError, ProtocolError
from ..protocol.types import Json
from . import media_types
from .blocks import (
    Bytes,
    Content,
    ContentError,
    EmbeddedResource,
    ResourceLink,
    Text,
    TypedText,
    WholeResult,
    base64,
)
from .data import json_value, text_of
from .display import is_file
from .lazy import may_block
from .media import Audio, File, Image
from .plain import DEEPEST
from .renderers import is_said, maker
from .wording import unreadable

__all__ = [
    "Audio",
    "EmbeddedResource",
    "ExtensionResult",
    "File",
    "Image",
    "ResourceLink",
    "Text",
    "ToolResult",
    "WholeResult",
    "holds_content",
    "to_content",
    "to_contents",
]

P = ParamSpec("P")
T = TypeVar("T")

_BYTES = (bytes, bytearray, memoryview)


class ExtensionResult(Json, WholeResult):
    """A result of a type that an extension has brought; `extension.result(...)` makes it.

    In a tool's return annotation, beside other types, it stays out of the output schema.
    """

    __slots__ = ()
    __mcp_extension_result__: ClassVar = True


class ToolResult(WholeResult):
    """All that a tool can say in its result (server/tools, "Tool Result").

    Args:
        content: Whatever a tool may return as content. None for the structured data as JSON text.
        structured: The structured data, or `ToolResult.ABSENT` for none.
        is_error: Whether the tool failed in a way that the model should read about.
        meta: The result's `_meta`.
    """

    __slots__ = ("content", "is_error", "meta", "structured")
    __mcp_content__: ClassVar = True
    ABSENT: ClassVar[Any] = object()

    def __init__(
        self,
        content: Any = None,
        *,
        structured: Any = ABSENT,
        is_error: bool = False,
        meta: Mapping[str, Any] | None = None,
    ) -> None:
        self.content = content
        self.structured = structured
        self.is_error = is_error
        self.meta = meta

    def __repr__(self) -> str:
        structured = "" if self.structured is self.ABSENT else f", structured={self.structured!r}"
        return f"ToolResult({self.content!r}{structured}, is_error={self.is_error})"


def to_content(value: Any, place: str = "result") -> list[Json]:
    """Return a value as content blocks of revision 2026-07-28 (schema, `ContentBlock`).

    A `str` is text, None is nothing, an image or a sound in bytes is an image or audio block, other bytes are
    an embedded blob, and an open file is what is in it. A list, tuple or iterator that holds any content (the
    classes of this module, bytes, files, objects that show themselves), however deep in lists, becomes the blocks
    of its items. An object of which something makes content (see `renderers`) is that. Everything else is compact
    JSON in a text block, or plain text where that JSON is a string.

    Args:
        value: The value.
        place: What it is called in an error.

    Raises:
        OutputError: It has no form in JSON, or cannot be read; the text names the place.
        HandlerError: The author's code has raised it, while it was read.
    """
    if type(value) is str and value.isascii():
        return [{"type": "text", "text": value}]
    return [_made(inner, item.block) for inner, item in _items(value, place)]


def to_contents(value: Any, uri: str, mime_type: str | None) -> list[Json]:
    """Return a value as the contents of a resource (schema, `ReadResourceResult`).

    A `str` is text, bytes are a blob, an object of which something makes content is that, a list or tuple that
    holds any content (as for `to_content`) becomes several contents, everything else is JSON text.

    Args:
        value: What the resource's function returned.
        uri: The URI that was read; a `File` or `EmbeddedResource` with its own URI keeps that.
        mime_type: The media type that the resource declares, or None to find it out.

    Raises:
        OutputError: As for `to_content`; or it is None or a link, which have no contents.
        HandlerError: The author's code has raised it, while it was read.
    """
    if type(value) is str and value.isascii():
        return [{"uri": uri, "mimeType": mime_type or media_types.PLAIN_TEXT, "text": value}]
    if value is None:
        raise OutputError("result is None; return the contents, or raise ResourceNotFoundError")
    return [_made(place, item.contents, uri, mime_type) for place, item in _items(value, "result")]


def holds_content(value: Any) -> bool:
    """Tell whether a value is content rather than data: by itself, or at any place in lists and tuples."""
    kind = cast("Any", type(value))
    if not isinstance(value, (list, tuple)) or is_said(kind):
        return _is_content(kind)
    left: list[Sequence[Any]] = [cast("Sequence[Any]", value)]
    seen: set[int] = set()
    while left:
        items = left.pop()
        # What they hold, whatever their class makes of going through them.
        cls: Any = list if isinstance(items, list) else type(items)
        kinds: set[Any] = set(map(type, cls.__iter__(items)))
        if any(map(_is_content, kinds)):
            return True
        if any(issubclass(kind, (list, tuple)) for kind in kinds) and id(items) not in seen:
            seen.add(id(items))
            left.extend(cast("Any", item) for item in items if isinstance(item, (list, tuple)))
    return False


def _is_content(kind: Any) -> bool:
    return issubclass(kind, (Content, *_BYTES)) or is_file(kind) or maker(kind) is not None


def _made(place: str, make: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
    try:
        return make(*given, **named)
    except (OutputError, HandlerError, ProtocolError):
        raise
    except ContentError as error:
        raise OutputError(f"{place} cannot be sent: {error}") from None
    except Exception as error:  # of the file system, or the author's code
        raise OutputError(unreadable(place, error)) from error


def _items(value: Any, place: str) -> Iterator[tuple[str, Content]]:
    kind = cast("Any", type(value))
    if kind is str:
        yield place, Text(value)
    elif isinstance(value, Content):
        yield place, value
    elif isinstance(value, _BYTES):
        yield place, _Blob(bytes(cast("Bytes", value)))
    elif isinstance(value, (list, tuple)) and not is_said(kind) and holds_content(value):
        if place.count("[") >= DEEPEST:
            top = place.partition("[")[0]
            raise OutputError(
                f"{top} cannot be sent: it contains itself, or more than {DEEPEST} levels of lists"
            )
        for index, item in enumerate(cast("Sequence[Any]", value)):
            yield from _items(item, f"{place}[{index}]")
    elif value is not None:
        yield from _others(value, place)


def _others(value: Any, place: str) -> Iterator[tuple[str, Content]]:
    kind = cast("Any", type(value))
    if (made := _rendered(value, place)) is not None:
        yield from _items(made, place)
    elif is_file(kind):
        from .reading import read_file

        data = read_file(value, place)
        yield place, Text(data) if isinstance(data, str) else _Blob(data)
    elif isinstance(value, Iterator):
        from .reading import unrolled

        yield from _items(unrolled(value, place), place)
    else:
        data = json_value(value, place)
        yield (
            place,
            TypedText(text_of(data), media_types.PLAIN_TEXT if type(data) is str else media_types.JSON),
        )


def _rendered(value: Any, place: str) -> Any:
    """Return what has been made of a value, and of that in turn; None where nothing makes content of it."""
    rendered: Any = None
    for _ in range(DEEPEST):
        make = maker(cast("Any", type(value)))
        if make is None:
            return rendered
        may_block()
        value = _made(place, make, value)
        if value is None:
            return rendered
        rendered = value
    raise OutputError(
        f"{place} cannot be sent: the as_content function for {type(value).__name__} returned another one"
    )


class _Blob(Content):
    """Plain bytes, of which nothing is said."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        super().__init__(None, None)
        self.data = data

    def block(self) -> Json:
        kind = media_types.from_bytes(self.data)
        if kind is None:
            return File(data=self.data, mime_type=media_types.BINARY).block()
        return (Image if kind.startswith("image/") else Audio)(data=self.data, mime_type=kind).block()

    def contents(self, uri: str, mime_type: str | None) -> Json:
        mime_type = mime_type or media_types.from_bytes(self.data) or media_types.BINARY
        return {"uri": uri, "mimeType": mime_type, "blob": base64(self.data)}
