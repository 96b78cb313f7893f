"""The result of a tool call."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ...protocol.jsonrpc import Json, is_object
from .answers import malformed
from .contents import tool_result

if TYPE_CHECKING:
    from ...protocol.objects import ContentBlock


class CallResult:
    """The result of a tool call.

    Results that deviate from the schema are accepted if they can be read in one way only, for example without
    `content`, with a string in its place, or with blocks that have no type.

    Args:
        result: The result, as the server sent it.
        may_be_null: Whether null is a value of `structuredContent`, as in 2026-07-28. Otherwise it means that there is
            none.

    Attributes:
        type: The `resultType`: `complete`, or another type. It is `complete` in versions without result types.
        raw: All members of the result. If the type is that of an extension, the other attributes are empty.
        content: The content blocks.
        structured_content: The structured content, or None.
        is_error: Whether the tool failed.
        meta: The result's `_meta`.

    Raises:
        ProtocolError: A member cannot be read; the message names it.
    """

    __slots__ = ("content", "is_error", "meta", "raw", "structured_content", "type")

    def __init__(self, result: Json, *, may_be_null: bool = True) -> None:
        kind: object = result.get("resultType")
        if not isinstance(kind, str | None):
            raise malformed("tools/call", "a string as resultType")
        self.type: str = kind or "complete"
        is_complete = self.type == "complete"
        self.raw = tool_result(result, may_be_null=may_be_null) if is_complete else result
        self.content: list[ContentBlock] = self.raw["content"] if is_complete else []
        self.structured_content: Any = self.raw.get("structuredContent")
        self.is_error: bool = is_complete and bool(self.raw.get("isError"))
        self.meta: Json = self.raw.get("_meta") or {}

    @property
    def data(self) -> Any:
        """The value that the tool returned: the structured content, or the value of its only member `result`.

        Servers wrap values that are not objects in `{"result": ...}`, as versions before 2026-07-28 require objects.
        """
        structured: object = self.structured_content
        if is_object(structured) and structured.keys() == {"result"}:
            return structured["result"]
        return structured

    @property
    def is_structured_only(self) -> bool:
        """True if the result has structured content, and no other content except empty text blocks."""
        return "structuredContent" in self.raw and not any(
            block["type"] != "text" or block["text"].strip() for block in self.content
        )

    @property
    def text(self) -> str:
        """The text blocks joined by newlines, or the JSON of the structured content if `is_structured_only`."""
        if self.is_structured_only:
            return json.dumps(self.structured_content, ensure_ascii=False)
        return "\n".join(block["text"] for block in self.content if block["type"] == "text")

    @property
    def error_text(self) -> str:
        """The error message of a failed tool: `text`, or else the JSON of the other content."""
        text = self.text
        if text.strip():
            return text
        if others := [block for block in self.content if block["type"] != "text"]:
            return json.dumps(others, ensure_ascii=False)
        return "the tool failed, and the server sent no error text"

    def __repr__(self) -> str:
        """Return a representation with the text."""
        return f"CallResult({self.text!r}, is_error={self.is_error})"
