"""Tools, resources, resource templates and prompts of `mcp.server.fastmcp`, with their managers."""

from __future__ import annotations

import abc
import asyncio
import inspect
import logging
import re
from collections.abc import Callable, Collection, Iterable
from functools import cached_property, partial
from math import factorial
from pathlib import Path
from typing import Literal, TypeAlias, TypedDict, TypeVar

from pydantic import (
    AnyUrl,
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationInfo,
    field_validator,
    validate_call,
)
from pydantic_core import to_json, to_jsonable_python
from typing_extensions import Self, Unpack

from ...protocol.jsonrpc import Json
from ...protocol.objects import Incomplete
from ..shared_models_and_settings import (
    find_context_parameter,
    is_kind,
    is_list,
    to_own,
    validate_and_warn_tool_name,
)
from ..types import Annotations, AnyFunction, ContentBlock, Icon, TextContent, ToolAnnotations
from .function_metadata import FuncMetadata, ToolError, func_metadata

ModelT = TypeVar("ModelT", bound=BaseModel)

_LISTED = {
    **{each: each for each in ("name", "title", "description", "icons", "annotations", "uri")},
    "inputSchema": "parameters",
    "outputSchema": "output_schema",
    "arguments": "listed_arguments",
    "mimeType": "mime_type",
    "uriTemplate": "uri_template",
    "_meta": "meta",
}
"""Attributes of components, by their names in list results."""
_MAX_MATCH_STEPS = 10_000_000
"""Limit of the cost of matching a URI: its length to the power of the parameters in one path segment."""
_MIME_TYPE = r"^[a-zA-Z0-9]+/[a-zA-Z0-9\-+.]+(;\s*[a-zA-Z0-9\-_.]+=[a-zA-Z0-9\-_.]+)*$"

tools_logger = logging.getLogger("mcp.server.fastmcp.tools.tool_manager")
resources_logger = logging.getLogger("mcp.server.fastmcp.resources.resource_manager")
prompts_logger = logging.getLogger("mcp.server.fastmcp.prompts.manager")


class BaseComponent(BaseModel, defer_build=True):
    """Base class of components, with title and icons."""

    title: str | None = None
    icons: list[Icon] | None = None

    @field_validator("icons", "annotations", mode="before", check_fields=False)
    @classmethod
    def _own(cls, value: object) -> object:
        return to_own(value)


class FunctionComponent(BaseComponent):
    """A component with a function that takes arguments, and a context if it has a parameter for it."""

    name: str
    fn: AnyFunction = Field(exclude=True)
    context_kwarg: str | None = Field(default=None, exclude=True)

    async def call(self, arguments: Json, context: object) -> object:
        """Call the function, `async` or not."""
        if context is not None and self.context_kwarg is not None:
            arguments = {**arguments, self.context_kwarg: context}
        result = self.fn(**arguments)
        return await result if inspect.iscoroutine(result) else result


def _function_fields(fn: AnyFunction, name: str | None, context_kwarg: str | None) -> tuple[Json, Json]:
    """Return the fields of a component with a function, and the JSON Schema of its arguments."""
    context_kwarg = context_kwarg or find_context_parameter(fn)
    metadata = func_metadata(fn, [context_kwarg] if context_kwarg else [], structured_output=False)
    fields: Json = {"name": _name_of(fn, name), "fn": _validated(fn), "context_kwarg": context_kwarg}
    return fields, metadata.arg_model.model_json_schema()


def _validated(fn: AnyFunction) -> AnyFunction:
    """Return a function that converts its arguments to the types of its parameters."""
    return validate_call(config=ConfigDict(defer_build=True))(fn)


def _name_of(fn: AnyFunction, name: str | None) -> str:
    """Return the given name, or the name of the function. Raises ValueError for a lambda without a given name."""
    if (name := name or fn.__name__) == "<lambda>":
        raise ValueError("You must provide a name for lambda functions")
    return name


