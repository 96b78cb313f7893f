"""Types for arguments and results of tools, and of the objects that a client receives."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .content.iterators_and_third_party_values import as_content
    from .protocol.objects import (
        AudioBlock,
        ContentBlock,
        EmbeddedResourceBlock,
        ImageBlock,
        Implementation,
        PromptArgument,
        PromptDefinition,
        PromptMessage,
        ResourceContents,
        ResourceDefinition,
        ResourceLinkBlock,
        ResourceTemplateDefinition,
        ServerCapabilities,
        TextBlock,
        ToolDefinition,
    )
    from .schema.custom_schemas import json_type
    from .schema.patterns_and_formats import Email, Uri
else:
    from ._utils.package import late_names

    __getattr__ = late_names(
        globals(),
        {
            ".content.iterators_and_third_party_values": "as_content",
            ".protocol.objects": (
                "AudioBlock ContentBlock EmbeddedResourceBlock ImageBlock Implementation PromptArgument "
                "PromptDefinition PromptMessage ResourceContents ResourceDefinition ResourceLinkBlock "
                "ResourceTemplateDefinition ServerCapabilities TextBlock ToolDefinition"
            ),
            ".schema.custom_schemas": "json_type",
            ".schema.patterns_and_formats": "Email Uri",
        },
    )

__all__ = [
    "AudioBlock",
    "ContentBlock",
    "Email",
    "EmbeddedResourceBlock",
    "ImageBlock",
    "Implementation",
    "PromptArgument",
    "PromptDefinition",
    "PromptMessage",
    "ResourceContents",
    "ResourceDefinition",
    "ResourceLinkBlock",
    "ResourceTemplateDefinition",
    "ServerCapabilities",
    "TextBlock",
    "ToolDefinition",
    "Uri",
    "as_content",
    "json_type",
]
