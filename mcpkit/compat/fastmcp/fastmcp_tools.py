"""Tools of fastmcp and their results, with images, audio and files."""

from __future__ import annotations

import inspect
import mimetypes
import os
from base64 import b64encode
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import ClassVar
from urllib.parse import quote

from pydantic import AnyUrl, BaseModel, PydanticSchemaGenerationError, TypeAdapter
from pydantic import ValidationError as PydanticValidationError
from pydantic_core import PydanticSerializationError
from typing_extensions import Self

from ...execution.coroutines import within
from ...protocol.jsonrpc import Json
from ...protocol.objects import Incomplete
from .. import types
from ..shared_models_and_settings import (
    BLOCKS,
    is_kind,
    is_list,
    to_json_object,
    to_own,
    validate_and_warn_tool_name,
)
from .fastmcp_components import Component, Replacement, SchemaChange, ToolError, ValidationError
from .function_calls import WRAPS_RESULT, Function, is_open, result_schema

_NOT_SERIALIZABLE: Incomplete = object()
_ANY: TypeAdapter[Incomplete] = TypeAdapter(object)

# Images, audio and files


class Media(Replacement):
    """A file or bytes with a MIME type, which `format` or the file's suffix determines."""

    kind: ClassVar[str]
    mime_types: ClassVar[dict[str, str]]
    fallback: ClassVar[str]

    def __init__(
        self,
        path: str | Path | None = None,
        data: bytes | None = None,
        format: str | None = None,  # noqa: A002 - as servers pass it
        annotations: types.Annotations | None = None,
    ) -> None:
        if (path is None) == (data is None):
            problem = "Either path or data must" if data is None else "Only one of path or data can"
            raise ValueError(f"{problem} be provided")
        self.path = Path(os.path.expandvars(str(path))).expanduser() if path else None
        self.data, self._format, self.annotations = data, format, annotations
        if format:
            self._mime_type = self.mime_types.get(format.lower(), f"{self.kind}/{format.lower()}")
        else:
            self._mime_type = self.fallback if self.path is None else self._mime_type_of(self.path)

    def _mime_type_of(self, path: Path) -> str:
        return mimetypes.guess_type(path, strict=False)[0] or "application/octet-stream"

    def _bytes(self) -> bytes:
        return self.path.read_bytes() if self.path else self.data or b""

    def _members(self, mime_type: str | None, annotations: types.Annotations | None) -> Incomplete:
        """Return the members that image and audio content share."""
        return {
            "data": b64encode(self._bytes()).decode(),
            "mimeType": mime_type or self._mime_type,
            "annotations": annotations or self.annotations,
        }

    def to_content(self) -> Incomplete:
        """Return it as a content block; a file is read now."""
        raise NotImplementedError


class Image(Media):
    """An image."""

    kind, fallback = "image", "image/png"
    mime_types: ClassVar = {"jpg": "image/jpeg", "svg": "image/svg+xml", "tif": "image/tiff"}

    def to_image_content(
        self, mime_type: str | None = None, annotations: types.Annotations | None = None
    ) -> types.ImageContent:
        """Return it as a content block."""
        return types.ImageContent(type="image", **self._members(mime_type, annotations))

    to_content = to_image_content


class Audio(Media):
    """An audio clip."""

    kind, fallback = "audio", "audio/wav"
    mime_types: ClassVar = {
        **{each: f"audio/{each}" for each in ("wav", "ogg", "flac")},
        "mp3": "audio/mpeg",
        "m4a": "audio/mp4",
    }

    def _mime_type_of(self, path: Path) -> str:
        return self.mime_types.get(path.suffix.lower().lstrip("."), "application/octet-stream")

    def to_audio_content(
        self, mime_type: str | None = None, annotations: types.Annotations | None = None
    ) -> types.AudioContent:
        """Return it as a content block."""
        return types.AudioContent(type="audio", **self._members(mime_type, annotations))

    to_content = to_audio_content


