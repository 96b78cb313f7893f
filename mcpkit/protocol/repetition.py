"""Long tool results with the same data as structured content and as text, which are encoded once."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from .jsonrpc import Pieces, encode

LONG = 64 * 1024
"""Characters of a text from which on encoding it twice takes longer than putting it in its places."""


class RepetitiveResult(dict[str, Any]):
    """A tool result with one block, the JSON of the structured content, or the structured content if it is a string.

    Args:
        data: Structured content.
        data_json: JSON of the structured content.
        text: Text of the block.
    """

    __slots__ = ("data_json",)

    def __init__(self, data: Any, data_json: bytes, text: str) -> None:
        super().__init__(content=[{"type": "text", "text": text}], structuredContent=data)
        self.data_json = data_json

    def rendered(self, render: Callable[[dict[str, Any]], bytes]) -> Pieces:
        """Return the result as JSON.

        Args:
            render: Renders a result in the request's protocol version; it is called with short texts in place of the
                long ones.

        Raises:
            ValueError: The text has a lone surrogate.
        """
        data = self["structuredContent"]
        text = self["content"][0]["text"]
        text_json = self.data_json if text is data else encode(text)
        mark = os.urandom(16).hex()  # so that it stands nowhere else
        text_mark, data_mark = f"text {mark}", f"data {mark}"
        stand_in = {data_mark: 0} if type(data) is dict else data_mark  # revisions know objects alone
        template = render({"content": [{"type": "text", "text": text_mark}], "structuredContent": stand_in})
        before, rest = template.split(encode(text_mark))
        between, _, after = rest.partition(encode(stand_in))
        if not after:  # older revisions have the text alone
            return Pieces((before, text_json, rest))
        return Pieces((before, text_json, between, self.data_json, after))
