"""Objects of the protocol that clients receive, each with the members of all protocol versions (schema)."""

# No `from __future__ import annotations`, as in `types.py`.

from typing import Literal, TypeAlias

from typing_extensions import Required, TypedDict

from .types import Annotations, Icon, Json, ToolAnnotations


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


class ResourceDefinition(TypedDict, total=False):
    """A resource in the result of `resources/list` (schema, `Resource`)."""

    uri: Required[str]
    name: Required[str]
    title: str
    description: str
    mimeType: str
    size: int
    """Size of the contents in bytes, before any encoding."""
    annotations: Annotations
    icons: list[Icon]
    _meta: Json


class ResourceTemplateDefinition(TypedDict, total=False):
    """A template in the result of `resources/templates/list` (schema, `ResourceTemplate`)."""

    uriTemplate: Required[str]
    name: Required[str]
    title: str
    description: str
    mimeType: str
    annotations: Annotations
    icons: list[Icon]
    _meta: Json


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


class TextBlock(TypedDict, total=False):
    """A text block (schema, `TextContent`)."""

    type: Required[Literal["text"]]
    text: Required[str]
    annotations: Annotations
    _meta: Json


class ImageBlock(TypedDict, total=False):
    """An image block, with `data` in base64 (schema, `ImageContent`)."""

    type: Required[Literal["image"]]
    data: Required[str]
    mimeType: Required[str]
    annotations: Annotations
    _meta: Json


class AudioBlock(TypedDict, total=False):
    """An audio block, with `data` in base64 (schema, `AudioContent`)."""

    type: Required[Literal["audio"]]
    data: Required[str]
    mimeType: Required[str]
    annotations: Annotations
    _meta: Json


class ResourceLinkBlock(ResourceDefinition):
    """A link to a resource as a content block (schema, `ResourceLink`)."""

    type: Literal["resource_link"]


class EmbeddedResourceBlock(TypedDict, total=False):
    """A block with the contents of a resource (schema, `EmbeddedResource`)."""

    type: Required[Literal["resource"]]
    resource: Required[ResourceContents]
    annotations: Annotations
    _meta: Json


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
