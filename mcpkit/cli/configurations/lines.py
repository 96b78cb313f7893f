"""Lines of a text: where they begin, and what they begin with."""

from __future__ import annotations

from collections.abc import Sequence


def newline_of(text: str) -> str:
    """Return what ends the lines of a text."""
    return "\r\n" if "\r\n" in text else "\n"


def line_of(text: str, at: int) -> int:
    """Return where the line begins that a place is in."""
    return text.rfind("\n", 0, at) + 1


def line_after(text: str, at: int) -> int:
    """Return where the line begins that follows, or the end of the text."""
    end = text.find("\n", at)
    return len(text) if end < 0 else end + 1


def indentation(text: str, at: int) -> str:
    """Return the spaces and tabs that the line of a place begins with."""
    line = text[line_of(text, at) :]
    return line[: len(line) - len(line.lstrip(" \t"))]


def is_first(text: str, at: int) -> bool:
    """Say whether nothing but spaces is before a place in its line."""
    return not text[line_of(text, at) : at].strip()


def without_remarks_after(lines: Sequence[str], start: int, end: int, *, column: int = 0) -> int:
    """Return where lines end that have something to say: empty lines and comments at their end are none of it.

    Args:
        lines: The lines of a text in which `#` begins a comment.
        start: The first line.
        end: The line after the last.
        column: Comments that begin in this column or after it belong to the lines before them.
    """
    while end > start + 1:
        line = lines[end - 1]
        stripped = line.strip()
        is_other = stripped.startswith("#") and (not column or len(line) - len(line.lstrip()) < column)
        if stripped and not is_other:
            break
        end -= 1
    return end
