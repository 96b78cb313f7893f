"""Marks a parameter of a tool as mirrored into an HTTP header."""

from __future__ import annotations

from typing import Any

KEYWORD = "x-mcp-header"
"""What the specification calls it in a schema (basic/transports/streamable-http, "Schema Extension")."""


class ParamHeader:
    """Has clients repeat an argument in an HTTP header: `region: Annotated[str, ParamHeader("Region")]`.

    From revision 2026-07-28 on, clients send such an argument over HTTP in `Mcp-Param-<name>` too, so
    that proxies can route by it without reading bodies. mcpkit refuses a request whose header and
    argument differ. The parameter is a `str`, an `int` or a `bool`, is not nullable, and may be a field
    of a model; what breaks these rules is refused when the tool is registered.

    What goes into headers is read and logged on the way: it is no place for secrets.

    Args:
        name: The part after `Mcp-Param-`: letters, digits and `-`, unlike those of the tool's other
            parameters also without regard to case.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __get_pydantic_json_schema__(self, core: Any, handler: Any) -> dict[str, Any]:
        """Mark the schema of a model's field."""
        return {**handler(core), KEYWORD: self.name}

    def __repr__(self) -> str:
        """Show how it is written."""
        return f"Header({self.name!r})"


class MirroredParameter:
    """One argument that a client repeats in a header.

    Args:
        header: The header's name, as bytes in lower case.
        path: The keys that lead to it from the arguments.
    """

    __slots__ = ("header", "path")

    def __init__(self, header: bytes, path: tuple[str, ...]) -> None:
        self.header = header
        self.path = path
