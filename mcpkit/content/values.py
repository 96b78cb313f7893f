"""What an author returns, and the content that it becomes on the wire."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, cast

from pydantic_core import PydanticSerializationError, from_json, to_json

from ..protocol.types import Json
from . import media_types
from .blocks import Bytes, Content, EmbeddedResource, ResourceLink, Text, base64, checked
from .display import can_show, show
from .media import Audio, File, Image

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
    "is_data",
    "to_content",
    "to_contents",
]

_BYTES = (bytes, bytearray, memoryview)


class WholeResult:
    """What is a result already, not something to make one from."""

    __slots__ = ()


class ExtensionResult(dict[str, Any], WholeResult):
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


def to_content(value: Any) -> list[Json]:
    """Return a value as content blocks of revision 2026-07-28 (schema, `ContentBlock`).

    A `str` is text, None is nothing, an image or a sound in bytes is an image or audio block, other bytes are
    an embedded blob. A list or tuple that holds any content (the classes of this module, bytes, objects that
    show themselves) becomes the blocks of its items. An object that shows itself (see `display`) is that
    image or text. Everything else is compact JSON in a text block, or plain text where that JSON is a string.

    Raises:
        OSError: A file cannot be read.
        TypeError: A value has no form in JSON.
        ValueError: A text holds a lone surrogate, data holds NaN or Infinity, or the media type of an image
            or a sound is unknown.
    """
    if type(value) is str:
        return [{"type": "text", "text": checked(value)}]
    return [item.block() for item in _items(value)]


def to_contents(value: Any, uri: str, mime_type: str | None) -> list[Json]:
    """Return a value as the contents of a resource (schema, `ReadResourceResult`).

    A `str` is text, bytes are a blob, an object that shows itself is that image or text, a list or tuple that
    holds any content (as for `to_content`) becomes several contents, everything else is JSON text.

    Args:
        value: What the resource's function returned.
        uri: The URI that was read; a `File` or `EmbeddedResource` with its own URI keeps that.
        mime_type: The media type that the resource declares, or None to find it out.

    Raises:
        OSError: A file cannot be read.
        TypeError: The value is None, a link or a `ToolResult`, or has no form in JSON.
        ValueError: As for `to_content`.
    """
    if type(value) is str:
        return [{"uri": uri, "mimeType": mime_type or media_types.PLAIN_TEXT, "text": checked(value)}]
    if value is None:
        raise TypeError(
            f"the resource {uri} returned None; return its contents or raise ResourceNotFoundError"
        )
    return [item.contents(uri, mime_type) for item in _items(value)]


def _items(value: Any) -> list[Content]:
    if value is None:
        return []
    if isinstance(value, Content):
        return [value]
    if isinstance(value, _BYTES):
        return [_Blob(bytes(cast("Bytes", value)))]
    parts = _parts(value)
    if parts is not None:
        return [item for part in parts for item in _items(part)]
    return [_rendered(value)]


def _rendered(value: Any) -> Content:
    shown = show(value) if can_show(type(value)) else None
    if shown is None:
        return _json(value)
    if isinstance(shown.data, bytes):
        return Image(data=shown.data, mime_type=shown.mime_type)
    return _Rendered(shown.data, shown.mime_type)


def _json(value: Any) -> _Rendered:
    try:
        encoded = to_json(value, bytes_mode="base64", inf_nan_mode="constants")
    except PydanticSerializationError as error:
        raise _no_json(value, error) from error
    # The words may also stand inside strings, so only a second look decides.
    if (b"NaN" in encoded or b"Infinity" in encoded) and encoded != to_json(
        value, bytes_mode="base64", inf_nan_mode="null"
    ):
        raise ValueError("NaN and Infinity have no form in JSON: return None or a string in their place")
    if encoded.startswith(b'"'):
        return _Rendered(from_json(encoded), media_types.PLAIN_TEXT)
    return _Rendered(encoded.decode(), media_types.JSON)


def _no_json(value: Any, error: PydanticSerializationError) -> Exception:
    message = str(error)
    if "surrogates not allowed" in message:
        return ValueError(
            'a string holds a lone surrogate, which UTF-8 cannot carry; decode with errors="replace"'
        )
    if inspect.isawaitable(value):
        return TypeError(
            f"a {type(value).__name__} was returned that nobody awaited; write `return await ...`"
        )
    return TypeError(
        f"cannot turn {type(value).__name__} into JSON: {message}. Return text, bytes, JSON data, models, "
        "or content classes by themselves or in a list"
    )


class _Rendered(Text):
    """Text of a known media type."""

    __slots__ = ("mime_type",)

    def __init__(self, text: str, mime_type: str) -> None:
        super().__init__(text)
        self.mime_type = mime_type

    def contents(self, uri: str, mime_type: str | None) -> Json:
        return super().contents(uri, mime_type or self.mime_type)


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


def is_data(value: object) -> bool:
    """Tell whether a value is an object or an array of data, and neither content nor shows itself."""
    kind = type(value)
    if can_show(kind) or isinstance(value, Content | ToolResult):
        return False
    if issubclass(kind, list | tuple):
        return _parts(value) is None
    is_object = hasattr(kind, "__pydantic_serializer__") or hasattr(kind, "__dataclass_fields__")
    return is_object or isinstance(value, Mapping | set | frozenset)


def _parts(value: object) -> Sequence[Any] | None:
    """Return the items of a list or tuple that holds any content, else None."""
    if not isinstance(value, list | tuple):
        return None
    items = cast("Sequence[Any]", value)
    holds_content = any(
        issubclass(kind, (Content, *_BYTES)) or can_show(kind) for kind in set(map(type, items))
    )
    return items if holds_content else None
