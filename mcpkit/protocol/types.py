"""Types with the specification's member names, which authors write themselves."""

# No `from __future__ import annotations`: a TypedDict compiles each of its hints then, at each start of a server.

from typing import TYPE_CHECKING, Any, Literal

from typing_extensions import TypedDict

if TYPE_CHECKING:
    from _typeshed import Incomplete as Incomplete  # noqa: PLC0414 - others import it from here
else:
    Incomplete = object

Json = dict[str, Any]  # a JSON object with any members

KEYWORD = "x-mcp-header"  # basic/transports/streamable-http, "Schema Extension"


class Icon(TypedDict, total=False):
    """An icon that a host may show (base protocol, "icons").

    Attributes:
        src: An `https:` or `data:` URI. Required.
        mimeType: Media type.
        sizes: Sizes such as `48x48`, or `any` for a scalable format.
        theme: Background for which the icon is made: `light` or `dark`.
    """

    src: str
    mimeType: str
    sizes: list[str]
    theme: Literal["light", "dark"]


class Annotations(TypedDict, total=False):
    """Hints on the use of a resource or content block (server/resources, "Annotations").

    Attributes:
        audience: Intended readers: `user`, `assistant` or both.
        priority: Importance, from 0 (optional) to 1 (effectively required).
        lastModified: Time of the last change, in ISO 8601.
    """

    audience: list[Literal["user", "assistant"]]
    priority: float
    lastModified: str


class ToolAnnotations(TypedDict, total=False):
    """Hints on the behaviour of a tool (schema, `ToolAnnotations`).

    Attributes:
        title: Display name.
        readOnlyHint: Whether the tool only reads.
        destructiveHint: Whether it may delete or overwrite data; has no meaning for a read-only tool.
        idempotentHint: Whether further calls with the same arguments have no further effect.
        openWorldHint: Whether it interacts with external systems, such as the web.
    """

    title: str
    readOnlyHint: bool
    destructiveHint: bool
    idempotentHint: bool
    openWorldHint: bool


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
