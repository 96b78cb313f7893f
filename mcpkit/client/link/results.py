"""The result of a tool call."""

from __future__ import annotations

import json
from typing import Any

from ...protocol.types import Json
from .answers import malformed
from .contents import tool_result


class CallResult:
    """The result of a tool call.

    Results of servers that deviate from the schema are read where that is possible in one way only: without `content`,
    with a text in its place, with blocks that have no type, and the like.

    Args:
        result: The result as it was received.
        may_be_null: Whether null is a value of `structuredContent`, as in 2026-07-28, and not the same as none.

    Attributes:
        type: The result's `resultType`: `complete`, also where the revision has no types, or another.
        data: All members of the result. If the type is that of an extension, the other attributes are empty.
        content: The content blocks.
        structured: The structured content, or None.
        is_error: Whether the tool failed.
        meta: The result's `_meta`.

    Raises:
        ProtocolError: A member cannot be read; the message names it.
    """

    __slots__ = ("content", "data", "is_error", "meta", "structured", "type")

    def __init__(self, result: Json, *, may_be_null: bool = True) -> None:
        kind: object = result.get("resultType")
        if not isinstance(kind, str | None):
            raise malformed("tools/call", "a string as resultType")
        self.type: str = kind or "complete"
        is_complete = self.type == "complete"
        self.data = tool_result(result, may_be_null=may_be_null) if is_complete else result
        self.content: list[Json] = self.data["content"] if is_complete else []
        self.structured: Any = self.data.get("structuredContent")
        self.is_error: bool = is_complete and bool(self.data.get("isError"))
        self.meta: Json = self.data.get("_meta") or {}

    @property
    def is_data_alone(self) -> bool:
        """Whether there is structured content, and no content beside it but empty texts."""
        return "structuredContent" in self.data and not any(
            block["type"] != "text" or block["text"].strip() for block in self.content
        )

    @property
    def text(self) -> str:
        """The text blocks, one after the other; of structured content without any content, its JSON."""
        if self.is_data_alone:
            return json.dumps(self.structured, ensure_ascii=False)
        return "\n".join(block["text"] for block in self.content if block["type"] == "text")

    @property
    def error_text(self) -> str:
        """What to say of a tool that failed: `text`, or else the JSON of its other content."""
        text = self.text
        if text.strip():
            return text
        if others := [block for block in self.content if block["type"] != "text"]:
            return json.dumps(others, ensure_ascii=False)
        return "the tool failed, and the server sent no error text"

    def __repr__(self) -> str:
        """Show the text."""
        return f"CallResult({self.text!r}, is_error={self.is_error})"
