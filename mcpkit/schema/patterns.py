"""Regular expressions in schemas, which clients read as ECMA-262 with the flag `u`.

JSON Schema 2020-12, "Regular Expressions". Authors write them for Python, or for pydantic's engine. Patterns that
ECMA-262 can express are published in its syntax, and matched with its meaning: digits and word characters are ASCII,
`$` is the very end.
"""

from __future__ import annotations

import logging
import re
from functools import cache, lru_cache
from typing import NamedTuple

from .._utils.package import install_command

logger = logging.getLogger(__name__)


class Pattern(NamedTuple):
    """A regular expression in the words of three engines, which match the same.

    Args:
        published: ECMA-262's.
        rust: That of pydantic's engine, if it knows all of it.
        python: That of Python's `re`.
    """

    published: str
    rust: str
    python: str


class _UnsayableError(Exception):
    """ECMA-262 has no words for it, or it is no regular expression."""


@lru_cache(maxsize=1024)
def read(pattern: str) -> Pattern | None:
    """Return a pattern in the words of all engines; None where ECMA-262 has none, as for `(?i)`."""
    if _PLAIN.fullmatch(pattern):
        return Pattern(pattern, pattern, pattern)
    try:
        return _Reader(pattern).read()
    except (_UnsayableError, IndexError):
        return None


@cache
def warn(pattern: str) -> None:
    """Log once that the published schema does not have a pattern."""
    logger.warning(
        "the pattern %r is checked, but not part of the published schema: clients read patterns as ECMA-262, "
        "which does not support it. Describe it in the description of the field",
        pattern,
    )


@cache
def warn_of_time(pattern: str) -> None:
    """Log once that the matching time of a pattern has no limit."""
    logger.warning(
        "the pattern %r has lookarounds, backreferences or flags, so Python's `re` checks it, which can take "
        "unbounded time for a short text from a client. Write it without these, or install an engine with a limit "
        "for ECMA-262 patterns: %s",
        pattern,
        install_command("jsonschema"),
    )


def source(pattern: str | re.Pattern[str]) -> str:
    """Return what is written in a pattern that may be compiled, its flags at its beginning."""
    if isinstance(pattern, str):
        return pattern
    flags = "".join(letter for letter, flag in _FLAGS.items() if pattern.flags & flag)
    return f"(?{flags}){pattern.pattern}" if flags else pattern.pattern


_FLAGS = {"a": re.ASCII, "i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL, "x": re.VERBOSE}

# Letters, digits, groups and classes of these: every engine reads them alike.
_PLAIN = re.compile(r"\^?(?:[A-Za-z0-9_ \-:,;@/#]|\[[A-Za-z0-9_]+(?:-[A-Za-z0-9])?\][+*?]?)*", re.ASCII)

_DIGIT = "0-9"
_WORD = "A-Za-z0-9_"
_SPACE = r"\t-\r \xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
# The same without: what lies between, as a class may hold no other class in Python.
_CLASSES = {
    "d": _DIGIT,
    "D": r"\x00-/:-\U0010ffff",
    "w": _WORD,
    "W": r"\x00-/:-@\[-\^`\{-\U0010ffff",
    "s": _SPACE,
    "S": r"\x00-\x08\x0e-\x1f!-\x9f\xa1-\u167f\u1681-\u1fff\u200b-\u2027\u202a-\u202e\u2030-\u205e\u2060-\u2fff"
    r"\u3001-\ufefe\uff00-\U0010ffff",
}
_PLACES = {
    "A": ("^", "^", r"\A"),
    "Z": ("$", "$", r"\Z"),
    "z": ("$", "$", r"\Z"),
    "b": (r"\b", r"(?-u:\b)", r"(?a:\b)"),
    "B": (r"\B", r"(?!(?a:\b))"),  # Python's own never matches an empty text
}
"""Escapes that match a place, which nothing repeats, as `Pattern` has them."""
_SYNTAX = frozenset("^$\\.*+?()[]{}|/")
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "v": "\v", "a": "\a"}
_CATEGORIES = re.compile(
    "L[ultmo]?|M[nce]?|N[dlo]?|P[cdseifo]?|S[mcko]?|Z[slp]?|C[cfo]?|Alphabetic|Uppercase|Lowercase|White_Space"
)
_NO_LINE_END = r"[^\n\r\u2028\u2029]"
_GROUP = re.compile(
    r"\?(?::|=|!|<=|<!|P?<(?P<name>[A-Za-z_]\w*)>|P=(?P<again>[A-Za-z_]\w*)\)|#[^)]*\))", re.ASCII
)
_QUANTIFIER = re.compile(r"(?:[*+?]|\{(?P<least>[0-9]*)(?P<many>,)?(?P<most>[0-9]*)\})(?P<end>[?+]?)")
_CODE = re.compile(
    r"x(?P<x>[0-9A-Fa-f]{2})|u(?P<u>[0-9A-Fa-f]{4})|U(?P<U>[0-9A-Fa-f]{8})|[xuU]\{(?P<braces>[0-9A-Fa-f]{1,6})\}"
    r"|c(?P<control>[A-Za-z])|(?P<octal>0[0-7]{0,2}|[1-3][0-7]{2})"
)
_NUMBER = re.compile("[1-9][0-9]*")
_PROPERTY = re.compile(r"(?P<not>[pP])(?:\{(?P<name>\w+)\}|(?P<letter>[A-Z]))")


