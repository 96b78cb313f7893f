"""What a call came to."""

from __future__ import annotations

from typing import Any

from ...protocol.types import Json
from .answers import objects


class CallResult:
    """What a tool answered.

    Attributes:
        type: The result's `resultType`: `complete`, also where the revision has no types, or another.
        data: All members of the result; of a type of an extension's, the others are empty.
        content: The content blocks.
        structured: The structured content, or None.
        is_error: Whether the tool could not do what it was asked.
        meta: The result's `_meta`.
    """

    __slots__ = ("content", "data", "is_error", "meta", "structured", "type")

    def __init__(self, result: Json) -> None:
        self.data = result
        self.type: str = result.get("resultType", "complete")
        self.content = objects(result, "content", "tools/call") if self.type == "complete" else []
        self.structured: Any = result.get("structuredContent")
        self.is_error: bool = result.get("isError", False)
        self.meta: Json = result.get("_meta", {})

    @property
    def text(self) -> str:
        """The text blocks, one after the other."""
        return "\n".join(str(block.get("text")) for block in self.content if block.get("type") == "text")

    def __repr__(self) -> str:
        """Show the text."""
        return f"CallResult({self.text!r}, is_error={self.is_error})"
