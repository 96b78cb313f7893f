"""The sections of a docstring: those about arguments are taken out, those about the result are alike in all styles.

Google, NumPy and reST style. The sections about arguments are found here; docstring-parser reads them, and is
imported only when there is one.
"""

from __future__ import annotations

import inspect
import re

_GOOGLE = re.compile(
    r"(?:Args|Arguments|Parameters|Params|Keyword Args|Keyword Arguments|Other Parameters):\s*"
)
_NUMPY = re.compile(r"(?:Parameters|Params|Arguments|Args|Other Parameters|Other Params)\s*")
_UNDERLINE = re.compile(r"-{3,}\s*")
_REST = re.compile(r":(?:param|parameter|arg|argument|key|keyword|type)\s[^:]*:")
_RESULT = r"(?P<title>Returns|Return|Yields|Yield)"
_GOOGLE_RESULT = re.compile(_RESULT + r":\s*(?P<text>.*)")
_NUMPY_RESULT = re.compile(_RESULT + r"\s*")
_REST_RESULT = re.compile(r":(?P<title>returns|return|yields|yield)(?:\s[^:]*)?:\s*(?P<text>.*)")
_REST_TYPE = re.compile(r":rtype:")
# What stands before a colon and is a type, not the beginning of a sentence: `int`, `list[str]`, `np.ndarray`.
_TYPE = re.compile(
    r"(?:(?:int|str|float|bool|bytes|list|dict|tuple|set|None|Any|object)\b|[A-Za-z_]\w*[.\[]|[A-Z]\w*[a-z][A-Z]\w*)"
    r"[\w.\[\], |]*"
)


def without_sections(text: str) -> tuple[str, dict[str, str]]:
    """Take the sections about arguments out of a docstring.

    Args:
        text: The docstring, cleaned.

    Returns:
        What is left of it, and the text of each argument that has one.
    """
    lines = text.splitlines()
    arguments: dict[str, str] = {}
    kept: list[str] = []
    at = 0
    while at < len(lines):
        result = _result(lines, at)
        if result is not None:
            told, at = result
            kept += told
            continue
        style, end = _section(lines, at)
        if style is None:
            kept.append(lines[at])
            at += 1
            continue
        found = _parse(style, lines[at:end])
        arguments.update(found)
        if not found and style != "rest":
            kept += lines[at:end]
        at = end
    return re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip(), arguments


def _section(lines: list[str], at: int) -> tuple[str | None, int]:
    """Return the style of the section of arguments that starts at a line, None for other lines, and its end."""
    line = lines[at]
    if _REST.match(line):
        return "rest", _indented_end(lines, at)
    if _is_underlined(lines, at) and _NUMPY.fullmatch(line):
        return "numpydoc", _underlined_end(lines, at)
    if _GOOGLE.fullmatch(line):
        end = _indented_end(lines, at)
        if any(lines[at + 1 : end]):
            return "google", end
    return None, at


def _result(lines: list[str], at: int) -> tuple[list[str], int] | None:
    """Return what a section that starts at a line says of the result, alike in all styles, and where it ends."""
    line = lines[at]
    if _is_underlined(lines, at) and (found := _NUMPY_RESULT.fullmatch(line)):
        end = _underlined_end(lines, at)
        return _titled(found["title"], _numpy_text(lines[at + 2 : end])), end
    if _REST_TYPE.match(line):
        return [], _indented_end(lines, at)
    google = _GOOGLE_RESULT.fullmatch(line)
    if found := google or _REST_RESULT.match(line):
        end = _indented_end(lines, at)
        text = inspect.cleandoc("\n".join([found["text"], *lines[at + 1 : end]]))
        kind, colon, rest = text.partition(":")
        is_typed = google is not None and bool(colon) and _TYPE.fullmatch(kind) is not None
        return _titled(found["title"].capitalize(), rest if is_typed else text), end
    return None


def _titled(title: str, text: str) -> list[str]:
    title = title if title.endswith("s") else f"{title}s"
    return [f"{title}: {text.strip()}", ""] if text.strip() else []


def _numpy_text(section: list[str]) -> str:
    """Return what a numpydoc section says of each value: types and names have lines of their own there."""
    told: list[str] = []
    at = 0
    while at < len(section):
        end = _indented_end(section, at)
        text = inspect.cleandoc("\n".join(["", *section[at + 1 : end]])).strip()
        name, colon, _ = section[at].partition(" : ")
        if not text:
            told.append(section[at].strip())
        else:
            told.append(f"{name}: {text}" if colon else text)
        at = end
    return "\n".join(filter(None, told))


def _is_underlined(lines: list[str], at: int) -> bool:
    return at + 1 < len(lines) and _UNDERLINE.fullmatch(lines[at + 1]) is not None


def _underlined_end(lines: list[str], at: int) -> int:
    end = at + 2
    while end < len(lines) and not _is_underlined(lines, end):
        end += 1
    return end


def _indented_end(lines: list[str], at: int) -> int:
    end = at + 1
    while end < len(lines) and (not lines[end] or lines[end][0].isspace()):
        end += 1
    return end


def _parse(style: str, section: list[str]) -> dict[str, str]:
    from docstring_parser import ParseError, google, numpydoc, rest

    # The parsers know one name of each section that all of them share.
    parse, title = {
        "google": (google.parse, "Args:"),
        "numpydoc": (numpydoc.parse, "Parameters"),
        "rest": (rest.parse, section[0]),
    }[style]
    try:
        # With a summary before it: the Google parser takes a section at the very start for one.
        parsed = parse("\n".join(["-", "", title, *section[1:]]))
    except ParseError:
        # A docstring is written for people first: what cannot be read as arguments describes none.
        return {}
    return {
        name.strip().lstrip("*"): param.description.strip()
        for param in parsed.params
        if param.description
        for name in param.arg_name.split(",")
    }
