"""Changes to the text of JSON with comments, which leave all else as it is written."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final, NamedTuple

from ...client.targets import jsonc
from ...protocol.jsonrpc import Json
from .lines import indentation, is_first, line_after, line_of, newline_of

_BLANK: Final = " \t\r\n"
_DECODER: Final = json.JSONDecoder()


def read(text: str) -> object:
    """Read it; a text without a value is an empty object.

    Raises:
        ValueError: It is no JSON; the message says in which line and column.
    """
    return jsonc.loads(text) if jsonc.without_comments(text).strip() else {}


def with_entry(text: str, keys: Sequence[str], name: str, entry: Json) -> str:
    """Return the text with an entry in one of its objects, in the place of one of that name if there is one.

    Args:
        text: JSON that can be read.
        keys: The keys that lead to the object, from the outermost; objects that are missing are made.
        name: The name of the entry.
        entry: The entry.
    """
    if not jsonc.without_comments(text).strip():
        text += "{}" + newline_of(text)
    changed = _Text(text)
    brace, missing = changed.object_at(keys)
    if missing:
        key, value = missing[0], {name: entry}
        for each in reversed(missing[1:]):
            value = {each: value}
        return changed.inserted(brace, key, value)
    known = [member for member in changed.members(brace)[0] if member.key == name]
    return changed.replaced(known[-1], entry) if known else changed.inserted(brace, name, entry)


def without_entry(text: str, keys: Sequence[str], name: str) -> str:
    """Return the text without an entry that it has; comments beside it stay."""
    changed = _Text(text)
    brace, _ = changed.object_at(keys)
    return changed.removed(brace, name)


class _Member(NamedTuple):
    """A member of an object: where its key begins, where its value begins, and where that ends."""

    key: str
    start: int
    value: int
    end: int


class _Text:
    """A text of JSON with comments, and the places of what is in it.

    Args:
        text: The text.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._bare = jsonc.without_comments(text)
        self._plain = jsonc.plain(text)
        self._newline = newline_of(text)
        root = self._skipped(0)
        members, _ = self.members(root)
        first = next((each.start for each in members if is_first(text, each.start)), None)
        self._unit = "  " if first is None else indentation(text, first)
        self._is_spread = not members or first is not None

    def object_at(self, keys: Sequence[str]) -> tuple[int, Sequence[str]]:
        """Return where the innermost object begins that keys lead to, and the keys that it lacks."""
        brace = self._skipped(0)
        for index, key in enumerate(keys):
            found = [member for member in self.members(brace)[0] if member.key == key]
            if not found:
                return brace, keys[index:]
            brace = found[-1].value
        return brace, ()

    def members(self, brace: int) -> tuple[list[_Member], int]:
        """Return the members of the object that begins somewhere, and where it ends."""
        members: list[_Member] = []
        at = self._skipped(brace + 1)
        while self._plain[at] != "}":
            key, end = _DECODER.raw_decode(self._plain, at)
            value = self._skipped(self._skipped(end) + 1)
            _, end = _DECODER.raw_decode(self._plain, value)
            members.append(_Member(str(key), at, value, end))
            at = self._skipped(end)
            if self._plain[at] == ",":
                at = self._skipped(at + 1)
        return members, at

    def inserted(self, brace: int, key: str, value: object) -> str:
        """Return the text with one more member, the last of its object."""
        members, close = self.members(brace)
        text = self._text
        if not members:
            return self._first(brace, close, key, value)
        last = members[-1]
        comma = self._bare.find(",", last.end, close)
        ends, has_line = self._after_remarks(last.end if comma < 0 else comma + 1, close)
        indent: str | None
        if is_first(text, last.start):
            indent = indentation(text, last.start)
        else:
            indent = indentation(text, brace) + self._unit if has_line else None
        member = self._member(key, value, indent) + ("" if comma < 0 else ",")
        before = text[: last.end] + ("," if comma < 0 else "") + text[last.end : ends]
        return before + (" " if indent is None else self._newline + indent) + member + text[ends:]

    def _first(self, brace: int, close: int, key: str, value: object) -> str:
        """Return the text with the first member of an object that may have comments in it."""
        text = self._text
        ends, has_line = self._after_remarks(brace + 1, close)
        rest = text[ends:close]
        if not self._is_spread and not has_line:
            space = " " if ends > brace + 1 else ""
            return text[:ends] + space + self._member(key, value, None) + rest.strip(" ") + text[close:]
        outer = indentation(text, brace)
        member = self._newline + outer + self._unit + self._member(key, value, outer + self._unit)
        if "\n" not in rest:
            rest = rest.rstrip() + self._newline + outer
        return text[:ends] + member + rest + text[close:]

    def replaced(self, member: _Member, value: object) -> str:
        """Return the text with another value of a member."""
        text = self._text
        indent = indentation(text, member.start) if is_first(text, member.start) else None
        return text[: member.value] + self._value(value, indent) + text[member.end :]

    def removed(self, brace: int, name: str) -> str:
        """Return the text without a member, and with one comma less where there is one beside it."""
        members, close = self.members(brace)
        index = max(place for place, member in enumerate(members) if member.key == name)
        start, end = members[index].start, members[index].end
        next_start = members[index + 1].start if index + 1 < len(members) else close
        comma = self._bare.find(",", end, next_start)
        if comma < 0 and index > 0:
            before = self._bare.find(",", members[index - 1].end, start)
            head, gap = self._text[:before], self._text[before + 1 : start]
        else:
            head, gap = self._text[:start], ""
        tail = self._text[end:] if comma < 0 else self._text[end:comma] + self._text[comma + 1 :]
        rest, _, following = tail.partition("\n")
        is_alone = is_first(self._text, start) and not rest.strip() and "\n" in tail
        if is_alone:  # its lines go with it
            kept = head + gap
            text = kept[: line_of(kept, len(kept))] + following
        elif comma < 0:
            text = (head + gap).rstrip(" \t") + tail
        else:
            text = head + gap + tail.lstrip(" \t")
        if len(members) > 1:
            return text
        close = _Text(text).members(brace)[1]
        return text[: brace + 1] + text[close:] if not text[brace + 1 : close].strip() else text

    def _member(self, key: str, value: object, indent: str | None) -> str:
        return f"{json.dumps(key, ensure_ascii=False)}: {self._value(value, indent)}"

    def _value(self, value: object, indent: str | None) -> str:
        """Return JSON: in one line where there is no indentation, else over lines."""
        if indent is None:
            return json.dumps(value, ensure_ascii=False)
        lines = json.dumps(value, ensure_ascii=False, indent=self._unit).split("\n")
        return (self._newline + indent).join(lines)

    def _after_remarks(self, at: int, close: int) -> tuple[int, bool]:
        """Return where comments end that begin in the same line; and whether the last goes to the end of its line."""
        ends = at
        while at < close and self._text[at] not in "\r\n":
            if self._text.startswith("//", at):
                after = line_after(self._text, at)
                return len(self._text[:after].rstrip("\r\n")), True
            if self._text.startswith("/*", at):
                at = ends = self._text.index("*/", at + 2) + 2
            elif self._text[at] in " \t":
                at += 1
            else:
                break
        return ends, False

    def _skipped(self, at: int) -> int:
        while at < len(self._plain) and self._plain[at] in _BLANK:
            at += 1
        return at
