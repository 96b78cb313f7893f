"""mcpkit: write Model Context Protocol servers with decorators.

Public are the names of `mcpkit`, `mcpkit.auth`, `mcpkit.middleware`, `mcpkit.middlewares`, `mcpkit.testing`,
`mcpkit.transports`, `mcpkit.transports.stdio` and `mcpkit.protocol.revisions`; and, for servers that were written for
other SDKs, those of `mcpkit.compat`, `mcpkit.compat.fastmcp`, `mcpkit.compat.lowlevel`, `mcpkit.compat.standalone`,
`mcpkit.compat.types` and `mcpkit.compat.agent_sdk`. Everything else is internal, and may change at any time.
"""

from .common.start import forget_current_folder

forget_current_folder()  # before any other import; that of __future__ would be one

from importlib import import_module  # noqa: E402
from typing import TYPE_CHECKING  # noqa: E402

from .common.version import __version__ as __version__  # noqa: E402

if TYPE_CHECKING:
    from .calls.asking.questions import Answer, Elicit, ElicitUrl, ListRoots
    from .calls.asking.roots import Root
    from .calls.asking.sampling import Sample, Sampled
    from .calls.log_handler import LogHandler
    from .client.asking.forms import FormChoice, FormField, FormRequest
    from .client.asking.sampling import Sampler, SampleRequest
    from .client.asking.visits import UrlRequest
    from .client.authorization.checking.check import check_authorization
    from .client.authorization.checking.finding import Finding
    from .client.authorization.client_credentials import ClientCredentials
    from .client.authorization.file_tokens import FileTokens
    from .client.authorization.id_jag import EnterpriseManaged
    from .client.authorization.keyring_tokens import KeyringTokens
    from .client.authorization.loopback import Loopback
    from .client.authorization.oauth import OAuth
    from .client.authorization.storage import MemoryTokens, TokenStorage, TokenStorageError
    from .client.authorization.workload_identity import WorkloadIdentity
    from .client.changes.changes import Change, Watch
    from .client.link.errors import (
        AuthorizationError,
        IncompleteListError,
        InvalidResultError,
        OutcomeUnknownError,
        StatusError,
        TransportError,
    )
    from .client.link.results import CallResult
    from .client.link.transport import Receiver, Transport
    from .client.observability.recording import Replay
    from .client.observability.telemetry import ClientTelemetry
    from .client.roof import Client
    from .client.sync import SyncClient, SyncTool, SyncWatch
    from .client.tools.tools import RemoteTool
    from .common.errors import (
        AnswerError,
        ArgumentsError,
        CallTimeoutError,
        ChallengeError,
        ElicitationError,
        InputRequired,
        InsufficientScopeError,
        LoginNeededError,
        MissingCapabilityError,
        ProcessEndedError,
        PromptError,
        ProtocolError,
        ProviderUnavailableError,
        RegistrationError,
        ResourceError,
        ResourceNotFoundError,
        ToolError,
    )
    from .components.completion import Complete
    from .components.context import Context, current_context
    from .components.custom_methods import Method
    from .components.included import Included
    from .components.injection.ask import Ask
    from .components.injection.markers import Depends, FromHeader, FromState
    from .components.marking import prompt, resource, tool
    from .components.prompts import Prompt
    from .components.resource_dir import resource_dir
    from .components.resources import Resource, ResourceTemplate
    from .components.task import Task
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
    from .engine.base_tool import BaseTool
    from .engine.error_hooks import Failure
    from .engine.provider import Provider
    from .engine.registry import Extension, Registry
    from .engine.topic import Topic
    from .protocol.client import Outgoing
    from .protocol.eras import Cache
    from .protocol.mirrored import Header
    from .protocol.types import Annotations, Icon, ToolAnnotations
    from .schema.json_types import json_type
    from .schema.texts import Email, Uri
    from .server import Server
    from .state.broker import Broker
    from .state.memory import Memory
    from .state.principal import Principal
    from .state.queue import Queue
    from .state.redis import Redis
    from .state.scopes import Scope
    from .state.shared import Shared
    from .state.sqlite import Sqlite
    from .state.store import Store, Stored
    from .tasks.options import Tasks
