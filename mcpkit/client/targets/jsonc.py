"""JSON as editors allow it in their settings: with comments, and commas after the last."""

from __future__ import annotations

import json
import re
from typing import Final

_TEXT: Final = r'"(?:[^"\\\n]|\\.)*"'
_COMMENT: Final = re.compile(rf"({_TEXT})|//[^\n]*|/\*.*?\*/", re.DOTALL)
_LAST_COMMA: Final = re.compile(rf"({_TEXT}|[\[{{,]\s*,)|,(?=\s*[}}\]])")  # not one that follows no item


def loads(text: str) -> object:
    """Parse JSON with `//` and `/* */` comments and trailing commas.

    Raises:
        ValueError: The text is invalid; the message has line and column.
    """
    return json.loads(plain(text))


def plain(text: str) -> str:
    """Return JSON with spaces for what only editors allow, so that every place stays where it was."""
    return _LAST_COMMA.sub(_blank, without_comments(text))


def without_comments(text: str) -> str:
    """Return JSON with spaces for its comments, and all commas."""
    return _COMMENT.sub(_blank, text)


def _blank(found: re.Match[str]) -> str:
    """Return strings as they are, and spaces for all else, so that every place stays where it was."""
    return found[1] or re.sub(r"[^\n]", " ", found[0])
