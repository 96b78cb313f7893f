"""Docstrings: the description, and a text for each argument.

Google, NumPy and reST style, and lists in Markdown. A section of known arguments is read by docstring-parser, which is
imported only when there is a section; any other, such as a list in Markdown, is read here. A line that is not the text
of a known argument stays in the description, because it would reach no client otherwise. Sections about results look
alike in all styles.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

# The argument that each documented name stands for; None as a value for a name that clients do not see, such as that
# of the Context. None in the place of the mapping: every name is an argument.
Names = Mapping[str, str | None] | None


# One of them is in each docstring with a section about arguments or the result, and in few others.
_HINTS = ("Arg", "Param", "Keyword", "Return", "Yield", ":arg", ":key", ":param", ":return", ":rtype", ":type",
          ":yield")  # fmt: skip


class Documentation(NamedTuple):
    """A docstring, taken apart.

    Args:
        description: Everything but the texts of arguments, with sections about the result alike in all styles;
            None when nothing is left.
        arguments: The text of each argument that has one.
    """

    description: str | None
    arguments: dict[str, str]


def read(docstring: str | None, names: Mapping[str, str | None] | None = None) -> Documentation:
    """Take a docstring apart.

    Args:
        docstring: The `__doc__` of a function.
        names: The argument that each documented name stands for; None as a value for a name that clients do not see.
            What is under any other name stays in the description. Without it, every name is an argument.

    Returns:
        Its parts.
    """
    if not docstring:
        return Documentation(None, {})
    text = inspect.cleandoc(docstring)
    if not any(hint in text for hint in _HINTS):
        return Documentation(text or None, {})
    description, arguments = _without_sections(text, names)
    return Documentation(description or None, arguments)


# --- Sections

_GOOGLE = re.compile(
    r"(?:Args|Arguments|Parameters|Params|Keyword Args|Keyword Arguments|Other Parameters):\s*"
)
_NUMPY = re.compile(r"(?:Parameters|Params|Arguments|Args|Other Parameters|Other Params)\s*")
_UNDERLINE = re.compile(r"-{3,}\s*")
_REST = re.compile(r":(?P<field>param|parameter|arg|argument|key|keyword|type)\s(?P<names>[^:]*):")
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


_QUOTES = r"`*\"'\u201c\u201d\u2018\u2019<>\[\]"
_NAME = rf"[{_QUOTES}]*([^\s{_QUOTES}(){{}}:,;=/\u2013\u2014]+)[{_QUOTES}]*"
_NAMES = rf"(?P<names>{_NAME}(?:(?:\s*,\s*|\s+(?:and|or)\s+|\s*/\s*){_NAME})*)"
_BULLET = r"(?:[-*+\u2022]\s+|\(?\d{1,3}[.)]\s+)?"
_TITLE = re.compile(rf"{_BULLET}{_NAMES}(?P<kind>)")
# The beginning of an entry: a list mark, one or more names in any decoration, a type in brackets, a colon or dash.
_HEAD = re.compile(
    rf"{_BULLET}{_NAMES}\s*(?:(?P<kind>\((?:[^()]|\([^()]*\))*\)|\[[^\]]*\])\s*)?(?:,\s*)?"
    r"(?::|--?>?(?=\s|$)|\u2013|\u2014|=>?)"
)
_MARKS = re.compile(r"[`*\"'\u201c\u2018<_]+")
_LONGEST_NAMES = 1000
_LONGEST_TYPE = 200
_KIND = re.compile(
    r"\S*|defaults?(?: to)?[:=]?\s*\S+|(?:list|dict|set|tuple|one|array)s? of \S+|\S+(?: or \S+)+"
)


def _without_sections(text: str, names: Names) -> tuple[str, dict[str, str]]:
    """Take the texts of arguments out of a docstring.

    Args:
        text: The docstring, cleaned.
        names: The names that may be documented.

    Returns:
        The rest of it, and the text of each argument that has one.
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
        found, rest = _read_section(style, lines[at:end], names)
        for name, said in found:
            arguments[name] = f"{arguments[name]}\n{said}" if name in arguments else said
        kept += rest
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
    """Return the text of a result section that starts at a line, in any style, and its end."""
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
    """Return the texts of values in a numpydoc section, which has types and names on lines of their own."""
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


def _read_section(style: str, section: list[str], names: Names) -> tuple[list[tuple[str, str]], list[str]]:
    """Return the texts of arguments in a section, and the lines that are not about known arguments."""
    if (parsed := _parsed(style, section, names)) is not None:
        return parsed, []
    if style == "rest":
        field = _read_field(section, names)
        return ([], section) if field is None else (field, [])
    title = 2 if style == "numpydoc" else 1
    found: list[tuple[str, str]] = []
    rest: list[str] = []
    for entry in _entries(section[title:], is_numpy=style == "numpydoc"):
        texts = _read_entry(entry, names, is_numpy=style == "numpydoc")
        found += texts or []
        if texts is None:
            rest += entry
        elif not texts:  # a name that clients do not see: a line that is not below it may be about anything
            depth = len(entry[0]) - len(entry[0].lstrip())
            rest += [line for line in entry[1:] if line[depth : depth + 1].strip()]
    return found, [*section[:title], *rest, ""] if any(rest) else []