class _Reader:
    """One reading of a pattern from its beginning to its end."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._published: list[str] = []
        self._rust: list[str] = []
        self._python: list[str] = []
        self._can_repeat = False
        """Whether a quantifier may follow."""
        self._groups: list[bool] = []
        """Of each open group whether it may be repeated."""
        self._dot = "."

    def read(self) -> Pattern:
        if flags := re.match(r"\(\?([as]+)\)", self._pattern):
            # ASCII is what ECMA-262 means anyway.
            self._at = flags.end()
            self._dot = r"[\s\S]" if "s" in flags[1] else "."
        while self._at < len(self._pattern):
            self._token()
        if self._groups:
            raise _UnsayableError
        return Pattern("".join(self._published), "".join(self._rust), "".join(self._python))

    def _write(self, published: str, rust: str | None = None, python: str | None = None) -> None:
        rust = published if rust is None else rust
        self._published.append(published)
        self._rust.append(rust)
        self._python.append(rust if python is None else python)

    def _token(self) -> None:
        character = self._pattern[self._at]
        self._at += 1
        could_repeat, self._can_repeat = self._can_repeat, character not in "(^$|"
        if character == "\\":
            self._escape()
        elif character == "[":
            self._class()
        elif character == "(":
            self._group()
        elif character == ")":
            self._write(")")
            self._can_repeat = self._groups.pop()
        elif character == ".":
            anything = f"[{_CLASSES['s']}{_CLASSES['S']}]"
            self._write(self._dot, _NO_LINE_END if self._dot == "." else anything)
        elif character in "^$|":
            self._write(character, character, r"\Z" if character == "$" else character)
        elif quantifier := _QUANTIFIER.match(self._pattern, self._at - 1):
            self._quantify(quantifier, could_repeat=could_repeat)
        elif character in "*+?":
            raise _UnsayableError
        elif character in "{}]":
            self._write(f"\\{character}")
        else:
            self._write(character)

    def _quantify(self, quantifier: re.Match[str], *, could_repeat: bool) -> None:
        text, least, most = quantifier[0], quantifier["least"], quantifier["most"]
        if least == "" and most == "":  # `{}` and `{,}` are texts to some, and repetitions to others
            raise _UnsayableError
        if not could_repeat or quantifier["end"] == "+":
            raise _UnsayableError
        self._at = quantifier.end()
        self._write(f"{{0,{most}}}{quantifier['end']}" if least == "" else text)
        self._can_repeat = False

    def _group(self) -> None:
        if not self._pattern.startswith("?", self._at):
            self._write("(")
            self._groups.append(True)
            return
        start = _GROUP.match(self._pattern, self._at)
        if start is None:
            raise _UnsayableError
        self._at = start.end()
        if start["again"]:
            self._write(rf"\k<{start['again']}>", f"(?P={start['again']})")
            self._can_repeat = True
        elif start["name"]:
            self._write(f"(?<{start['name']}>", f"(?P<{start['name']}>")
            self._groups.append(True)
        elif not start[0].startswith("?#"):
            self._write(f"({start[0]}")
            self._groups.append(start[0] == "?:")

    def _escape(self) -> None:
        character = self._pattern[self._at]
        self._at += 1
        if character in _CLASSES:
            self._write(f"\\{character}", f"[{_CLASSES[character]}]")
        elif character in _PLACES:
            self._write(*_PLACES[character])
            self._can_repeat = False
        elif character == "k" and (name := re.compile(r"<([A-Za-z_]\w*)>").match(self._pattern, self._at)):
            self._at = name.end()
            self._write(rf"\k{name[0]}", f"(?P={name[1]})")
        elif (number := _NUMBER.match(self._pattern, self._at - 1)) and not _CODE.match(number[0]):
            self._at = number.end()
            self._write(f"\\{number[0]}")
        elif written := self._property():
            self._write(written)
        else:
            start = self._at - 2
            self._character(self._code(character), start, in_class=False)

    def _property(self) -> str | None:
        """Return the property of Unicode that begins here, if one does."""
        found = _PROPERTY.match(self._pattern, self._at - 1)
        if found is None:
            return None
        name = found["name"] or found["letter"]
        if _CATEGORIES.fullmatch(name) is None:
            raise _UnsayableError
        self._at = found.end()
        return f"\\{found['not']}{{{name}}}"

    def _code(self, character: str) -> str:
        """Return the character that an escape stands for; all but its first has yet to be read."""
        if character in _CONTROL:
            return _CONTROL[character]
        code = _CODE.match(self._pattern, self._at - 1)
        if code is None:
            # `\<` is a character to Python, and the beginning of a word to Rust.
            if character.isalnum() or character in "<>" or not character.isascii():
                raise _UnsayableError
            return character
        self._at = code.end()
        if code["control"]:
            return chr(ord(code["control"]) % 32)
        if code["octal"]:
            return chr(int(code["octal"], 8))
        number = int(code["x"] or code["u"] or code["U"] or code["braces"], 16)
        if 0xD800 <= number < 0xDC00 and (
            low := re.compile(r"\\u([dD][c-fC-F][0-9A-Fa-f]{2})").match(self._pattern, self._at)
        ):
            self._at = low.end()
            number = 0x10000 + (number - 0xD800) * 0x400 + int(low[1], 16) - 0xDC00
        if number > 0x10FFFF or 0xD800 <= number < 0xE000:
            raise _UnsayableError
        return chr(number)

    def _class(self) -> None:
        self._write("[")
        if self._pattern.startswith("^", self._at):
            self._write("^")
            self._at += 1
        is_first = True
        while is_first or self._pattern[self._at] != "]":
            self._member()
            is_first = False
        self._at += 1
        self._write("]")

    def _member(self) -> None:
        two = self._pattern[self._at : self._at + 2]
        if two in ("&&", "--", "~~", "||", "[:"):  # what some engines make sets of
            raise _UnsayableError
        first = self._one()
        if first is None or self._pattern[self._at] != "-" or self._pattern[self._at + 1] == "]":
            return
        self._at += 1
        self._write("-")
        if self._pattern.startswith("-", self._at) or self._one() is None:
            raise _UnsayableError

    def _one(self) -> str | None:
        """Read a character in a class, or what stands for several; return the character."""
        start = self._at
        character = self._pattern[start]
        self._at += 1
        if character == "\\":
            character = self._pattern[self._at]
            self._at += 1
            if character in _CLASSES:
                self._write(f"\\{character}", _CLASSES[character])
                return None
            if written := self._property():
                self._write(written)
                return None
            character = "\b" if character == "b" else self._code(character)
        self._character(character, start, in_class=True)
        return character

    def _character(self, character: str, start: int, *, in_class: bool) -> None:
        """Write a character, as it is written from `start` on where ECMA-262 knows that."""
        written = self._pattern[start : self._at]
        published, read = _written(character, in_class=in_class)
        if written == character:
            is_known = character not in "]"
        else:
            is_known = _ESCAPED.fullmatch(written) is not None or (in_class and written in (r"\-", r"\b"))
        self._write(written if is_known else published, read)


_ESCAPED = re.compile(
    r"\\(?:[\^$\\.*+?()\[\]{}|/tnrfv]|x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|u\{[0-9A-Fa-f]{1,6}\}|c[A-Za-z])"
)
"""What ECMA-262 calls an escape of one character, everywhere."""


def _written(character: str, *, in_class: bool) -> tuple[str, str]:
    """Return a character as ECMA-262 writes it, and as the others do."""
    number = ord(character)
    if character.isascii() and not character.isprintable():
        return f"\\x{number:02x}", f"\\x{number:02x}"
    if character in _SYNTAX or (in_class and character == "-"):
        return f"\\{character}", f"\\{character}"
    if character.isascii() and in_class and not character.isalnum() and character not in "<> _":
        return character, f"\\{character}"
    if character.isprintable():
        return character, character
    return f"\\u{{{number:x}}}", f"\\U{number:08x}"
