"""Objects of the specification: TypedDicts with its member names, and arguments that are repeated in headers."""

# No `from __future__ import annotations`: a TypedDict compiles each of its hints then, at each start of a server.

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from typing_extensions import Required, TypedDict

from .jsonrpc import Json

if TYPE_CHECKING:
    from _typeshed import Incomplete as Incomplete  # noqa: PLC0414 - others import it from here
else:
    Incomplete = object

KEYWORD = "x-mcp-header"  # basic/transports/streamable-http, "Schema Extension"


# Objects that authors write


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


# Objects that clients receive, each with the members of all protocol versions


class ToolDefinition(TypedDict, total=False):
    """A tool in the result of `tools/list` (schema, `Tool`)."""

    name: Required[str]
    title: str
    description: str
    inputSchema: Required[Json]
    outputSchema: Json
    annotations: ToolAnnotations
    icons: list[Icon]
    execution: Json
    _meta: Json


class _ResourceMembers(TypedDict, total=False):
    name: Required[str]
    title: str
    description: str
    mimeType: str
    annotations: Annotations
    icons: list[Icon]
    _meta: Json


class ResourceDefinition(_ResourceMembers, total=False):
    """A resource in the result of `resources/list` (schema, `Resource`)."""

    uri: Required[str]
    size: int
    """Size of the contents in bytes, before any encoding."""


class ResourceTemplateDefinition(_ResourceMembers):
    """A template in the result of `resources/templates/list` (schema, `ResourceTemplate`)."""

    uriTemplate: str


class PromptArgument(TypedDict, total=False):
    """An argument of a prompt (schema, `PromptArgument`)."""

    name: Required[str]
    title: str
    description: str
    required: bool


class PromptDefinition(TypedDict, total=False):
    """A prompt in the result of `prompts/list` (schema, `Prompt`)."""

    name: Required[str]
    title: str
    description: str
    arguments: list[PromptArgument]
    icons: list[Icon]
    _meta: Json


class ResourceContents(TypedDict, total=False):
    """Contents of a resource: `text`, or `blob` in base64 (schema, `TextResourceContents`, `BlobResourceContents`)."""

    uri: Required[str]
    mimeType: str
    text: str
    blob: str
    _meta: Json


class _BlockMembers(TypedDict, total=False):
    annotations: Annotations
    _meta: Json


class TextBlock(_BlockMembers):
    """A text block (schema, `TextContent`)."""

    type: Literal["text"]
    text: str


class ImageBlock(_BlockMembers):
    """An image block, with `data` in base64 (schema, `ImageContent`)."""

    type: Literal["image"]
    data: str
    mimeType: str


class AudioBlock(_BlockMembers):
    """An audio block, with `data` in base64 (schema, `AudioContent`)."""

    type: Literal["audio"]
    data: str
    mimeType: str


class ResourceLinkBlock(ResourceDefinition):
    """A link to a resource as a content block (schema, `ResourceLink`)."""

    type: Literal["resource_link"]


class EmbeddedResourceBlock(_BlockMembers):
    """A block with the contents of a resource (schema, `EmbeddedResource`)."""

    type: Literal["resource"]
    resource: ResourceContents


ContentBlock: TypeAlias = TextBlock | ImageBlock | AudioBlock | ResourceLinkBlock | EmbeddedResourceBlock
"""A block of content, by its `type` (schema, `ContentBlock`)."""


class PromptMessage(TypedDict):
    """A message of a prompt (schema, `PromptMessage`)."""

    role: Literal["user", "assistant"]
    content: ContentBlock


class Implementation(TypedDict, total=False):
    """Name and version of a client or server (schema, `Implementation`)."""

    name: Required[str]
    version: Required[str]
    title: str
    description: str
    icons: list[Icon]
    websiteUrl: str


class ServerCapabilities(TypedDict, total=False):
    """Capabilities of a server (schema, `ServerCapabilities`)."""

    tools: Json
    resources: Json
    prompts: Json
    completions: Json
    logging: Json
    tasks: Json
    extensions: dict[str, Json]
    experimental: dict[str, Json]


# Arguments that clients repeat in HTTP headers


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