def listed(kind: type[ModelT], components: Iterable[object]) -> list[ModelT]:
    """Return the list entries of components, with the fields of their class."""
    members = {member: name for member, name in _LISTED.items() if member.strip("_") in kind.model_fields}
    return [
        kind(**{member: getattr(each, name) for member, name in members.items() if hasattr(each, name)})
        for each in components
    ]


def check_names(function: str, names: Collection[str], known: Collection[str]) -> None:
    """Check the names of keyword arguments. Raises TypeError for an unknown name."""
    if unknown := [each for each in names if each not in known]:
        raise TypeError(f"{function}() got an unexpected keyword argument {unknown[0]!r}")


# Tools


class ToolOptions(TypedDict, total=False):
    """Further options of a tool."""

    annotations: ToolAnnotations | None
    icons: list[Icon] | None
    meta: Json | None
    structured_output: bool | None


class Tool(BaseComponent, arbitrary_types_allowed=True):
    """A tool with a function."""

    fn: AnyFunction = Field(exclude=True)
    name: str
    description: str
    parameters: Json
    fn_metadata: FuncMetadata
    is_async: bool
    context_kwarg: str | None = None
    annotations: ToolAnnotations | None = None
    meta: Json | None = None

    @cached_property
    def output_schema(self) -> Json | None:
        """The schema of structured content."""
        return self.fn_metadata.output_schema

    @classmethod
    def from_function(
        cls,
        fn: AnyFunction,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        context_kwarg: str | None = None,
        **options: Unpack[ToolOptions],
    ) -> Self:
        """Create a tool from a function. Raises InvalidSignature, or ValueError for a lambda without a name."""
        check_names("Tool.from_function", options, ToolOptions.__annotations__)
        validate_and_warn_tool_name(name or fn.__name__)
        context_kwarg = find_context_parameter(fn) if context_kwarg is None else context_kwarg
        skipped = [] if context_kwarg is None else [context_kwarg]
        fields: Json = {"name": _name_of(fn, name), **options}
        metadata = func_metadata(fn, skipped, fields.pop("structured_output", None))
        return cls(
            fn=fn,
            title=title,
            description=description or fn.__doc__ or "",
            parameters=metadata.arg_model.model_json_schema(by_alias=True),
            fn_metadata=metadata,
            is_async=is_async_callable(fn),
            context_kwarg=context_kwarg,
            **fields,
        )

    async def run(self, arguments: Json, context: object = None, convert_result: bool = False) -> object:
        """Call the function, and return its result or the converted content. Raises ToolError for any failure."""
        metadata = self.fn_metadata
        direct = None if self.context_kwarg is None else {self.context_kwarg: context}
        try:
            result = await metadata.call_fn_with_arg_validation(self.fn, self.is_async, arguments, direct)
            return metadata.convert_result(result) if convert_result else result
        except Exception as error:
            if is_kind(type(error), "UrlElicitationRequiredError"):
                raise
            raise ToolError(f"Error executing tool {self.name}: {error}") from error


def is_async_callable(of: object) -> bool:
    """Return True for an async function, a partial of one, or an object with an async `__call__`."""
    while isinstance(of, partial):
        of = of.func
    return inspect.iscoroutinefunction(of) or (callable(of) and inspect.iscoroutinefunction(of.__call__))


class ToolManager:
    """The tools of a server, by name."""

    def __init__(self, warn_on_duplicate_tools: bool = True, *, tools: list[Tool] | None = None) -> None:
        self.warn_on_duplicate_tools = warn_on_duplicate_tools
        self._tools: dict[str, Tool] = {}
        for tool in tools or ():
            self._warn_if_known(tool.name)
            self._tools[tool.name] = tool

    def _warn_if_known(self, name: str) -> None:
        if name in self._tools and self.warn_on_duplicate_tools:
            tools_logger.warning("Tool already exists: %s", name)

    def get_tool(self, name: str) -> Tool | None:
        """Return a tool, or None."""
        return self._tools.get(name)

    def list_tools(self) -> list[Tool]:
        """Return all tools, in the order in which they were added."""
        return list(self._tools.values())

    def add_tool(self, fn: AnyFunction, name: str | None = None, **options: Incomplete) -> Tool:
        """Create and add a tool, and return it; if its name is taken, return the existing one."""
        tool = Tool.from_function(fn, name, **options)
        self._warn_if_known(tool.name)
        return self._tools.setdefault(tool.name, tool)

    def remove_tool(self, name: str) -> None:
        """Remove a tool. Raises ToolError if it is not there."""
        if self._tools.pop(name, None) is None:
            raise ToolError(f"Unknown tool: {name}")

    async def call_tool(
        self, name: str, arguments: Json, context: object = None, convert_result: bool = False
    ) -> object:
        """Call a tool. Raises ToolError if it does not exist or fails."""
        if tool := self.get_tool(name):
            return await tool.run(arguments, context=context, convert_result=convert_result)
        raise ToolError(f"Unknown tool: {name}")


