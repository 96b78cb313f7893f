"""The expansion of URI templates (RFC 6570 section 3), as clients do it: what matching is held against."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final
from urllib.parse import quote

from mcpkit.content.uri_templates import OPERATORS, Expression, Operator, Variable, parse

Value = str | Sequence[str] | Mapping[str, str]

_RESERVED: Final = ":/?#[]@!$&'()*+,;="


def expand(template: str, values: Mapping[str, Value]) -> str:
    """Return the URI of a template for its values; a missing one, an empty list and an empty mapping are left out."""
    return "".join(
        part if isinstance(part, str) else _expand_expression(part, values) for part in parse(template)
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
    def encode(text: str) -> str:
        return quote(text, safe=_RESERVED if operator.allows_reserved else "")

    if_empty = "" if operator.first == ";" else "="
    if isinstance(value, str):
        items = [encode(value[: variable.prefix])]
    elif isinstance(value, Mapping):
        pairs = [(encode(key), encode(item)) for key, item in value.items()]
        if variable.is_exploded:
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
            yield f"{variable.name}={item}" if item else variable.name + if_empty
