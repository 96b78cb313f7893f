"""mcpkit: write Model Context Protocol servers with decorators.

Public are the names of `mcpkit`, `mcpkit.middleware`, `mcpkit.middlewares`, `mcpkit.testing`, `mcpkit.transports`,
`mcpkit.transports.stdio` and `mcpkit.protocol.revisions`. Everything else is internal, and may change at any time.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from .common.version import __version__ as __version__
from .components.completion import Complete
from .components.custom_methods import Method
from .components.included import Included
from .components.injection.markers import Depends, FromHeader, FromState
from .components.marking import prompt, resource, tool
from .components.prompts import Prompt
from .components.resources import Resource, ResourceTemplate
from .components.tools import Tool
from .content.messages import Message, assistant, user
from .content.renderers import as_content
from .content.values import (
    Audio,
    EmbeddedResource,
    ExtensionResult,
    File,
    Image,
    ResourceLink,
    Text,
    ToolResult,
)
from .context import Context, current_context
from .engine.error_hooks import Failure
from .engine.provider import Provider
from .engine.registry import Extension, Registry
from .errors import (
    AnswerError,
    ArgumentsError,
    CallTimeoutError,
    ChallengeError,
    ElicitationError,
    InputRequired,
    MissingCapabilityError,
    ProcessEndedError,
    PromptError,
    ProtocolError,
    RegistrationError,
    ResourceError,
    ResourceNotFoundError,
    ToolError,
)
from .protocol.eras import Cache
from .protocol.mirrored import Header
from .protocol.types import Annotations, Icon, ToolAnnotations
from .schema.texts import Email, Uri
from .server import Server
from .state.broker import Broker, MemoryBroker
from .state.principal import Principal
from .state.store import MemoryStore, Store, Stored

if TYPE_CHECKING:
    from .calls.asking.questions import Answer, Elicit, ElicitUrl, ListRoots
    from .calls.asking.roots import Root
    from .calls.asking.sampling import Sample, Sampled
    from .calls.log_handler import LogHandler
    from .client.changes import Change, Watch
    from .client.errors import AuthorizationError, OutcomeUnknownError, StatusError, TransportError
    from .client.forms import FormChoice, FormField, FormRequest
    from .client.results import CallResult
    from .client.roof import Client
    from .client.sampling import Sampler, SampleRequest
    from .client.sync import SyncClient
    from .client.visits import UrlRequest
    from .components.injection.ask import Ask
    from .components.resource_dir import resource_dir
    from .engine.base_tool import BaseTool
    from .engine.topic import Topic
    from .schema.json_types import json_type
else:
    _RARE = {
        "Answer": "calls.asking.questions",
        "Elicit": "calls.asking.questions",
        "ElicitUrl": "calls.asking.questions",
        "ListRoots": "calls.asking.questions",
        "Root": "calls.asking.roots",
        "Sample": "calls.asking.sampling",
        "Sampled": "calls.asking.sampling",
        "LogHandler": "calls.log_handler",
        "AuthorizationError": "client.errors",
        "CallResult": "client.results",
        "Change": "client.changes",
        "Client": "client.roof",
        "FormChoice": "client.forms",
        "FormField": "client.forms",
        "FormRequest": "client.forms",
        "OutcomeUnknownError": "client.errors",
        "SampleRequest": "client.sampling",
        "Sampler": "client.sampling",
        "StatusError": "client.errors",
        "SyncClient": "client.sync",
        "TransportError": "client.errors",
        "UrlRequest": "client.visits",
        "Watch": "client.changes",
        "Ask": "components.injection.ask",
        "resource_dir": "components.resource_dir",
        "BaseTool": "engine.base_tool",
        "Topic": "engine.topic",
        "json_type": "schema.json_types",
    }

    def __getattr__(name: str) -> object:
        """Import what few servers need when it is asked for: each module that is loaded costs every start."""
        if name not in _RARE:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = globals()[name] = getattr(import_module(f"{__name__}.{_RARE[name]}"), name)
        return found

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})


__all__ = [
    "Annotations",
    "Answer",
    "AnswerError",
    "ArgumentsError",
    "Ask",
    "Audio",
    "AuthorizationError",
    "BaseTool",
    "Broker",
    "Cache",
    "CallResult",
    "CallTimeoutError",
    "ChallengeError",
    "Change",
    "Client",
    "Complete",
    "Context",
    "Depends",
    "Elicit",
    "ElicitUrl",
    "ElicitationError",
    "Email",
    "EmbeddedResource",
    "Extension",
    "ExtensionResult",
    "Failure",
    "File",
    "FormChoice",
    "FormField",
    "FormRequest",
    "FromHeader",
    "FromState",
    "Header",
    "Icon",
    "Image",
    "Included",
    "InputRequired",
    "ListRoots",
    "LogHandler",
    "MemoryBroker",
    "MemoryStore",
    "Message",
    "Method",
    "MissingCapabilityError",
    "OutcomeUnknownError",
    "Principal",
    "ProcessEndedError",
    "Prompt",
    "PromptError",
    "ProtocolError",
    "Provider",
    "RegistrationError",
    "Registry",
    "Resource",
    "ResourceError",
    "ResourceLink",
    "ResourceNotFoundError",
    "ResourceTemplate",
    "Root",
    "Sample",
    "SampleRequest",
    "Sampled",
    "Sampler",
    "Server",
    "StatusError",
    "Store",
    "Stored",
    "SyncClient",
    "Text",
    "Tool",
    "ToolAnnotations",
    "ToolError",
    "ToolResult",
    "Topic",
    "TransportError",
    "Uri",
    "UrlRequest",
    "Watch",
    "as_content",
    "assistant",
    "current_context",
    "json_type",
    "prompt",
    "resource",
    "resource_dir",
    "tool",
    "user",
]
