"""mcpkit: write Model Context Protocol servers with decorators."""

from __future__ import annotations

from .access.principal import Principal
from .asking.parameter import Ask
from .asking.questions import Answer, Elicit, ElicitUrl, ListRoots
from .asking.root import Root
from .asking.sampling import Sample, Sampled
from .broker import Broker, MemoryBroker
from .completion import Complete
from .content.messages import Message, assistant, user
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
from .error_hooks import Failure
from .errors import (
    AnswerError,
    ArgumentsError,
    CallTimeoutError,
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
from .headers import Header
from .injection.hidden import Depends, FromHeader, FromState
from .json_types import json_type
from .log_handler import LogHandler
from .own_methods import Method
from .prompts import Prompt
from .protocol.eras import Cache
from .protocol.types import Annotations, Icon, ToolAnnotations
from .registration.included import Included
from .registration.marking import prompt, resource, tool
from .registration.registry import Extension, Registry
from .resource_dir import resource_dir
from .resources import Resource, ResourceTemplate
from .server import Server
from .texts import Email, Uri
from .tools import Tool
from .version import __version__ as __version__

__all__ = [
    "Annotations",
    "Answer",
    "AnswerError",
    "ArgumentsError",
    "Ask",
    "Audio",
    "Broker",
    "Cache",
    "CallTimeoutError",
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
    "Message",
    "Method",
    "MissingCapabilityError",
    "Principal",
    "ProcessEndedError",
    "Prompt",
    "PromptError",
    "ProtocolError",
    "RegistrationError",
    "Registry",
    "Resource",
    "ResourceError",
    "ResourceLink",
    "ResourceNotFoundError",
    "ResourceTemplate",
    "Root",
    "Sample",
    "Sampled",
    "Server",
    "Text",
    "Tool",
    "ToolAnnotations",
    "ToolError",
    "ToolResult",
    "Uri",
    "assistant",
    "current_context",
    "json_type",
    "prompt",
    "resource",
    "resource_dir",
    "tool",
    "user",
]
