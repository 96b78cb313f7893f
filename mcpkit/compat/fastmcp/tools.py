"""Tools and their results."""

from __future__ import annotations

import inspect
from base64 import b64encode
from collections.abc import Callable, Coroutine
from functools import cached_property

from pydantic import BaseModel, PydanticSchemaGenerationError, TypeAdapter
from pydantic import ValidationError as PydanticValidationError
from pydantic_core import PydanticSerializationError
from typing_extensions import Self

from ...execution.coroutines import within
from ...protocol.jsonrpc import Json
from ...protocol.objects import Incomplete
from ..mcp_shared import validate_and_warn_tool_name
from ..sdk_models import BLOCKS, is_kind, to_json_object
from .components import Change, Component
from .exceptions import ToolError, ValidationError
from .functions import Function
from .media import Audio, File, Image
from .refusing import Refuses
from .schemas import WRAPS, is_open, of_result

_NOTHING: Incomplete = object()
_ANY: TypeAdapter[Incomplete] = TypeAdapter(object)


class ToolResult(Refuses):
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

    def answer(self) -> Json:
        """Return the result of `tools/call`."""
        said: Json = {"content": self.content, "isError": self.is_error}
        if self.structured_content is not None:
            said["structuredContent"] = self.structured_content
        return said if self.meta is None else {**said, "_meta": self.meta}


def _is_block(value: object) -> bool:
    return isinstance(value, Image | Audio | File) or (
        isinstance(value, BaseModel) and is_kind(type(value), *BLOCKS)
    )


def content_of(value: Incomplete) -> list[Json]:
    """Return content blocks. A list with a block is converted item by item; any other value becomes one text block."""
    if value is None:
        return []
    if any(map(_is_block, _each(value))):
        return [_block(each) for each in _each(value)]
    return [_block(value)] if value or not isinstance(value, list | tuple) else []


def _each(value: Incomplete) -> Incomplete:
    """Return the items of a list or a tuple; any other value as the only item."""
    return value if _is_several(value) else [value]


def _is_several(value: object) -> bool:
    return isinstance(value, list | tuple)


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

    def __init__(self, fn: Callable[..., Incomplete], **said: Incomplete) -> None:
        self.fn = fn
        self.function = Function(fn, "tools")
        super().__init__(self.function.name, self.function.description, said)
        validate_and_warn_tool_name(self.name)
        self.parameters = self.function.schema()
        returns = self.function.result
        given = said.get("output_schema", ...)
        self.output_schema: Json | None = (
            given or None
            if given is not ...
            else None
            if returns is inspect.Signature.empty
            else of_result(returns)
        )
        if (
            given
            and given is not ...
            and not ({"type": "object"}.items() <= given.items() or "properties" in given)
        ):
            raise ValueError(f"Output schemas must represent object types. Received: {given!r}")
        self.timeout: float | None = said.get("timeout")
        self.run_in_thread: bool = said.get("run_in_thread") is not False

    @classmethod
    def from_function(cls, fn: Callable[..., Incomplete], **said: Incomplete) -> Self:
        """Create a tool from a function."""
        return cls(fn, **said)

    def listed(self, change: Change | None = None) -> Json:
        """Return the list entry, with changed schemas."""
        words = self.name.replace("_", " ").replace("-", " ").title()
        title = self.title or (self.annotations or {}).get("title") or words
        schemas = {"inputSchema": self.parameters, "outputSchema": self.output_schema}
        changed = {
            name: each if each is None or change is None else change(each) for name, each in schemas.items()
        }
        return super().said(title=title, **changed)

    async def run(self, arguments: Json, *, strict: bool = False) -> ToolResult:
        """Call the tool. Raises ValidationError for invalid arguments, and any exception of the function."""
        try:
            given = self.function.validated(arguments, strict=strict or None)
        except PydanticValidationError as error:
            raise ValidationError(str(error)) from error
        calling = self.function.call(given, in_thread=self.run_in_thread)
        return self.convert_result(
            await (calling if self.timeout is None else self._in_time(self.timeout, calling))
        )

    async def _in_time(
        self, seconds: float, calling: Coroutine[Incomplete, Incomplete, Incomplete]
    ) -> Incomplete:
        try:
            return await within(seconds, calling)
        except TimeoutError:
            raise RuntimeError(f"Tool '{self.name}' execution timed out after {seconds}s") from None

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
            said = to_json_object(value)
            result = ToolResult(
                "", said.get("structuredContent"), said.get("_meta"), said.get("isError", False)
            )
            result.content = said["content"]
            return result
        has_blocks = any(map(_is_block, _each(value)))
        schema, found = self.output_schema, ToolResult("")
        structured = _NOTHING
        if schema is not None or not (has_blocks or isinstance(value, bytes)):
            structured = self._structured(value)
        found.content = content_of(value if has_blocks or structured is _NOTHING else structured)
        if schema is not None and schema.get(WRAPS):
            found.structured_content, found.meta = {"result": structured}, {"fastmcp": {"wrap_result": True}}
        elif schema is not None or isinstance(structured, dict):
            found.structured_content = structured
        return found

    def _structured(self, value: Incomplete) -> Incomplete:
        try:
            return self._adapter.dump_python(value, mode="json")
        except (PydanticSerializationError, UnicodeDecodeError) as error:
            if self.output_schema is None:
                return _NOTHING
            raise ToolError(
                f"Could not serialize the return value of tool {self.name!r} for its output schema: {error}. If "
                "this is unexpected, set the tool's output_schema to None to disable automatic serialization."
            ) from error
