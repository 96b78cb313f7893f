"""Base class of the components of a fastmcp server, its exceptions and settings, and options without a counterpart."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection, Mapping
from copy import copy
from typing import ClassVar, Final, NoReturn

from pydantic import BaseModel
from typing_extensions import Self

from ...protocol.jsonrpc import Json
from ...protocol.objects import Incomplete
from ..shared_models_and_settings import Settings as McpSettings
from ..shared_models_and_settings import log_difference, to_json_object, to_own

# Exceptions


class FastMCPError(Exception):
    """Base class of errors with a message for clients, also if error details are masked."""

    def __init__(self, *args: object, log_level: int = logging.ERROR) -> None:
        super().__init__(*args)
        self.log_level = log_level


class ValidationError(FastMCPError):
    """Arguments do not match their types."""


class ResourceError(FastMCPError):
    """A resource cannot be read."""


class ToolError(FastMCPError):
    """A tool failed."""


class PromptError(FastMCPError):
    """A prompt cannot be rendered."""


class AuthorizationError(FastMCPError):
    """The user is not authorized."""


class ClientError(Exception):
    """A client operation failed."""


class NotFoundError(Exception):
    """The component does not exist."""


class DisabledError(Exception):
    """The component is disabled."""


# Options and attributes without a counterpart

DEFAULT_ALTERNATIVE = 'write this part for mcpkit, see "Servers of other SDKs" in its documentation'
_HTTP = "host port sse_path message_path streamable_http_path json_response stateless_http debug log_level"
_SERVER = """
website_url icons tools version lifespan on_duplicate on_duplicate_tools on_duplicate_resources on_duplicate_prompts
mask_error_details strict_input_validation dereference_schemas client_log_level experimental_capabilities
"""
_IGNORED = """
dependencies list_page_size request_state_security session_state_store sampling_handler sampling_handler_behavior
include_fastmcp_meta run_middleware
"""
HTTP_OPTIONS: Final = frozenset(_HTTP.split())
SERVER_OPTIONS: Final = HTTP_OPTIONS | frozenset(_SERVER.split())
IGNORED_OPTIONS: Final = frozenset(_IGNORED.split())


def alternatives(table: str) -> dict[str, str]:
    """Return alternatives by name, from lines such as `name other_name: alternative`."""
    lines = (line.partition(": ") for line in table.strip().splitlines())
    return {name: alternative for names, _, alternative in lines for name in names.split()}


SERVER_ALTERNATIVES: Final = alternatives("""
include_tags exclude_tags enable disable: call tool.disable(), or use @server.tool(access=Access(visible=...)) of mcpkit
transforms tool_transformations add_transform add_tool_transformation: declare the components with the names and \
arguments that they should have
providers add_provider as_proxy from_openapi from_fastapi: use server.include(...) of mcpkit, or call the other server \
with mcpkit.Client
middleware add_middleware: use @server.middleware of mcpkit
cache_ttl cache_scope: use Server(cache=...) of mcpkit
tasks add_extension get_tasks docket: use @server.tool(task=True) of mcpkit
_tool_manager _resource_manager _prompt_manager local_provider: use mcp.list_tools()
auth: use Server(auth=...) of mcpkit
resource_security: omit it: paths outside the folder are always rejected
tool_serializer: return a ToolResult
tool_names: set the names on the tools of the other server
add_template add_completion_handler: use the decorators @mcp.resource(uri) and @mcp.completion
get_resource get_resources: use await mcp.list_resources()
get_resource_template get_resource_templates: use await mcp.list_resource_templates()
get_prompts: use await mcp.list_prompts()
unmount from_client: mount only the servers that should be served
add_resource_fn: use @mcp.resource(uri)
""")
LOOKUP_ALTERNATIVES: Final = alternatives("""
version: pass only the name: each component has one version
task_meta: use @server.tool(task=True) of mcpkit
""")
"""Arguments of lookups and calls that are not supported."""
COMPONENT_ALTERNATIVES: Final = alternatives("""
app: return a resource of type text/html from a tool
auth: use Server(auth=...) and @server.tool(scopes=...) of mcpkit
exclude_args: use Depends(...) as the default of the parameter
metadata: use meta=, title=, description= and similar arguments
serializer: return a ToolResult
security: omit it: paths outside the folder are rejected in all parameters
task: use @server.tool(task=True) of mcpkit
""")
SchemaChange = Callable[[Json], Json]
"""A change of a schema before it is listed."""

COMMON_OPTIONS = frozenset({"name", "title", "description", "icons", "tags", "meta", "version", "enabled"})


def check_options(
    function: str,
    options: Json,
    known: Collection[str] = (),
    alternatives: Mapping[str, str] | None = None,
    ignored: Collection[str] = (),
) -> None:
    """Check the names of options, and log a warning for those that are ignored. Empty values are accepted.

    Raises:
        NotImplementedError: fastmcp has the option, and mcpkit.compat does not.
        TypeError: The option is unknown.
    """
    for name, value in options.items():
        if name in known:
            continue
        if alternatives and name in alternatives:
            if value:
                raise NotImplementedError(
                    f"mcpkit.compat has no {name}= of {function}. Instead, {alternatives[name]}"
                )
        elif name in ignored:
            if value is not None:
                log_difference(f"{function}({name}=)", f"{function} ignores {name}=")
        else:
            raise TypeError(f"{function} got an unexpected keyword argument {name!r}")


class _ReplacementType(type):
    """Metaclass of classes that replace those of `fastmcp`."""

    refused: Mapping[str, str]

    def __getattr__(cls, name: str) -> NoReturn:
        raise _missing(f"type object {cls.__name__!r}", name, cls)


class Replacement(metaclass=_ReplacementType):
    """Base class of classes that replace those of `fastmcp`.

    Attributes:
        refused: Alternatives to missing attributes.
    """

    __slots__ = ()

    refused: ClassVar[Mapping[str, str]] = {}

    def __getattr__(self, name: str) -> NoReturn:
        raise _missing(f"{type(self).__name__!r} object", name, type(self))


def check_positional(function: str, arguments: tuple[object, ...], names: str) -> None:
    """Check that arguments that `fastmcp` 4 takes by name only are not passed by position.

    Args:
        function: Name of the function.
        arguments: The arguments.
        names: Names of arguments that versions before 4 took there.

    Raises:
        TypeError: There are such arguments.
    """
    if arguments:
        raise TypeError(
            f"{function} takes these arguments only by name, as in fastmcp 4. Pass {names} and the others by name"
        )


def _missing(what: str, name: str, owner: _ReplacementType) -> AttributeError:
    alternative = owner.refused.get(name) or ("" if name.startswith("_") else DEFAULT_ALTERNATIVE)
    where = f" in mcpkit.compat. Instead, {alternative}" if alternative else ""
    return AttributeError(f"{what} has no attribute {name!r}{where}", name=name, obj=owner)


# Settings and components


class Settings(McpSettings):
    """Settings from environment variables `FASTMCP_...`."""

    mask_error_details: bool = False
    strict_input_validation: bool = False
    client_log_level: str | None = None
    transport: str = "stdio"


_variables = {name: os.environ.get(f"FASTMCP_{name.upper()}") for name in Settings.model_fields}
settings = Settings.model_validate({name: value for name, value in _variables.items() if value is not None})


class Component(Replacement):
    """A tool, a resource, a resource template or a prompt."""

    kind: ClassVar[str]
    more: ClassVar[frozenset[str]] = frozenset()
    server: Incomplete

    def __init__(self, name: str, description: str | None, options: Json) -> None:
        check_options(f"{self.kind}()", options, COMMON_OPTIONS | self.more, COMPONENT_ALTERNATIVES)
        self.name: str = options.get("name") or name
        if self.name == "<lambda>":
            raise ValueError("You must provide a name for lambda functions")
        own = options.get("description")
        self.description: str | None = description if own is None else own
        self.title: str | None = options.get("title")
        self.tags: set[str] = set(options.get("tags") or ())
        self.meta: Json | None = options.get("meta")
        self.version: str | None = None if options.get("version") is None else str(options["version"])
        self.icons: list[Incomplete] | None = options.get("icons")
        annotations = options.get("annotations")
        self.annotations: Json | None = (
            to_json_object(annotations) if isinstance(annotations, BaseModel) else annotations
        )
        self.enabled: bool = options.get("enabled", True)

    @property
    def key(self) -> str:
        """The name or URI."""
        return self.name

    def entry(self, **more: object) -> Json:
        """Return the list entry."""
        ours = (self.meta or {}).get("fastmcp", {})
        version = {} if self.version is None else {"version": self.version, "versions": [self.version]}
        entry = {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "icons": None if self.icons is None else [to_json_object(to_own(each)) for each in self.icons],
            "annotations": self.annotations,
            "_meta": {**(self.meta or {}), "fastmcp": {**ours, "tags": sorted(self.tags), **version}},
            **more,
        }
        return {name: each for name, each in entry.items() if each is not None}

    def within(self, namespace: str) -> Self:
        """Return a copy with a namespace in the name."""
        copied = copy(self)
        copied.name = f"{namespace}_{self.name}"
        return copied

    def enable(self) -> None:
        """Show the component in lists, and serve it."""
        self.enabled = True

    def disable(self) -> None:
        """Hide the component, as if it did not exist."""
        self.enabled = False