# Resources


class ResourceOptions(TypedDict, total=False):
    """ResourceOptions of a resource or template."""

    title: str | None
    description: str | None
    mime_type: str | None
    icons: list[Icon] | None
    annotations: Annotations | None
    meta: Json | None


class _BaseResource(BaseComponent):
    """Fields that resources and templates share."""

    description: str | None = None
    mime_type: str = "text/plain"
    annotations: Annotations | None = None
    meta: Json | None = None


def _options(fn: AnyFunction, options: ResourceOptions) -> Json:
    """Return the options of a component, with the function's docstring as the default description."""
    check_names("from_function", options, ResourceOptions.__annotations__)
    description = options.get("description") or fn.__doc__ or ""
    return {**options, "description": description, "mime_type": options.get("mime_type") or "text/plain"}


class Resource(_BaseResource, abc.ABC, validate_default=True):
    """A resource with a URI."""

    uri: AnyUrl
    name: str | None = None
    mime_type: str = Field(default="text/plain", pattern=_MIME_TYPE)

    @field_validator("name", mode="before")
    @classmethod
    def set_default_name(cls, name: str | None, info: ValidationInfo) -> str:
        """Set the name to the URI if it is missing."""
        if name := name or str(info.data.get("uri", "")):
            return name
        raise ValueError("Either name or uri must be provided")

    @abc.abstractmethod
    async def read(self) -> str | bytes:
        """Return the content."""


class FunctionResource(Resource):
    """A resource with the return value of a function: text, bytes, or any value as JSON."""

    fn: Callable[[], object] = Field(exclude=True)

    async def read(self) -> str | bytes:
        """Call the function."""
        try:
            returned = self.fn()
            result = await returned if inspect.iscoroutine(returned) else returned
            if isinstance(result, Resource):
                return await result.read()
            if isinstance(result, bytes | str):
                return result
            return to_json(result, fallback=str, indent=2).decode()
        except Exception as error:
            raise ValueError(f"Error reading resource {self.uri}: {error}") from error

    @classmethod
    def from_function(
        cls, fn: AnyFunction, uri: str, name: str | None = None, **options: Unpack[ResourceOptions]
    ) -> FunctionResource:
        """Create a resource from a function without parameters."""
        return cls(uri=AnyUrl(uri), name=_name_of(fn, name), fn=_validated(fn), **_options(fn, options))


class TextResource(Resource):
    """A text resource."""

    text: str

    async def read(self) -> str:
        """Return the text."""
        return self.text


class BinaryResource(Resource):
    """A binary resource."""

    data: bytes

    async def read(self) -> bytes:
        """Return the bytes."""
        return self.data


class FileResource(Resource):
    """A file; as bytes if `is_binary`, or if its MIME type does not begin with `text/`."""

    path: Path
    mime_type: str = "text/plain"
    is_binary: bool = False

    @field_validator("path")
    @classmethod
    def validate_absolute_path(cls, path: Path) -> Path:
        """Check that the path is absolute."""
        if not path.is_absolute():
            raise ValueError("Path must be absolute")
        return path

    @field_validator("is_binary")
    @classmethod
    def set_binary_from_mime_type(cls, is_binary: bool, info: ValidationInfo) -> bool:
        """Set `is_binary` for a MIME type that does not begin with `text/`."""
        return is_binary or not info.data.get("mime_type", "text/plain").startswith("text/")

    async def read(self) -> str | bytes:
        """Read the file, in a thread."""
        try:
            return await asyncio.to_thread(self.path.read_bytes if self.is_binary else self.path.read_text)
        except Exception as error:
            raise ValueError(f"Error reading file {self.path}: {error}") from error