else:
    _NAMES = {
        "client.authorization.workload_identity": "WorkloadIdentity",
        "client.authorization.id_jag": "EnterpriseManaged",
        "client.authorization.client_credentials": "ClientCredentials",
        "client.authorization.checking.finding": "Finding",
        "client.authorization.checking.check": "check_authorization",
        "client.authorization.storage": "MemoryTokens TokenStorage TokenStorageError",
        "client.authorization.loopback": "Loopback",
        "client.authorization.oauth": "OAuth",
        "client.authorization.keyring_tokens": "KeyringTokens",
        "client.authorization.file_tokens": "FileTokens",
        "calls.asking.questions": "Answer Elicit ElicitUrl ListRoots",
        "calls.asking.roots": "Root",
        "calls.asking.sampling": "Sample Sampled",
        "calls.log_handler": "LogHandler",
        "client.changes.changes": "Change Watch",
        "client.link.errors": (
            "AuthorizationError IncompleteListError InvalidResultError OutcomeUnknownError StatusError TransportError "
        ),
        "client.asking.forms": "FormChoice FormField FormRequest",
        "client.observability.recording": "Replay",
        "client.link.results": "CallResult",
        "client.roof": "Client",
        "client.asking.sampling": "SampleRequest Sampler",
        "client.sync": "SyncClient SyncTool SyncWatch",
        "client.observability.telemetry": "ClientTelemetry",
        "client.tools.tools": "RemoteTool",
        "client.link.transport": "Receiver Transport",
        "client.asking.visits": "UrlRequest",
        "components.completion": "Complete",
        "components.custom_methods": "Method",
        "components.included": "Included",
        "components.injection.ask": "Ask",
        "components.injection.markers": "Depends FromHeader FromState",
        "components.marking": "prompt resource tool",
        "components.prompts": "Prompt",
        "components.resource_dir": "resource_dir",
        "components.resources": "Resource ResourceTemplate",
        "components.task": "Task",
        "components.tools": "Tool",
        "content.messages": "Message assistant user",
        "content.renderers": "as_content",
        "content.values": "Audio EmbeddedResource ExtensionResult File Image ResourceLink Text ToolResult",
        "components.context": "Context current_context",
        "engine.base_tool": "BaseTool",
        "engine.error_hooks": "Failure",
        "engine.provider": "Provider",
        "engine.registry": "Extension Registry",
        "engine.topic": "Topic",
        "common.errors": (
            "AnswerError ArgumentsError CallTimeoutError ChallengeError ElicitationError InputRequired "
            "InsufficientScopeError LoginNeededError "
            "MissingCapabilityError ProcessEndedError PromptError ProtocolError ProviderUnavailableError "
            "RegistrationError ResourceError ResourceNotFoundError ToolError "
        ),
        "protocol.client": "Outgoing",
        "protocol.eras": "Cache",
        "protocol.mirrored": "Header",
        "protocol.types": "Annotations Icon ToolAnnotations",
        "schema.json_types": "json_type",
        "schema.texts": "Email Uri",
        "server": "Server",
        "state.broker": "Broker",
        "state.memory": "Memory",
        "state.principal": "Principal",
        "state.redis": "Redis",
        "state.scopes": "Scope",
        "state.queue": "Queue",
        "state.shared": "Shared",
        "state.sqlite": "Sqlite",
        "state.store": "Store Stored",
        "tasks.options": "Tasks",
    }
    _PLACES = {name: module for module, names in _NAMES.items() for name in names.split()}

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
    "ClientCredentials",
    "ClientTelemetry",
    "Complete",
    "Context",
    "Depends",
    "Elicit",
    "ElicitUrl",
    "ElicitationError",
    "Email",
    "EmbeddedResource",
    "EnterpriseManaged",
    "Extension",
    "ExtensionResult",
    "Failure",
    "File",
    "FileTokens",
    "Finding",
    "FormChoice",
    "FormField",
    "FormRequest",
    "FromHeader",
    "FromState",
    "Header",
    "Icon",
    "Image",
    "Included",
    "IncompleteListError",
    "InputRequired",
    "InsufficientScopeError",
    "InvalidResultError",
    "KeyringTokens",
    "ListRoots",
    "LogHandler",
    "LoginNeededError",
    "Loopback",
    "Memory",
    "MemoryTokens",
    "Message",
    "Method",
    "MissingCapabilityError",
    "OAuth",
    "OutcomeUnknownError",
    "Outgoing",
    "Principal",
    "ProcessEndedError",
    "Prompt",
    "PromptError",
    "ProtocolError",
    "Provider",
    "ProviderUnavailableError",
    "Queue",
    "Receiver",
    "Redis",
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
    "Scope",
    "Server",
    "Shared",
    "Sqlite",
    "StatusError",
    "Store",
    "Stored",
    "SyncClient",
    "SyncTool",
    "SyncWatch",
    "Task",
    "Tasks",
    "Text",
    "TokenStorage",
    "TokenStorageError",
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
    "WorkloadIdentity",
    "as_content",
    "assistant",
    "check_authorization",
    "current_context",
    "json_type",
    "prompt",
    "resource",
    "resource_dir",
    "tool",
    "user",
]
