"""The syntax of URI templates and their expansion (RFC 6570, all four levels)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, NoReturn

from .errors import RegistrationError


class Operator(NamedTuple):
    """One column of the table in RFC 6570 appendix A."""

    first: str
    separator: str
    is_named: bool
    if_empty: str
    allows_reserved: bool


OPERATORS = {
    "": Operator("", ",", False, "", False),
    "+": Operator("", ",", False, "", True),
    "#": Operator("#", ",", False, "", True),
    ".": Operator(".", ".", False, "", False),
    "/": Operator("/", "/", False, "", False),
    ";": Operator(";", ";", True, "", False),
    "?": Operator("?", "&", True, "=", False),
    "&": Operator("&", "&", True, "=", False),
}


class Variable(NamedTuple):
    """One variable of an expression with its modifier."""

    name: str
    is_exploded: bool
    prefix: int | None
    """The most characters of the value that are used; None for all."""


class Expression(NamedTuple):
    """What stands between braces."""

    operator: str
    variables: tuple[Variable, ...]


# Compiled on first use, by `re` itself: most servers have no template.
_PARTS = r"\{([^{}]*)\}|([^{}]+)|[{}]"
_NOT_LITERAL = r'[\x00-\x20\x7f"<>\\^`|\ud800-\udfff]|%(?![0-9A-Fa-f]{2})'
_VARIABLE = r"((?:\w|%[0-9A-Fa-f]{2})(?:\.?(?:\w|%[0-9A-Fa-f]{2}))*)(\*|:([1-9][0-9]{0,3}))?"


def parse(template: str) -> list[str | Expression]:
    """Split a template into its literals and expressions (RFC 6570 section 2).

    Raises:
        RegistrationError: The template breaks the syntax; the message names the position and the rule.
    """
    parts: list[str | Expression] = []
    for found in re.finditer(_PARTS, template):
        inside, literal = found.groups()
        if literal is not None:
            wrong = re.search(_NOT_LITERAL, literal)
            if wrong:
                at = found.start() + wrong.start()
                refuse(template, f"{wrong[0]!r} at position {at} must be percent-encoded")
            parts.append(literal)
        elif inside is None:
            what = "never closed" if found[0] == "{" else "never opened"
            refuse(template, f'the expression at "{found[0]}" (position {found.start()}) is {what}')
        else:
            parts.append(_expression(template, inside, found.start()))
    return parts


def _expression(template: str, inside: str, position: int) -> Expression:
    where = f'"{{{inside}}}" at position {position}'
    operator = inside[:1] if inside[:1] in OPERATORS else ""
    variables: list[Variable] = []
    for spec in inside[len(operator) :].split(","):
        found = re.fullmatch(_VARIABLE, spec, re.ASCII)
        if not found:
            refuse(
                template,
                f"{where} is no expression: write one of + # . / ; ? & or nothing, then names of letters, "
                "digits, _ and . with commas between them, each with * or :length (1 to 9999) if needed",
            )
        variables.append(Variable(found[1], found[2] == "*", int(found[3]) if found[3] else None))
    return Expression(operator, tuple(variables))


def refuse(template: str, why: str) -> NoReturn:
    """Raise the RegistrationError that says what is wrong with a template."""
    raise RegistrationError(f'URI template "{template}": {why}.')


Value = str | Sequence[str] | Mapping[str, str]

_NOT_UNRESERVED = r"[^A-Za-z0-9\-._~]+"
_NOT_RESERVED = r"(?:[^A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=%]|%(?![0-9A-Fa-f]{2}))+"


def escape(found: re.Match[str]) -> str:
    """Percent-encode what a pattern has found."""
    return "%" + found[0].encode().hex("%").upper()


def quote(text: str) -> str:
    """Percent-encode all of `text` but the unreserved characters of RFC 3986.

    Raises:
        UnicodeEncodeError: `text` holds a lone surrogate.
    """
    return re.sub(_NOT_UNRESERVED, escape, text)


def _quote_reserved(text: str) -> str:
    return re.sub(_NOT_RESERVED, escape, text)


def expand(parts: Sequence[str | Expression], values: Mapping[str, Value]) -> str:
    """Expand what `parse` returned (RFC 6570 section 3).

    Args:
        parts: The literals and expressions.
        values: Text, a list of texts or a mapping of texts for each variable. A missing variable, an empty
            list and an empty mapping count as undefined.

    Raises:
        ValueError: A variable with a length holds a list or a mapping.
        UnicodeEncodeError: A value holds a lone surrogate.
    """
    return "".join(
        _quote_reserved(part) if isinstance(part, str) else _expand_expression(part, values) for part in parts
    )


def _expand_expression(expression: Expression, values: Mapping[str, Value]) -> str:
    operator = OPERATORS[expression.operator]
    pieces: list[str] = []
    for variable in expression.variables:
        value = values.get(variable.name)
        if value is not None and (isinstance(value, str) or value):
            pieces += _expand_variable(operator, variable, value)
    return operator.first + operator.separator.join(pieces) if pieces else ""


def _expand_variable(operator: Operator, variable: Variable, value: Value) -> Iterator[str]:
    encode = _quote_reserved if operator.allows_reserved else quote
    if isinstance(value, str):
        items = [encode(value[: variable.prefix])]
    elif variable.prefix is not None:
        raise ValueError(f'"{variable.name}:{variable.prefix}" takes text, not {type(value).__name__}')
    elif isinstance(value, Mapping):
        pairs = [(encode(key), encode(item)) for key, item in value.items()]
        if variable.is_exploded:
            if_empty = operator.if_empty if operator.is_named else "="
            yield from (f"{key}={item}" if item else key + if_empty for key, item in pairs)
            return
        items = [text for pair in pairs for text in pair]
    else:
        items = [encode(item) for item in value]
    if not variable.is_exploded:
        items = [",".join(items)]
    for item in items:
        if not operator.is_named:
            yield item
        else:
            yield f"{variable.name}={item}" if item else variable.name + operator.if_empty