def _parsed(style: str, section: list[str], names: Names) -> list[tuple[str, str]] | None:
    """Return the texts of arguments as docstring-parser reads them; None where it does not account for every line."""
    from docstring_parser import ParseError, google, numpydoc, rest

    # The parsers know one name of each section that all of them share.
    parse, title, body, head = {
        "google": (google.parse, ["Args:"], section[1:], r"[^:]*:"),
        "numpydoc": (numpydoc.parse, ["Parameters", "----------"], section[2:], r".*"),
        "rest": (rest.parse, [], section, r":[^:]*:"),
    }[style]
    try:
        # With a summary before it: the Google parser takes a section at the very start for one.
        params = parse("\n".join(["-", "", *title, *body])).params
    except ParseError:
        return None
    depth = min((len(line) - len(line.lstrip()) for line in body if line.strip()), default=0)
    matches = [re.match(head, line) if line[: depth + 1].strip() else None for line in body]
    heads = [match[0] for match in matches if match]
    texts = [line[match.end() if match else 0 :] for match, line in zip(matches, body, strict=True)]
    if len(heads) != len(params) or _letters(texts) != _letters(each.description or "" for each in params):
        return None
    found: list[tuple[str, str]] = []
    for each, param in zip(heads, params, strict=True):
        kind = param.type_name or "" if style == "rest" else each.strip()[len(param.arg_name) :].strip(" :()")
        written = [name.strip().lstrip("*") for name in param.arg_name.split(",")]
        is_known = all(name.isidentifier() if names is None else name in names for name in written)
        if not param.description or not is_known or not _is_type(kind) or kind.endswith(","):
            return None
        arguments = written if names is None else filter(None, map(names.get, written))
        found += [(name, param.description.strip()) for name in arguments]
    return found


def _letters(texts: Iterable[str]) -> str:
    return "".join("".join(texts).split())


def _entries(lines: list[str], *, is_numpy: bool) -> Iterator[list[str]]:
    """Yield the entries of a section: each begins at its least indentation."""
    depth = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    entry: list[str] = []
    for at, line in enumerate(lines):
        begins = bool(line[depth : depth + 1].strip())
        if begins and not is_numpy and entry and entry[-1].strip():
            # A text may go on without indentation; a name without a colon has its text below it.
            is_title = any(line[depth : depth + 1].isspace() for line in lines[at + 1 : at + 2])
            begins = is_title or _HEAD.match(line.strip()) is not None
        if begins and entry:
            yield entry
            entry = []
        entry.append(line)
    if entry:
        yield entry


def _read_entry(entry: list[str], names: Names, *, is_numpy: bool) -> list[tuple[str, str]] | None:
    """Return the text of each argument that an entry names; None where it names anything else."""
    line = entry[0].strip()
    body = inspect.cleandoc("\n".join(["", *entry[1:]]))
    head = _HEAD.match(line) or (_TITLE.fullmatch(line) if body else None)
    arguments = None if head is None else _known(head["names"], names)
    if head is None or arguments is None:
        return None
    first = line[head.end() :].strip()
    mark = _MARKS.match(head["names"])
    if mark is not None and first.startswith(mark[0]):  # "**name:** text"
        first = first.removeprefix(mark[0]).strip()
    kind = (head["kind"] or "").strip()[1:-1].strip()
    if is_numpy and (body or _TYPE.fullmatch(first)):
        kind, first = first, ""
    text = "\n".join(filter(None, [first, body]))
    if kind and not _is_type(kind):
        text = f"({kind}) {text}".strip()
    return [(each, text) for each in arguments if text]


def _read_field(section: list[str], names: Names) -> list[tuple[str, str]] | None:
    """Return the text of each argument that a reST field names; None where it names anything else."""
    field = _REST.match(section[0])
    assert field is not None
    words = [each.split() for each in field["names"].split(",")]
    arguments = _known(", ".join(each[-1] for each in words if each), names)
    text = inspect.cleandoc("\n".join([section[0][field.end() :], *section[1:]]))
    if arguments is None:
        return None
    if field["field"] == "type":
        text = "" if _is_type(text) else f"({text})"
    return [(each, text) for each in arguments if text]


def _known(written: str, names: Names) -> list[str] | None:
    """Return the arguments that a list of names stands for, without those that clients do not see; None if unknown."""
    found: list[str] = []
    if len(written) > _LONGEST_NAMES:
        return None
    for name in re.findall(_NAME, written):
        if names is None:
            found.append(name.lstrip("*"))
            continue
        plain = name.strip("_")  # "__name__" and "_name_" may be bold and slanted
        known = next(
            (each for each in (name, name[2:-2], name[1:-1], plain) if each in names and plain in each), None
        )
        if known is None:
            return None
        found += filter(None, [names[known]])
    return found


def _is_type(text: str) -> bool:
    """Return whether a text consists of types, "optional", "required" or a default of one word."""
    return len(text) < _LONGEST_TYPE and all(
        _KIND.fullmatch(part.strip()) for part in re.split(r",(?![^\[{(]*[\]})])", text)
    )
