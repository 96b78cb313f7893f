"""Values that functions return, and their conversion to content blocks and contents."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, ParamSpec, TypeVar, cast

from .._utils.exceptions import HandlerError, OutputError, ProtocolError
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
    """A result of a type that an extension defines, made by `extension.result(...)`.

    In the return annotation of a tool, beside other types, it is not part of the output schema.
    """

    __slots__ = ()
    __mcp_extension_result__: ClassVar = True


class ToolResult(WholeResult):
    """A complete tool result: content, structured content, `isError` and `_meta` (server/tools, "Tool Result").

    Args:
        content: Content of any kind that a tool may return. None sends the structured content as JSON text.
        structured: Structured content, or `ToolResult.ABSENT` for none.
        is_error: Whether the result is an error that the model should read.
        meta: `_meta` of the result.
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
    """Convert a value to content blocks of 2026-07-28 (schema, `ContentBlock`).

    A `str` becomes text, None no block, bytes of an image or sound an image or audio block, other bytes an embedded
    blob, and an open file its contents. A list, tuple or iterator with content in it (the classes of this module,
    bytes, files, objects with a display method), at any depth, becomes the blocks of its items. An object with a
    renderer (see `renderers`) becomes what the renderer returns. Other values become compact JSON in a text block; a
    string of JSON is plain text.

    Args:
        value: The value.
        place: Name of the value in messages.

    Raises:
        OutputError: The value cannot be converted to JSON, or cannot be read. The message has its place.
        HandlerError: Code of the author raised an exception while the value was read.
    """
    if type(value) is str and value.isascii():
        return [{"type": "text", "text": value}]
    return [_made(inner, item.block) for inner, item in _items(value, place)]


def to_contents(value: Any, uri: str, mime_type: str | None) -> list[Json]:
    """Convert a value to the contents of a resource (schema, `ReadResourceResult`).

    A `str` becomes text, bytes a blob, an object with a renderer what the renderer returns. A list or tuple with
    content in it (as for `to_content`) becomes several contents. Other values become JSON text.

    Args:
        value: Value that the function of the resource returned.
        uri: URI that was read. A `File` or `EmbeddedResource` with a URI keeps its own.
        mime_type: Media type of the resource; None detects it.

    Raises:
        OutputError: As for `to_content`; or the value is None or a link, which have no contents.
        HandlerError: Code of the author raised an exception while the value was read.
    """
    if type(value) is str and value.isascii():
        return [{"uri": uri, "mimeType": mime_type or media_types.PLAIN_TEXT, "text": value}]
    if value is None:
        raise OutputError("result is None; return the contents, or raise ResourceNotFoundError")
    return [_made(place, item.contents, uri, mime_type) for place, item in _items(value, "result")]


def holds_content(value: Any) -> bool:
    """Return whether a value is content and not data: itself, or at any depth in lists and tuples."""
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
                f"{top} cannot be sent: it contains itself, or more than {DEEPEST} levels of lists; return a flat list"
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
    """Return the value after its renderer and those of further results; None without a renderer."""
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
    cls = type(value).__name__
    raise OutputError(
        f"{place} cannot be sent: the as_content function for {cls} returns objects that need an as_content function, "
        "again and again. Return content, such as Text or Image"
    )


class _Blob(Content):
    """Bytes without a declared media type."""

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