class ResourceTemplate(_BaseResource, FunctionComponent):
    """Resources with parameters in their URIs, which a function takes."""

    uri_template: str
    parameters: Json

    @classmethod
    def from_function(
        cls,
        fn: AnyFunction,
        uri_template: str,
        name: str | None = None,
        context_kwarg: str | None = None,
        **options: Unpack[ResourceOptions],
    ) -> ResourceTemplate:
        """Create a template from a function."""
        fields, parameters = _function_fields(fn, name, context_kwarg)
        return cls(uri_template=uri_template, parameters=parameters, **fields, **_options(fn, options))

    def matches(self, uri: str) -> Json | None:
        """Return the parameters in a URI; None if it does not match, or matching would take too long."""
        count = max(each.count("{") for each in self.uri_template.split("/"))
        if count > 1 and len(uri) ** count > _MAX_MATCH_STEPS * factorial(count):
            return None
        match = re.fullmatch(self.uri_template.replace("{", "(?P<").replace("}", ">[^/]+)"), uri)
        return None if match is None else match.groupdict()

    async def create_resource(self, uri: str, params: Json, context: object = None) -> Resource:
        """Call the function, and return its result as a resource."""
        try:
            result = await self.call(params, context)
            fields = {each: getattr(self, each) for each in ("name", *_BaseResource.model_fields)}
            return FunctionResource(uri=AnyUrl(uri), fn=lambda: result, **fields)
        except Exception as error:
            raise ValueError(f"Error creating resource from template: {error}") from error


class ResourceManager:
    """The resources and templates of one server."""

    def __init__(self, warn_on_duplicate_resources: bool = True) -> None:
        self._resources: dict[str, Resource] = {}
        self._templates: dict[str, ResourceTemplate] = {}
        self.warn_on_duplicate_resources = warn_on_duplicate_resources

    def add_resource(self, resource: Resource) -> Resource:
        """Add a resource, and return it; if its URI is taken, return the existing one."""
        existing = self._resources.setdefault(str(resource.uri), resource)
        if existing is not resource and self.warn_on_duplicate_resources:
            resources_logger.warning("Resource already exists: %s", resource.uri)
        return existing

    def add_template(
        self, fn: AnyFunction, uri_template: str, name: str | None = None, **options: Unpack[ResourceOptions]
    ) -> ResourceTemplate:
        """Add a template, and replace one with the same text."""
        template = ResourceTemplate.from_function(fn, uri_template, name, **options)
        self._templates[template.uri_template] = template
        return template

    async def get_resource(self, uri: AnyUrl | str, context: object = None) -> Resource:
        """Return the resource with a URI, or else the one of the first template that matches."""
        if resource := self._resources.get(text := str(uri)):
            return resource
        for template in self._templates.values():
            if params := template.matches(text):
                try:
                    return await template.create_resource(text, params, context=context)
                except Exception as error:
                    raise ValueError(f"Error creating resource from template: {error}") from error
        raise ValueError(f"Unknown resource: {uri}")

    def list_resources(self) -> list[Resource]:
        """Return all resources."""
        return list(self._resources.values())

    def list_templates(self) -> list[ResourceTemplate]:
        """Return all templates."""
        return list(self._templates.values())


# Prompts


class Message(BaseModel, defer_build=True):
    """Base class for all prompt messages."""

    role: Literal["user", "assistant"]
    content: ContentBlock

    def __init__(self, content: str | ContentBlock, **kwargs: object) -> None:
        """Take a text, or content of another kind."""
        block = TextContent(type="text", text=content) if isinstance(content, str) else content
        super().__init__(content=block, **kwargs)


