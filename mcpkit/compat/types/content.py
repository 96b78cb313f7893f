"""Classes of `mcp.types` for resources, prompts, content and results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from pydantic import Field

from ...protocol.jsonrpc import Json
from .basic import Annotations, Icon, Model, Role
from .requests import Url
from .results import Result
from .tools import BaseMetadata

if TYPE_CHECKING:
    from pydantic import BaseModel


class ErrorData(Model):
    """Error information for JSON-RPC error responses."""

    code: int
    message: str
    data: object | None = None


class Resource(BaseMetadata, Model):
    """A known resource that the server is capable of reading."""

    uri: Url
    description: str | None = None
    mimeType: str | None = None
    size: int | None = None
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


class ResourceTemplate(BaseMetadata, Model):
    """A template description for resources available on the server."""

    uriTemplate: str
    description: str | None = None
    mimeType: str | None = None
    icons: list[Icon] | None = None
    annotations: Annotations | None = None
    meta: Json | None = Field(alias="_meta", default=None)


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


class CallToolResult(Result):
    """The server's response to a tool call."""

    content: list[ContentBlock]
    structuredContent: Json | None = None
    isError: bool = False


class GetPromptResult(Result):
    """The server's response to a prompts/get request from the client."""

    description: str | None = None
    messages: list[PromptMessage]


class Spoken:
    if TYPE_CHECKING:
        content: list[object] | BaseModel

    @property
    def content_as_list(self) -> list[object]:
        return self.content if isinstance(self.content, list) else [self.content]