class File(Media):
    """A file of any type."""

    kind, fallback = "application", "application/octet-stream"
    mime_types: ClassVar = {
        **dict.fromkeys(("plain", "txt", "text"), "text/plain"),
        **dict.fromkeys(("html", "htm"), "text/html"),
        **dict.fromkeys(("md", "markdown"), "text/markdown"),
        "csv": "text/csv",
    }

    def __init__(
        self,
        path: str | Path | None = None,
        data: bytes | None = None,
        format: str | None = None,  # noqa: A002
        name: str | None = None,
        annotations: types.Annotations | None = None,
    ) -> None:
        super().__init__(path, data, format, annotations)
        self._name = name

    def to_resource_content(
        self, mime_type: str | None = None, annotations: types.Annotations | None = None
    ) -> types.EmbeddedResource:
        """Return it as an embedded resource with text or bytes."""
        data, kind = self._bytes(), mime_type or self._mime_type
        if self.path:
            uri = self.path.resolve().as_uri()
        else:
            suffix = f".{self._format.lower() if self._format else self._mime_type.split('/')[1]}"
            name = self._name or "resource"
            uri = f"file:///{quote(name if self._name and Path(name).suffix else name + suffix)}"
        resource: types.TextResourceContents | types.BlobResourceContents
        if kind.startswith("text/"):
            try:
                text = data.decode()
            except UnicodeDecodeError:
                text = data.decode("latin-1")
            resource = types.TextResourceContents(uri=AnyUrl(uri), text=text, mimeType=kind)
        else:
            resource = types.BlobResourceContents(
                uri=AnyUrl(uri), blob=b64encode(data).decode(), mimeType=kind
            )
        own_annotations: Incomplete = to_own(annotations or self.annotations)
        return types.EmbeddedResource(type="resource", resource=resource, annotations=own_annotations)

    to_content = to_resource_content


# Tools and results


class ToolResult(Replacement):
    """A tool result with explicit content and structured content."""

    def __init__(
        self,
        content: Incomplete = None,
        structured_content: Incomplete = None,
        meta: Json | None = None,
        is_error: bool = False,
    ) -> None:
        if content is None and structured_content is None:
            raise ValueError("Either content or structured_content must be provided")
        self.content = content_of(structured_content if content is None else content)
        self.structured_content: Json | None = None
        if structured_content is not None:
            self.structured_content = _ANY.dump_python(structured_content, mode="json")
            if not isinstance(self.structured_content, dict):
                raise ValueError(f"structured_content must be a dict or None. Got {structured_content!r}")
        self.meta, self.is_error = meta, is_error

    def to_result(self) -> Json:
        """Return the result of `tools/call`."""
        result: Json = {"content": self.content, "isError": self.is_error}
        if self.structured_content is not None:
            result["structuredContent"] = self.structured_content
        return result if self.meta is None else {**result, "_meta": self.meta}


def _is_block(value: object) -> bool:
    return isinstance(value, Image | Audio | File) or (
        isinstance(value, BaseModel) and is_kind(type(value), *BLOCKS)
    )


def content_of(value: Incomplete) -> list[Json]:
    """Return content blocks. A list with a block is converted item by item; any other value becomes one text block."""
    if value is None:
        return []
    if any(map(_is_block, _items(value))):
        return [_block(each) for each in _items(value)]
    return [_block(value)] if value or not isinstance(value, list | tuple) else []


def _items(value: Incomplete) -> Incomplete:
    """Return the items of a list or a tuple; any other value as the only item."""
    return value if is_list(value) else [value]


def _block(value: Incomplete) -> Json:
    if isinstance(value, Image | Audio | File):
        value = value.to_content()
    if _is_block(value):
        return to_json_object(value)
    if isinstance(value, bytes):
        try:
            value = value.decode()
        except UnicodeDecodeError:
            value = b64encode(value).decode()
    text = value if isinstance(value, str) else _ANY.dump_json(value, fallback=str).decode()
    return {"type": "text", "text": text}


