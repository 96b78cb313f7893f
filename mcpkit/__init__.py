"""mcpkit: write Model Context Protocol servers with decorators.

Public are the names of `mcpkit`, `mcpkit.middleware`, `mcpkit.middlewares`, `mcpkit.testing`, `mcpkit.transports`,
`mcpkit.transports.stdio` and `mcpkit.protocol.revisions`. Everything else is internal, and may change at any time.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from .common.version import __version__ as __version__

if TYPE_CHECKING:
    from .calls.asking.questions import Answer, Elicit, ElicitUrl, ListRoots
    from .calls.asking.roots import Root
    from .calls.asking.sampling import Sample, Sampled
    from .calls.log_handler import LogHandler
    from .client.changes import Change, Watch
    from .client.errors import (
        AuthorizationError,
        InvalidResultError,
        OutcomeUnknownError,
        StatusError,
        TransportError,
    )
    from .client.forms import FormChoice, FormField, FormRequest
    from .client.recording import Replay
    from .client.results import CallResult
    from .client.roof import Client
    from .client.sampling import Sampler, SampleRequest
    from .client.sync import SyncClient, SyncTool, SyncWatch
    from .client.telemetry import ClientTelemetry
    from .client.tools import RemoteTool
    from .client.transport import Receiver, Transport
    from .client.visits import UrlRequest
    from .components.completion import Complete
    from .components.custom_methods import Method
    from .components.included import Included
    from .components.injection.ask import Ask
    from .components.injection.markers import Depends, FromHeader, FromState
    from .components.marking import prompt, resource, tool
    from .components.prompts import Prompt
    from .components.resource_dir import resource_dir
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
    from .engine.base_tool import BaseTool
    from .engine.error_hooks import Failure
    from .engine.provider import Provider
    from .engine.registry import Extension, Registry
    from .engine.topic import Topic
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
    from .protocol.client import Outgoing
    from .protocol.eras import Cache
    from .protocol.mirrored import Header
    from .protocol.types import Annotations, Icon, ToolAnnotations
    from .schema.json_types import json_type
    from .schema.texts import Email, Uri
    from .server import Server
    from .state.broker import Broker, MemoryBroker
    from .state.principal import Principal
    from .state.store import MemoryStore, Store, Stored
else:
    _PLACES = {
        "Annotations": "protocol.types",
        "Answer": "calls.asking.questions",
        "AnswerError": "errors",
        "ArgumentsError": "errors",
        "Ask": "components.injection.ask",
        "Audio": "content.values",
        "AuthorizationError": "client.errors",
        "BaseTool": "engine.base_tool",
        "Broker": "state.broker",
        "Cache": "protocol.eras",
        "CallResult": "client.results",
        "CallTimeoutError": "errors",
        "ChallengeError": "errors",
        "Change": "client.changes",
        "Client": "client.roof",
        "ClientTelemetry": "client.telemetry",
        "Complete": "components.completion",
        "Context": "context",
        "Depends": "components.injection.markers",
        "Elicit": "calls.asking.questions",
        "ElicitUrl": "calls.asking.questions",
        "ElicitationError": "errors",
        "Email": "schema.texts",
        "EmbeddedResource": "content.values",
        "Extension": "engine.registry",
        "ExtensionResult": "content.values",
        "Failure": "engine.error_hooks",
        "File": "content.values",
        "FormChoice": "client.forms",
        "FormField": "client.forms",
        "FormRequest": "client.forms",
        "FromHeader": "components.injection.markers",
        "FromState": "components.injection.markers",
        "Header": "protocol.mirrored",
        "Icon": "protocol.types",
        "Image": "content.values",
        "Included": "components.included",
        "InputRequired": "errors",
        "InvalidResultError": "client.errors",
        "ListRoots": "calls.asking.questions",
        "LogHandler": "calls.log_handler",
        "MemoryBroker": "state.broker",
        "MemoryStore": "state.store",
        "Message": "content.messages",
        "Method": "components.custom_methods",
        "MissingCapabilityError": "errors",
        "OutcomeUnknownError": "client.errors",
        "Outgoing": "protocol.client",
        "Principal": "state.principal",
        "ProcessEndedError": "errors",
        "Prompt": "components.prompts",
        "PromptError": "errors",
        "ProtocolError": "errors",
        "Provider": "engine.provider",
        "Receiver": "client.transport",
        "RegistrationError": "errors",
        "Registry": "engine.registry",
        "RemoteTool": "client.tools",
        "Replay": "client.recording",
        "Resource": "components.resources",
        "ResourceError": "errors",
        "ResourceLink": "content.values",
        "ResourceNotFoundError": "errors",
        "ResourceTemplate": "components.resources",
        "Root": "calls.asking.roots",
        "Sample": "calls.asking.sampling",
        "SampleRequest": "client.sampling",
        "Sampled": "calls.asking.sampling",
        "Sampler": "client.sampling",
        "Server": "server",
        "StatusError": "client.errors",
        "Store": "state.store",
        "Stored": "state.store",
        "SyncClient": "client.sync",
        "SyncTool": "client.sync",
        "SyncWatch": "client.sync",
        "Text": "content.values",
        "Tool": "components.tools",
        "ToolAnnotations": "protocol.types",
        "ToolError": "errors",
        "ToolResult": "content.values",
        "Topic": "engine.topic",
        "Transport": "client.transport",
        "TransportError": "client.errors",
        "Uri": "schema.texts",
        "UrlRequest": "client.visits",
        "Watch": "client.changes",
        "as_content": "content.renderers",
        "assistant": "content.messages",
        "current_context": "context",
        "json_type": "schema.json_types",
        "prompt": "components.marking",
        "resource": "components.marking",
        "resource_dir": "components.resource_dir",
        "tool": "components.marking",
        "user": "content.messages",
    }

    def __getattr__(name: str) -> object:
        """Import what is asked for, and nothing else: a client needs no server, and each module costs every start."""
        if name not in _PLACES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = globals()[name] = getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
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
    "ClientTelemetry",
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
    "InvalidResultError",
    "ListRoots",
    "LogHandler",
    "MemoryBroker",
    "MemoryStore",
    "Message",
    "Method",
    "MissingCapabilityError",
    "OutcomeUnknownError",
    "Outgoing",
    "Principal",
    "ProcessEndedError",
    "Prompt",
    "PromptError",
    "ProtocolError",
    "Provider",
    "Receiver",
    "RegistrationError",
    "Registry",
    "RemoteTool",
    "Replay",
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
    "SyncTool",
    "SyncWatch",
    "Text",
    "Tool",
    "ToolAnnotations",
    "ToolError",
    "ToolResult",
    "Topic",
    "Transport",
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
