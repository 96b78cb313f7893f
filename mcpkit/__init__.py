"""mcpkit: write Model Context Protocol servers with decorators.

Public are the names in `__all__` of `mcpkit`, `mcpkit.auth`, `mcpkit.client`, `mcpkit.doctor`, `mcpkit.elicitation`,
`mcpkit.exceptions`, `mcpkit.extensions`, `mcpkit.middleware`, `mcpkit.storage`, `mcpkit.testing`, `mcpkit.transports`,
`mcpkit.transports.stdio`, `mcpkit.types` and `mcpkit.protocol.revisions`; and, for servers that were written for other
SDKs, those of `mcpkit.compat`, `mcpkit.compat.fastmcp`, `mcpkit.compat.lowlevel`, `mcpkit.compat.mcp_fastmcp`,
`mcpkit.compat.types` and `mcpkit.compat.agent_sdk`. Everything else is internal, and may change at any time.
"""

from ._utils.python_safe_path import forget_current_folder

forget_current_folder()  # before any other import; that of __future__ would be one

from typing import TYPE_CHECKING  # noqa: E402

from ._utils.package import __version__ as __version__  # noqa: E402

if TYPE_CHECKING:
    from ._utils.exceptions import PromptError, ProtocolError, RegistrationError, ResourceError, ToolError
    from .client.client import Client
    from .client.client_group import ClientGroup
    from .client.sync_client import SyncClient
    from .client.timeouts_retries_and_progress import Retries, Timeout
    from .components.component import Access
    from .components.dependencies import Ask, Depends, FromHeader, FromState
    from .components.prompts_and_completion import Complete, Prompt
    from .components.registry_and_decorators import prompt, resource, tool
    from .components.resource import Resource, ResourceTemplate
    from .components.tool import ResultOptions, Task, Tool
    from .content.blocks import (
        Audio,
        EmbeddedResource,
        File,
        Image,
        Message,
        ResourceLink,
        Text,
        ToolResult,
        assistant,
        user,
    )
    from .context import Context, current_context
    from .engine.included_providers_and_extensions import Extension, Registry
    from .identity.principals_and_scopes import Principal, Scope
    from .options import HttpOptions, Limits, ServerOptions, TaskOptions, Timeouts
    from .protocol.objects import Annotations, Icon, ToolAnnotations
    from .protocol.revisions import CacheHint
    from .providers.directory import resource_dir
    from .providers.provider_and_transforms import Provider
    from .requests.log_handler import LogHandler
    from .server import Server
else:
    from ._utils.package import late_names

    # Imported on first use, since each module adds to the time of every start, and a client needs no server.
    __getattr__ = late_names(
        globals(),
        {
            ".requests.log_handler": "LogHandler",
            ".client.client": "Client",
            ".client.client_group": "ClientGroup",
            ".client.timeouts_retries_and_progress": "Retries Timeout",
            ".client.sync_client": "SyncClient",
            "._utils.exceptions": "PromptError ProtocolError RegistrationError ResourceError ToolError",
            ".context": "Context current_context",
            ".components.component": "Access",
            ".components.dependencies": "Ask Depends FromHeader FromState",
            ".components.registry_and_decorators": "prompt resource tool",
            ".components.prompts_and_completion": "Complete Prompt",
            ".providers.directory": "resource_dir",
            ".components.resource": "Resource ResourceTemplate",
            ".components.tool": "ResultOptions Task Tool",
            ".content.blocks": "Audio EmbeddedResource File Image Message ResourceLink Text ToolResult assistant user",
            ".providers.provider_and_transforms": "Provider",
            ".engine.included_providers_and_extensions": "Extension Registry",
            ".options": "HttpOptions Limits ServerOptions TaskOptions Timeouts",
            ".protocol.revisions": "CacheHint",
            ".protocol.objects": "Annotations Icon ToolAnnotations",
            ".server": "Server",
            ".identity.principals_and_scopes": "Principal Scope",
        },
    )

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})


__all__ = [
    "Access",
    "Annotations",
    "Ask",
    "Audio",
    "CacheHint",
    "Client",
    "ClientGroup",
    "Complete",
    "Context",
    "Depends",
    "EmbeddedResource",
    "Extension",
    "File",
    "FromHeader",
    "FromState",
    "HttpOptions",
    "Icon",
    "Image",
    "Limits",
    "LogHandler",
    "Message",
    "Principal",
    "Prompt",
    "PromptError",
    "ProtocolError",
    "Provider",
    "RegistrationError",
    "Registry",
    "Resource",
    "ResourceError",
    "ResourceLink",
    "ResourceTemplate",
    "ResultOptions",
    "Retries",
    "Scope",
    "Server",
    "ServerOptions",
    "SyncClient",
    "Task",
    "TaskOptions",
    "Text",
    "Timeout",
    "Timeouts",
    "Tool",
    "ToolAnnotations",
    "ToolError",
    "ToolResult",
    "assistant",
    "current_context",
    "prompt",
    "resource",
    "resource_dir",
    "tool",
    "user",
]
