"""Docstrings as fastmcp reads them: the text before the first section, and descriptions of parameters."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...schema import docstrings as docstring

_TITLE = re.compile(r"(\w[\w\s-]*):(?:\s+\S.*)?\s*")
_PARAMETERS = ("args", "arguments", "params", "parameters")
_UNDERLINED = re.compile(r"^.+\n-+ *$|^:(?:param|type|returns?|rtype|raises?)\b", re.MULTILINE)


def read(text: str | None) -> tuple[str | None, dict[str, str]]:
    """Return the description in a cleaned docstring, and the description of each parameter."""
    if not text:
        return None, {}
    lines, at, has_sections = text.splitlines(), 0, False
    said: list[str] = []
    told: dict[str, str] = {}
    is_fenced = False
    while at < len(lines):
        line, end = lines[at], at + 1
        is_fenced ^= line.lstrip().startswith("```")
        title = None if is_fenced else _TITLE.fullmatch(line)
        if title and lines[end : end + 1] and _is_inside(lines[end]) and not (at and lines[at - 1].strip()):
            while end < len(lines) and (_is_inside(lines[end]) or not lines[end].strip()):
                end += 1
            if title[1].lower() in _PARAMETERS:
                found = dict(_items(lines[at + 1 : end]))
                told.update(found)
                has_sections |= bool(found)
            else:
                has_sections = True
            said.append("\0")
        else:
            said.append(line)
        at = end
    if has_sections:
        before = ("\n".join(said)).split("\0")
        return next((each.strip("\n") for each in before if each.strip()), None), told
    known = docstring.read(text)
    header = _UNDERLINED.search(text)
    if header is None:
        return text, {}
    return text[: header.start()].strip() or None, known.arguments


def _is_inside(line: str) -> bool:
    return line.startswith(" ") and bool(line.strip())


def _items(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Yield name and description of each parameter in a section; deeper lines continue the previous one."""
    indent = len(lines[0]) - len(lines[0].lstrip())
    starts = [at for at, line in enumerate(lines) if line[: indent + 1].strip() and not line[:indent].strip()]
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        name, colon, rest = lines[start][indent:].partition(":")
        if colon:
            more = [
                line[2 * indent :] if not line[: 2 * indent].strip() else line.strip()
                for line in lines[start + 1 : end]
            ]
            name = name.split("(", 1)[0].strip() if name.endswith(")") else name
            yield name, "\n".join([rest.lstrip(), *more]).rstrip("\n")
