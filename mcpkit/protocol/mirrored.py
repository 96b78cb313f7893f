"""Tool arguments that clients repeat in HTTP headers."""

from __future__ import annotations

from typing import Any

KEYWORD = "x-mcp-header"
"""What the specification calls it in a schema (basic/transports/streamable-http, "Schema Extension")."""


class ParamHeader:
    """Makes clients repeat an argument in an HTTP header: `region: Annotated[str, ParamHeader("Region")]`.

    Since 2026-07-28, clients send such an argument over HTTP in `Mcp-Param-<name>` too, so that proxies can route by
    it without reading bodies. The server refuses a request if header and argument differ. The parameter must be a
    `str`, `int` or `bool`, not nullable, and may be a field of a model; this is checked when the tool is registered.

    Proxies may log headers. Do not use it for secrets.

    Args:
        name: Part after `Mcp-Param-`: letters, digits and `-`. It must be unique among the tool's parameters,
            ignoring case.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __get_pydantic_json_schema__(self, core: Any, handler: Any) -> dict[str, Any]:
        """Add the keyword to the schema of a model's field."""
        return {**handler(core), KEYWORD: self.name}

    def __repr__(self) -> str:
        """Show the name."""
        return f"Header({self.name!r})"


class MirroredParameter:
    """An argument that clients repeat in a header.

    Args:
        header: Header name, as bytes in lower case.
        path: Keys that lead to the argument.
    """

    __slots__ = ("header", "path")

    def __init__(self, header: bytes, path: tuple[str, ...]) -> None:
        self.header = header
        self.path = path
