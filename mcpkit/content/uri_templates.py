"""URI templates (RFC 6570, all four levels), matched: what the variables of a URI hold.

Clients expand templates. The way back, which the RFC leaves open, has these rules:

- A variable of a simple, label or path expression holds at least one character and no `/`, `?` or `#`. One of
  a reserved (`{+path}`) or an exploded path expression (`{/path*}`) may span slashes; at most one does.
- Left of the variable that spans (of the last one where none does), a variable ends where the literal after
  it first occurs. Right of it, a variable does not hold the first character of the literal after it, nor the
  first of the literal before it, unless that has another one that it cannot hold. No variable holds the
  `?`, `&` or `;` that begins named parameters right of it. So each URI has one reading, found in time linear
  in its length.
- Named parameters (`{?a,b}`, `{&c}`, `{;d}`) may be missing and come in any order. A parameter that the
  template does not name, or one given twice that is not exploded, makes the URI not match.
- Exploded variables are lists of text, all others are text.
- Characters outside ASCII count as if they were percent-encoded. A URI that matches no template as it is written is
  matched in its normalized spelling (uri_normalization.py), of which only the literal parts of a template count.
- Values are percent-decoded once. A broken escape or one that is not UTF-8 makes the URI not match; so does a value
  that would leave its folder if an author made it part of a path (see `UriTemplate`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import NamedTuple, NoReturn

from .._utils.exceptions import RegistrationError
from .uri_normalization import in_ascii, normalized_template, normalized_twice

# Compiled on first use, by `re` itself: most servers have no template.
_PARTS = r"\{([^{}]*)\}|([^{}]+)|[{}]"
_NOT_LITERAL = r'[\x00-\x20\x7f"<>\\^`|\ud800-\udfff]|%(?![0-9A-Fa-f]{2})'
_VARIABLE = r"((?:\w|%[0-9A-Fa-f]{2})(?:\.?(?:\w|%[0-9A-Fa-f]{2}))*)(\*|:([1-9][0-9]{0,3}))?"
_BROKEN_ESCAPE = "%(?![0-9A-Fa-f]{2})"
_ESCAPES = "(?:%[0-9A-Fa-f]{2})+"
# Windows ignores dots and spaces at the end of a name, so ".. " is ".." there.
_TRAVERSAL = r"\\|\0|\A[A-Za-z]:|\A/|(?:\A|/)\.\.[ .]*(?:/|\Z)"
_TRAVERSAL_OR_SLASH = r"/|\\|\0|\A[A-Za-z]:|\A\.\.[ .]*\Z"


class Operator(NamedTuple):
    """One column of the table in RFC 6570 appendix A."""

    first: str
    separator: str
    is_named: bool
    allows_reserved: bool


OPERATORS = {
    "": Operator("", ",", False, False),
    "+": Operator("", ",", False, True),
    "#": Operator("#", ",", False, True),
    ".": Operator(".", ".", False, False),
    "/": Operator("/", "/", False, False),
    ";": Operator(";", ";", True, False),
    "?": Operator("?", "&", True, False),
    "&": Operator("&", "&", True, False),
}


class Variable(NamedTuple):
    """One variable of an expression with its modifier."""

    name: str
    is_exploded: bool
    prefix: int | None
    """The most characters of the value that are used; None for all."""


class Expression(NamedTuple):
    """An expression of a template, the text between braces."""

    operator: str
    variables: tuple[Variable, ...]


def parse(template: str) -> list[str | Expression]:
    """Split a template into its literals, in ASCII, and expressions (RFC 6570 section 2).

    Raises:
        RegistrationError: The template breaks the syntax; the message names the position and the rule.
    """
    parts: list[str | Expression] = []
    for found in re.finditer(_PARTS, template):
        inside, literal = found.groups()
        position = found.start()
        if literal is not None:
            if wrong := re.search(_NOT_LITERAL, literal):
                _refuse(
                    template, f"{wrong[0]!r} at position {position + wrong.start()} must be percent-encoded"
                )
            parts.append(in_ascii(literal))
            continue
        if inside is None:
            state = "never closed" if found[0] == "{" else "never opened"
            _refuse(template, f'the expression at "{found[0]}" (position {position}) is {state}')
        operator = inside[:1] if inside[:1] in OPERATORS else ""
        variables: list[Variable] = []
        for spec in inside[len(operator) :].split(","):
            parsed = re.fullmatch(_VARIABLE, spec, re.ASCII)
            if not parsed:
                _refuse(
                    template,
                    f'"{{{inside}}}" at position {position} is not an expression. '
                    "Write an optional operator (one of + # . / ; ? &), then variable names of letters, digits, _ "
                    "and ., separated by commas, each with optional * or :length (1 to 9999)",
                )
            variables.append(Variable(parsed[1], parsed[2] == "*", int(parsed[3]) if parsed[3] else None))
        parts.append(Expression(operator, tuple(variables)))
    return parts


def _refuse(template: str, reason: str) -> NoReturn:
    raise RegistrationError(f'URI template "{template}": {reason}.')


class _Slot:
    """Reads the value of one variable from the text that it has matched."""

    def __init__(self, variable: Variable, operator: Operator, *, is_unsafe: bool) -> None:
        self.name = variable.name
        self.separator = operator.separator if variable.is_exploded else ""
        self._prefix = variable.prefix
        allows_slash = operator.allows_reserved or operator.is_named
        forbidden = _TRAVERSAL if allows_slash else _TRAVERSAL_OR_SLASH
        self._forbidden = None if is_unsafe else re.compile(forbidden)

    def read(self, raw: str) -> str | list[str] | None:
        """Return the decoded value, or None where it is not allowed."""
        if not self.separator:
            return self.read_one(raw)
        items = [self.read_one(item) for item in raw.split(self.separator)]
        values = [item for item in items if item]
        return values if len(values) == len(items) else None

    def read_one(self, raw: str) -> str | None:
        """Return one decoded text, or None where it is not allowed."""
        text = raw
        if "%" in raw:
            try:
                text = re.sub(_ESCAPES, lambda found: bytes.fromhex(found[0].replace("%", "")).decode(), raw)
            except UnicodeDecodeError:
                return None
            if re.search(_BROKEN_ESCAPE, raw):
                return None
        if self._forbidden and not raw.isalnum() and self._forbidden.search(text):
            return None
        return None if self._prefix is not None and len(text) > self._prefix else text


class _Parameters:
    """Reads the named parameters of a query (`?a=1&b=2`) or of a path segment (`;a=1;b=2`).

    Attributes:
        starts: The characters that may begin the group.
        ends: The characters that end it.
        separator: The character between its parameters.
        slots: The parameters, by name.
    """

    def __init__(self, operator: Operator) -> None:
        self.starts = operator.first
        self.ends = "/?#" if operator.first == ";" else "#"
        self.separator = operator.separator
        self.slots: dict[str, _Slot] = {}

    def read(self, raw: str, values: dict[str, str | list[str]]) -> bool:
        """Put the parameters of `raw` into `values`; False where one of them makes the URI not match."""
        for pair in raw.split(self.separator):
            name, _, encoded = pair.partition("=")
            slot = self.slots.get(name)
            if slot is None or (text := slot.read_one(encoded)) is None:
                return False
            found = values.get(name)
            if isinstance(found, list):
                found.append(text)
            elif found is None:
                values[name] = [text] if slot.separator else text
            else:
                return False
        return True


class _Hole(NamedTuple):
    """A variable in its place in the template."""

    slot: _Slot
    excluded: str
    """The characters that it cannot match."""
    spans: bool
    """Whether it may match slashes (a fragment may too, but nothing follows it)."""


_Token = str | _Hole | _Parameters


class UriTemplate:
    """A URI template (RFC 6570) that matches URIs.

    Args:
        template: The template, for example `docs://{section}/{+path}{?lang}`.
        unsafe: Variables that may have any value; True for all. Other variables do not match a value that could leave
            a folder: a `..` segment, a leading slash, a backslash, a drive letter (`C:`), a NUL, or an encoded slash
            if the expression does not match slashes.

    Raises:
        RegistrationError: The template is not valid in RFC 6570, has a variable twice, or is ambiguous. The message
            contains the remedy.
    """

    def __init__(self, template: str, *, unsafe: Collection[str] | bool = ()) -> None:
        self.template = template
        parts = parse(template)
        expressions = [part for part in parts if isinstance(part, Expression)]
        self.names = tuple(variable.name for part in expressions for variable in part.variables)
        for name in self.names:
            if self.names.count(name) > 1:
                _refuse(template, f'the variable "{name}" occurs twice; rename one')
        for part in expressions:
            for variable in part.variables if part.operator in ("+", "#") else ():
                if variable.is_exploded:
                    name = variable.name
                    _refuse(
                        template, f'the items of "{name}" may contain the separating comma; write {{{name}*}}'
                    )
        if isinstance(unsafe, str):
            _refuse(template, f'unsafe="{unsafe}" must be True or a set of names: unsafe={{"{unsafe}"}}')
        if isinstance(unsafe, bool):
            unsafe = self.names if unsafe else ()
        elif unknown := sorted(set(unsafe).difference(self.names)):
            _refuse(template, f'unsafe= contains "{unknown[0]}", which is not one of its variables')
        tokens = _tokens(parts, unsafe)
        self._pattern = re.compile(_pattern(template, tokens), re.DOTALL)
        self._normalized: re.Pattern[str] | None = None
        readers = (token for token in tokens if not isinstance(token, str))
        self._readers = [each.slot if isinstance(each, _Hole) else each for each in readers]

    def __repr__(self) -> str:
        return f"UriTemplate({self.template!r})"

    def match(self, uri: str) -> dict[str, str | list[str]] | None:
        """Return the values that expand to `uri` or to an equal spelling of it, or None where there are none.

        Values that are not allowed make it not match. Named parameters that the URI does not give are left out.
        Exploded variables are lists.
        """
        values = self.match_exactly(uri)
        return self.match_spelling(uri) if values is None else values

    def match_exactly(self, uri: str) -> dict[str, str | list[str]] | None:
        """Return the same for the literal parts as they are written, but for characters outside ASCII."""
        try:
            found = self._pattern.match(in_ascii(uri))
        except UnicodeEncodeError:
            return None
        return None if found is None else self._read(found.groups())

    def match_spelling(self, uri: str) -> dict[str, str | list[str]] | None:
        """Return the same with the literal parts normalized; variables keep the case of the URI."""
        pattern = self._normalized
        if pattern is None:
            # The expressions are the same, so that the groups are.
            tokens = _tokens(parse(normalized_template(self.template)), self.names)
            pattern = self._normalized = re.compile(_pattern(self.template, tokens), re.DOTALL)
        small, kept = normalized_twice(uri)
        found = pattern.match(small) if small.isascii() else None
        if found is None:
            return None
        spans = map(found.span, range(1, len(self._readers) + 1))
        return self._read([None if start < 0 else kept[start:end] for start, end in spans])

    def _read(self, groups: Sequence[str | None]) -> dict[str, str | list[str]] | None:
        values: dict[str, str | list[str]] = {}
        for reader, raw in zip(self._readers, groups, strict=True):
            if isinstance(reader, _Slot):
                value = None if raw is None else reader.read(raw)
                if value is None:
                    return None
                values[reader.name] = value
            elif raw is not None and not reader.read(raw, values):
                return None
        return values


def _tokens(parts: list[str | Expression], unsafe: Collection[str]) -> list[_Token]:
    """Lay the expressions out as literals, variables and groups of named parameters."""
    tokens: list[_Token] = []

    def append_literal(literal: str) -> None:
        if tokens and isinstance(tokens[-1], str):
            tokens[-1] += literal
        elif literal:
            tokens.append(literal)

    for part in parts:
        if isinstance(part, str):
            append_literal(part)
            continue
        operator = OPERATORS[part.operator]
        slots = [_Slot(variable, operator, is_unsafe=variable.name in unsafe) for variable in part.variables]
        if operator.is_named:
            group = tokens[-1] if tokens else None
            # {?a}{&b} and {;a}{;b} are one group.
            if (
                not isinstance(group, _Parameters)
                or operator.first == "?"
                or group.separator != operator.separator
            ):
                group = _Parameters(operator)
                tokens.append(group)
            if operator.first not in group.starts:
                # {?a}{&b} without an `a` expands to "&b=".
                group.starts += operator.first
            group.slots.update((slot.name, slot) for slot in slots)
            continue
        for index, slot in enumerate(slots):
            append_literal(operator.separator if index else operator.first)
            spans_path = part.operator == "/" and bool(slot.separator)
            # A URI has one "#" at most.
            excluded = operator.first if operator.allows_reserved else "?#" if spans_path else "/?#"
            tokens.append(_Hole(slot, excluded, spans_path or part.operator == "+"))
    return tokens


def _pattern(template: str, tokens: list[_Token]) -> str:
    """Return the regular expression of a template, with a group for each variable and group of parameters.

    Left of the pivot nothing backtracks: each variable stops before what follows it. The pivot is greedy.
    Right of it, a try ends at the latest where the next one begins: all tries together read the URI once.
    """
    holes = [(index, token) for index, token in enumerate(tokens) if isinstance(token, _Hole)]
    spanning = [(index, hole) for index, hole in holes if hole.spans]
    if len(spanning) > 1:
        names = " and ".join(f'"{hole.slot.name}"' for _, hole in spanning)
        _refuse(template, f"{names} may all match slashes, so a URI is ambiguous; let only one match slashes")
    pivot = (spanning or holes)[-1][0] if holes else 0
    pieces: list[str] = []
    for index, token in enumerate(tokens):
        before = tokens[index - 1] if index else ""
        after, *later = tokens[index + 1 :] or [""]
        if isinstance(token, str):
            pieces.append(re.escape(token))
        elif isinstance(token, _Parameters):
            if isinstance(after, _Hole) or not set(_starts(after)) <= set(token.ends):
                rule = "only {#...} may follow a query. Put all its names in one {?...}"
                if token.starts == ";":
                    rule = 'the text after {;...} must begin with "/", or be a query'
                _refuse(template, rule)
            pieces.append(f"(?:[{token.starts}]({_anything_but(token.ends)}*))?")
        elif isinstance(after, _Hole):
            names = f'"{token.slot.name}" and "{after.slot.name}"'
            _refuse(template, f"{names} are adjacent, so a URI is ambiguous; put text between")
        else:
            reserved = "".join(part.starts for part in (after, *later) if isinstance(part, _Parameters))
            pieces.append(_hole_pattern(template, token, before, after, reserved, index - pivot))
    return "".join(pieces) + r"\Z"


def _hole_pattern(
    template: str, hole: _Hole, before: _Token, after: str | _Parameters, reserved: str, side: int
) -> str:
    """Return the group of one variable.

    Args:
        template: The template, for messages.
        hole: The variable.
        before: What stands before it.
        after: What stands after it, or an empty literal.
        reserved: The characters that begin the named parameters right of it.
        side: Below 0 left of the pivot, above 0 right of it.
    """
    ends = _starts(after) if side else ""
    if side > 0 and isinstance(before, str) and set(before).isdisjoint(hole.excluded):
        ends += before[0]
    if side and hole.slot.separator and hole.slot.separator in ends:
        _refuse(
            template,
            f'the list "{hole.slot.name}" has "{hole.slot.separator}" next to it and between its items',
        )
    if side < 0 and isinstance(after, str) and len(after) > 1 and ends not in hole.excluded:
        return f"((?:(?!{re.escape(after)}){_anything_but(hole.excluded + reserved)})+)"
    return f"({_anything_but(hole.excluded + reserved + ends)}+)"


def _starts(token: str | _Parameters) -> str:
    """Return the characters that a literal or a group of parameters may begin with; none at the end."""
    return token.starts if isinstance(token, _Parameters) else token[:1]


def _anything_but(excluded: str) -> str:
    return f"[^{re.escape(''.join(sorted(set(excluded))))}]" if excluded else "."