class Tool(Component):
    """A tool with a function."""

    kind = "tool"
    more = frozenset({"annotations", "output_schema", "timeout", "run_in_thread"})

    def __init__(self, fn: Callable[..., Incomplete], **options: Incomplete) -> None:
        self.fn = fn
        self.function = Function(fn, "tools")
        super().__init__(self.function.name, self.function.description, options)
        validate_and_warn_tool_name(self.name)
        self.parameters = self.function.schema()
        self.output_schema: Json | None = None
        if "output_schema" in options:
            schema: Json | None = options["output_schema"]
            if schema and not ({"type": "object"}.items() <= schema.items() or "properties" in schema):
                raise ValueError(f"Output schemas must represent object types. Received: {schema!r}")
            self.output_schema = schema or None
        elif self.function.result is not inspect.Signature.empty:
            self.output_schema = result_schema(self.function.result)
        self.timeout: float | None = options.get("timeout")
        self.run_in_thread: bool = options.get("run_in_thread") is not False

    @classmethod
    def from_function(cls, fn: Callable[..., Incomplete], **options: Incomplete) -> Self:
        """Create a tool from a function."""
        return cls(fn, **options)

    def listed(self, change: SchemaChange | None = None) -> Json:
        """Return the list entry, with changed schemas."""
        words = self.name.replace("_", " ").replace("-", " ").title()
        title = self.title or (self.annotations or {}).get("title") or words
        schemas = {"inputSchema": self.parameters, "outputSchema": self.output_schema}
        changed = {
            name: each if each is None or change is None else change(each) for name, each in schemas.items()
        }
        return super().entry(title=title, **changed)

    async def run(self, arguments: Json, *, strict: bool = False) -> ToolResult:
        """Call the tool. Raises ValidationError for invalid arguments, and any exception of the function."""
        try:
            valid = self.function.validated(arguments, strict=strict or None)
        except PydanticValidationError as error:
            raise ValidationError(str(error)) from error
        running = self.function.call(valid, in_thread=self.run_in_thread)
        if self.timeout is None:
            return self.convert_result(await running)
        try:
            value = await within(self.timeout, running)
        except TimeoutError:
            text = f"Tool '{self.name}' execution timed out after {self.timeout}s"
            raise RuntimeError(text) from None
        return self.convert_result(value)

    @cached_property
    def _adapter(self) -> TypeAdapter[Incomplete]:
        returns = self.function.result
        if returns is inspect.Signature.empty or is_open(returns) or isinstance(returns, str):
            return _ANY
        try:
            return TypeAdapter(returns)
        except PydanticSchemaGenerationError:
            return _ANY

    def convert_result(self, raw_value: Incomplete) -> ToolResult:
        """Return the tool result for a return value of the function."""
        value = raw_value
        if isinstance(value, ToolResult):
            return value
        if isinstance(value, BaseModel) and is_kind(type(value), "CallToolResult"):
            members = to_json_object(value)
            result = ToolResult(
                "", members.get("structuredContent"), members.get("_meta"), members.get("isError", False)
            )
            result.content = members["content"]
            return result
        has_blocks = any(map(_is_block, _items(value)))
        schema, result = self.output_schema, ToolResult("")
        structured = _NOT_SERIALIZABLE
        if schema is not None or not (has_blocks or isinstance(value, bytes)):
            structured = self._structured(value)
        result.content = content_of(value if has_blocks or structured is _NOT_SERIALIZABLE else structured)
        if schema is not None and schema.get(WRAPS_RESULT):
            result.structured_content = {"result": structured}
            result.meta = {"fastmcp": {"wrap_result": True}}
        elif schema is not None or isinstance(structured, dict):
            result.structured_content = structured
        return result

    def _structured(self, value: Incomplete) -> Incomplete:
        try:
            return self._adapter.dump_python(value, mode="json")
        except (PydanticSerializationError, UnicodeDecodeError) as error:
            if self.output_schema is None:
                return _NOT_SERIALIZABLE
            raise ToolError(
                f"Could not serialize the return value of tool {self.name!r} for its output schema: {error}. If "
                "this is unexpected, set the tool's output_schema to None to disable automatic serialization."
            ) from error
