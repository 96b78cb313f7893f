"""Results of handlers to content blocks of a tool or prompt, and to the contents of a resource."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

from .._utils.exceptions import OutputError
from ..protocol.jsonrpc import Json
from . import media_types
from .blocks import Blob, Bytes, Content, Text, TypedText, may_block
from .iterators_and_third_party_values import has_own_renderer, is_file, read_file, renderer
from .json_encoding import MAX_DEPTH, call_user_code, json_value, text_of, unrolled

_BYTES = (bytes, bytearray, memoryview)


def to_content(value: Any, place: str = "result") -> list[Json]:
    """Convert a value to content blocks of 2026-07-28 (schema, `ContentBlock`).

    A `str` becomes text, None no block, bytes of an image or sound an image or audio block, other bytes an embedded
    blob, and an open file its contents. A list, tuple or iterator with content in it (the classes of `blocks`, bytes,
    files, objects with a display method), at any depth, becomes the blocks of its items. An object with a renderer
    (see `iterators_and_third_party_values`) becomes what the renderer returns. Other values become compact JSON in a
    text block; a string of JSON is plain text.

    Args:
        value: The value.
        place: Name of the value in messages.

    Raises:
        OutputError: The value cannot be converted to JSON, or cannot be read. The message has its place.
        HandlerError: Code of the author raised an exception while the value was read.
    """
    if type(value) is str and value.isascii():
        return [{"type": "text", "text": value}]
    return [call_user_code(inner, item.block) for inner, item in _contents(value, place)]


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
    return [
        call_user_code(place, item.contents, uri, mime_type) for place, item in _contents(value, "result")
    ]


def holds_content(value: Any) -> bool:
    """Return whether a value is content and not data: itself, or at any depth in lists and tuples."""
    kind = cast("Any", type(value))
    if not isinstance(value, (list, tuple)) or has_own_renderer(kind):
        return _is_content(kind)
    left: list[Sequence[Any]] = [cast("Sequence[Any]", value)]
    seen: set[int] = set()
    while left:
        items = left.pop()
        # The items that are stored, even if the class overrides `__iter__`.
        cls: Any = list if isinstance(items, list) else type(items)
        kinds: set[Any] = set(map(type, cls.__iter__(items)))
        if any(map(_is_content, kinds)):
            return True
        if any(issubclass(kind, (list, tuple)) for kind in kinds) and id(items) not in seen:
            seen.add(id(items))
            left.extend(cast("Any", item) for item in items if isinstance(item, (list, tuple)))
    return False


def _is_content(kind: Any) -> bool:
    return issubclass(kind, (Content, *_BYTES)) or is_file(kind) or renderer(kind) is not None


def _contents(value: Any, place: str) -> Iterator[tuple[str, Content]]:
    """Yield the content that a value consists of, each with its place."""
    kind = cast("Any", type(value))
    if kind is str:
        yield place, Text(value)
    elif isinstance(value, Content):
        yield place, value
    elif isinstance(value, _BYTES):
        yield place, Blob(bytes(cast("Bytes", value)))
    elif isinstance(value, (list, tuple)) and not has_own_renderer(kind) and holds_content(value):
        if place.count("[") >= MAX_DEPTH:
            top = place.partition("[")[0]
            raise OutputError(
                f"{top} cannot be sent: it contains itself, or more than {MAX_DEPTH} levels of lists; "
                "return a flat list"
            )
        for index, item in enumerate(cast("Sequence[Any]", value)):
            yield from _contents(item, f"{place}[{index}]")
    elif value is None:
        return
    elif (content := _rendered(value, place)) is not None:
        yield from _contents(content, place)
    elif is_file(kind):
        data = call_user_code(place, read_file, value)
        yield place, Text(data) if isinstance(data, str) else Blob(data)
    elif isinstance(value, Iterator):
        yield from _contents(unrolled(value, place), place)
    else:
        data = json_value(value, place)
        mime_type = media_types.PLAIN_TEXT if type(data) is str else media_types.JSON
        yield place, TypedText(text_of(data), mime_type)


def _rendered(value: Any, place: str) -> Any:
    """Return the value after its renderer and those of further results; None without a renderer."""
    rendered: Any = None
    for _ in range(MAX_DEPTH):
        make = renderer(cast("Any", type(value)))
        if make is None:
            return rendered
        may_block()
        value = call_user_code(place, make, value)
        if value is None:
            return rendered
        rendered = value
    cls = type(value).__name__
    raise OutputError(
        f"{place} cannot be sent: the as_content function for {cls} returns objects that need an as_content function, "
        "again and again. Return content, such as Text or Image"
    )
