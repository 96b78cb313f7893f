"""The arguments that clients repeat in HTTP headers, found in a schema and held to the specification's rules.

basic/transports/streamable-http, "Schema Extension": clients drop a tool that breaks one of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from .._utils.exceptions import RegistrationError
from ..protocol.jsonrpc import is_array, is_object
from ..protocol.mirrored import KEYWORD, MirroredParameter
from ..protocol.types import Json
from .references import subschemas

_TOKEN = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"  # RFC 9110, section 5.6.2
_TYPES = {"string": '""', "integer": "0", "boolean": "False"}


class _Mark:
    """A place of `x-mcp-header` in a schema; `keyword` is one on its path that clients cannot resolve, or None."""

    __slots__ = ("keyword", "path", "schema")

    def __init__(self, path: tuple[str, ...], keyword: str | None, schema: Json) -> None:
        self.path = path
        self.keyword = keyword
        self.schema = schema


def mirrored(owner: str, schema: Json) -> tuple[MirroredParameter, ...]:
    """Return the arguments that a schema repeats in headers.

    Args:
        owner: Component, for messages.
        schema: JSON Schema of the arguments; of its root only keywords with subschemas are needed.

    Raises:
        RegistrationError: A rule of the specification is broken. The message contains the remedy.
    """
    found: dict[str, _Mark] = {}
    for mark in _marks(schema, (), None):
        where = f"{owner}: argument {'.'.join(mark.path)!r}" if mark.path else owner
        name = _checked(where, mark)
        if (other := found.setdefault(name.lower(), mark)) is not mark:
            raise RegistrationError(
                f"{where}: argument {'.'.join(other.path)!r} already has the header {name!r}. Header names "
                "ignore case; "
                "use another one"
            )
    return tuple(MirroredParameter(f"mcp-param-{name}".encode(), mark.path) for name, mark in found.items())


def _marks(schema: Any, path: tuple[str, ...], keyword: str | None) -> Iterator[_Mark]:
    if not is_object(schema):
        return
    if KEYWORD in schema:
        yield _Mark(path, keyword, schema)
    for (key, *names), inner in subschemas(schema):
        if key == "properties":
            yield from _marks(inner, (*path, str(names[0])), keyword)
        else:
            yield from _marks(inner, path, keyword or str(key))


def _checked(where: str, mark: _Mark) -> str:
    name, kind = mark.schema[KEYWORD], mark.schema.get("type")
    if not isinstance(name, str) or not re.fullmatch(_TOKEN, name):
        raise RegistrationError(
            f"{where}: {name!r} is not a valid HTTP header name; use letters, digits and -, as in Header('Region')"
        )
    if mark.keyword is not None or not mark.path:
        below = f"`{mark.keyword}`" if mark.keyword else "the root of the schema"
        advice = "use it for a parameter, or a field of a model that is a parameter"
        if mark.keyword in {"anyOf", "oneOf"}:
            advice = "use one type, and a default of that type instead of None"
        raise RegistrationError(
            f"{where}: the header {name!r} is set at {below}, where clients cannot find a single value; {advice}"
        )
    if not isinstance(kind, str) or kind not in _TYPES:
        raise RegistrationError(
            f"{where}: the header {name!r} does not support this type: {_advice(mark.schema)}"
        )
    return name


def _advice(schema: Json) -> str:
    branches = schema.get("anyOf", ())
    kinds = [branch.get("type") for branch in branches if is_object(branch)]
    kinds += schema["type"] if is_array(schema.get("type")) else []
    if "null" in kinds:
        default = next((text for kind, text in _TYPES.items() if kind in kinds), '""')
        return f"it may be null; give it a default of its own type instead of None, such as `= {default}`"
    if schema.get("type") == "number":
        return "the text of a number is not exact; use `int` or `str`"
    return "use `str`, `int` or `bool`"
