"""The classes of `mcp.types`, with the same names, fields and defaults.

Other classes are created at their first use from the table in `message_table`. Docstrings of models are part of the
protocol: they become descriptions in schemas.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Generic, Literal, TypeAlias, TypeVar

from pydantic import AnyUrl as AnyUrl
from pydantic import BaseModel, Field, UrlConstraints
from pydantic import FileUrl as FileUrl

from ...protocol.jsonrpc import Json as Json
from . import message_table

if TYPE_CHECKING:
    from _typeshed import Incomplete

# Constants and names of types

LATEST_PROTOCOL_VERSION = "2025-11-25"
DEFAULT_NEGOTIATED_VERSION = "2025-03-26"

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
CONNECTION_CLOSED = -32000
URL_ELICITATION_REQUIRED = -32042

ProgressToken: TypeAlias = str | int
Cursor: TypeAlias = str
Role: TypeAlias = Literal["user", "assistant"]
Whole: TypeAlias = Annotated[int, Field(strict=True)]
RequestId: TypeAlias = Whole | str
LoggingLevel: TypeAlias = Literal[
    "debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"
]
AnyFunction: TypeAlias = Callable[..., object]
Url: TypeAlias = Annotated[AnyUrl, UrlConstraints(host_required=False)]

# Base classes


class Model(BaseModel, extra="allow", defer_build=True):
    pass


class BaseMetadata(BaseModel, defer_build=True):
    """Base class for entities with name and optional title fields."""

    name: str
    title: str | None = None


class TaskMetadata(Model):
    ttl: Whole | None = None


class RequestParams(BaseModel, defer_build=True):
    class Meta(Model):
        progressToken: ProgressToken | None = None

    task: TaskMetadata | None = None
    meta: Meta | None = Field(alias="_meta", default=None)


class PaginatedRequestParams(RequestParams):
    cursor: Cursor | None = None


class NotificationParams(BaseModel, defer_build=True):
    class Meta(Model):
        pass

    meta: Meta | None = Field(alias="_meta", default=None)


RequestParamsT = TypeVar("RequestParamsT", bound=RequestParams | Json | None)
NotificationParamsT = TypeVar("NotificationParamsT", bound=NotificationParams | Json | None)
MethodT = TypeVar("MethodT", bound=str)


class Request(Model, Generic[RequestParamsT, MethodT]):
    method: MethodT
    params: RequestParamsT


class Notification(Model, Generic[NotificationParamsT, MethodT]):
    method: MethodT
    params: NotificationParamsT


if TYPE_CHECKING:
    _Paginated: TypeAlias = Request[PaginatedRequestParams | None, str]
else:
    _Paginated = Request  # pydantic builds a parametrized class at once


class PaginatedRequest(_Paginated):
    params: PaginatedRequestParams | None = None


class Result(Model):
    meta: Json | None = Field(alias="_meta", default=None)


class PaginatedResult(Result):
    nextCursor: Cursor | None = None


class ErrorData(Model):
    """Error information for JSON-RPC error responses."""

    code: int
    message: str
    data: object | None = None


class Spoken:
    if TYPE_CHECKING:
        content: list[object] | BaseModel

    @property
    def content_as_list(self) -> list[object]:
        return self.content if isinstance(self.content, list) else [self.content]


# Display


class Annotations(Model):
    audience: list[Role] | None = None
    priority: Annotated[float, Field(ge=0.0, le=1.0)] | None = None


class Icon(Model):
    """An icon for display in user interfaces."""

    src: str
    mimeType: str | None = None
    sizes: list[str] | None = None


# Resources


class Resource(BaseMetadata, Model):
    """A known resource that the server is capable of reading."""

    uri: Url
    description: str | None = None
    mimeType: str | None = None
    size: int | None = None
    icons: list[Icon] | None = None
    annotations: Annotations | None = None
    meta: Json | None = Field(alias="_meta", default=None)


class ResourceTemplate(BaseMetadata, Model):
    """A template description for resources available on the server."""

    uriTemplate: str
    description: str | None = None
    mimeType: str | None = None
    icons: list[Icon] | None = None
    annotations: Annotations | None = None
    meta: Json | None = Field(alias="_meta", default=None)


class ResourceContents(Model):
    """The contents of a specific resource or sub-resource."""

    uri: Url
    mimeType: str | None = None
    meta: Json | None = Field(alias="_meta", default=None)


class TextResourceContents(ResourceContents):
    """Text contents of a resource."""

    text: str


class BlobResourceContents(ResourceContents):
    """Binary contents of a resource."""

    blob: str


# Content


class TextContent(Model):
    """Text content for a message."""

    type: Literal["text"]
    text: str
    annotations: Annotations | None = None
    meta: Json | None = Field(alias="_meta", default=None)


class ImageContent(Model):
    """Image content for a message."""

    type: Literal["image"]
    data: str
    mimeType: str
    annotations: Annotations | None = None
    meta: Json | None = Field(alias="_meta", default=None)


class AudioContent(Model):
    """Audio content for a message."""

    type: Literal["audio"]
    data: str
    mimeType: str
    annotations: Annotations | None = None
    meta: Json | None = Field(alias="_meta", default=None)


class EmbeddedResource(Model):
    """
    The contents of a resource, embedded into a prompt or tool call result.

    It is up to the client how best to render embedded resources for the benefit
    of the LLM and/or the user.
    """

    type: Literal["resource"]
    resource: TextResourceContents | BlobResourceContents
    annotations: Annotations | None = None
    meta: Json | None = Field(alias="_meta", default=None)


class ResourceLink(Resource):
    """
    A resource that the server is capable of reading, included in a prompt or tool call result.

    Note: resource links returned by tools are not guaranteed to appear in the results of `resources/list` requests.
    """

    type: Literal["resource_link"]


ContentBlock: TypeAlias = TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource
Content: TypeAlias = ContentBlock

# Tools and prompts


class ToolAnnotations(Model):
    """Additional properties describing a Tool to clients.

    NOTE: all properties in ToolAnnotations are **hints**.
    They are not guaranteed to provide a faithful description of
    tool behavior (including descriptive properties like `title`).

    Clients should never make tool use decisions based on ToolAnnotations
    received from untrusted servers.
    """

    title: str | None = None
    readOnlyHint: bool | None = None
    destructiveHint: bool | None = None
    idempotentHint: bool | None = None
    openWorldHint: bool | None = None


class ToolExecution(Model):
    """Execution-related properties for a tool."""

    taskSupport: Literal["forbidden", "optional", "required"] | None = None


class Tool(BaseMetadata, Model):
    """Definition for a tool the client can call."""

    description: str | None = None
    inputSchema: Json
    outputSchema: Json | None = None
    icons: list[Icon] | None = None
    annotations: ToolAnnotations | None = None
    meta: Json | None = Field(alias="_meta", default=None)
    execution: ToolExecution | None = None


class CallToolResult(Result):
    """The server's response to a tool call."""

    content: list[ContentBlock]
    structuredContent: Json | None = None
    isError: bool = False


class PromptArgument(Model):
    """An argument for a prompt template."""

    name: str
    description: str | None = None
    required: bool | None = None


class Prompt(BaseMetadata, Model):
    """A prompt or prompt template that the server offers."""

    description: str | None = None
    arguments: list[PromptArgument] | None = None
    icons: list[Icon] | None = None
    meta: Json | None = Field(alias="_meta", default=None)


class PromptMessage(Model):
    """Describes a message returned as part of a prompt."""

    role: Role
    content: ContentBlock


class GetPromptResult(Result):
    """The server's response to a prompts/get request from the client."""

    description: str | None = None
    messages: list[PromptMessage]


# Other classes


def __getattr__(name: str) -> Incomplete:
    """Create a class from the table. Raises AttributeError if there is none."""
    if name == "__all__":
        return __dir__()
    found = globals()[name] = message_table.create(name, sys.modules[__name__])
    return found


def __dir__() -> list[str]:
    written = [
        name for name, it in globals().items() if not name.startswith("_") and not isinstance(it, type(sys))
    ]
    return sorted({*message_table.FACTS, *written})