class UserMessage(Message):
    """A message from the user."""

    role: Literal["user", "assistant"] = "user"

    def __init__(self, content: str | ContentBlock, **kwargs: object) -> None:
        """Take a text, or content of another kind."""
        super().__init__(content, **kwargs)


class AssistantMessage(Message):
    """A message from the assistant."""

    role: Literal["user", "assistant"] = "assistant"

    def __init__(self, content: str | ContentBlock, **kwargs: object) -> None:
        """Take a text, or content of another kind."""
        super().__init__(content, **kwargs)


UserOrAssistantMessage: TypeAlias = UserMessage | AssistantMessage
message_validator: TypeAdapter[UserOrAssistantMessage] = TypeAdapter(
    UserOrAssistantMessage, config=ConfigDict(defer_build=True)
)


def _message_of(value: object) -> Message:
    """Return the return value of a prompt, or a part of it, as a message."""
    try:
        if isinstance(value, Message):
            return value
        if isinstance(value, dict):
            return message_validator.validate_python(value)
        text = value if isinstance(value, str) else to_json(value, fallback=str, indent=2).decode()
        return UserMessage(text)
    except Exception as error:
        raise ValueError(f"Could not convert prompt result to message: {value}") from error


class PromptArgument(BaseModel, defer_build=True):
    """An argument of a prompt."""

    name: str
    description: str | None = None
    required: bool = False


class Prompt(FunctionComponent):
    """A function that returns messages for a model."""

    description: str | None = None
    arguments: list[PromptArgument] | None = None

    @property
    def listed_arguments(self) -> object:
        """The arguments in the form of list results."""
        return to_jsonable_python(self.arguments or [])

    @classmethod
    def from_function(
        cls,
        fn: AnyFunction,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        icons: list[Icon] | None = None,
        context_kwarg: str | None = None,
    ) -> Prompt:
        """Create a prompt from a function that returns texts, messages, dicts of messages, or a list of them."""
        fields, schema = _function_fields(fn, name, context_kwarg)
        required, properties = schema.get("required", []), schema.get("properties", {})
        arguments = [
            PromptArgument(name=each, description=of.get("description"), required=each in required)
            for each, of in properties.items()
        ]
        description = description or fn.__doc__ or ""
        return cls(title=title, description=description, arguments=arguments, icons=icons, **fields)

    async def render(self, arguments: Json | None = None, context: object = None) -> list[Message]:
        """Call the function, and return its result as messages."""
        if missing := {each.name for each in self.arguments or () if each.required} - set(arguments or {}):
            raise ValueError(f"Missing required arguments: {missing}")
        try:
            result = await self.call(arguments or {}, context)
            return list(map(_message_of, result if is_list(result) else [result]))
        except Exception as error:
            raise ValueError(f"Error rendering prompt {self.name}: {error}") from error


class PromptManager:
    """The prompts of one server."""

    def __init__(self, warn_on_duplicate_prompts: bool = True) -> None:
        self._prompts: dict[str, Prompt] = {}
        self.warn_on_duplicate_prompts = warn_on_duplicate_prompts

    def get_prompt(self, name: str) -> Prompt | None:
        """Return a prompt; None if there is none with this name."""
        return self._prompts.get(name)

    def list_prompts(self) -> list[Prompt]:
        """Return all prompts."""
        return list(self._prompts.values())

    def add_prompt(self, prompt: Prompt) -> Prompt:
        """Add a prompt, and return it; if its name is taken, return the existing one."""
        existing = self._prompts.setdefault(prompt.name, prompt)
        if existing is not prompt and self.warn_on_duplicate_prompts:
            prompts_logger.warning("Prompt already exists: %s", prompt.name)
        return existing

    async def render_prompt(
        self, name: str, arguments: Json | None = None, context: object = None
    ) -> list[Message]:
        """Return the messages of a prompt."""
        if (prompt := self.get_prompt(name)) is None:
            raise ValueError(f"Unknown prompt: {name}")
        return await prompt.render(arguments, context=context)
