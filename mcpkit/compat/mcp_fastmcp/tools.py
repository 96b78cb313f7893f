"""Tools of `FastMCP`, and their manager."""

from __future__ import annotations

import inspect
import logging
from functools import cached_property, partial
from typing import TypedDict

from pydantic import Field
from typing_extensions import Self, Unpack

from ...protocol.jsonrpc import Json
from ...protocol.objects import Incomplete
from ..mcp_shared import validate_and_warn_tool_name
from ..sdk_models import find_context_parameter, is_kind
from ..types import AnyFunction, Icon, ToolAnnotations
from .described import Described, check_names, name_of
from .exceptions import ToolError
from .signatures import FuncMetadata, func_metadata

logger = logging.getLogger("mcp.server.fastmcp.tools.tool_manager")


class ToolOptions(TypedDict, total=False):
    """Further options of a tool."""

    annotations: ToolAnnotations | None
    icons: list[Icon] | None
    meta: Json | None
    structured_output: bool | None


class Tool(Described, arbitrary_types_allowed=True):
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
        said: Json = {"name": name_of(fn, name), "title": title, **options}
        metadata = func_metadata(fn, skipped, said.pop("structured_output", None))
        said |= {"description": description or fn.__doc__ or "", "fn_metadata": metadata}
        said |= {"is_async": is_async_callable(fn), "context_kwarg": context_kwarg}
        return cls(fn=fn, parameters=metadata.arg_model.model_json_schema(by_alias=True), **said)

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
            self._is_known(tool.name)
            self._tools[tool.name] = tool

    def _is_known(self, name: str) -> bool:
        is_known = name in self._tools
        if is_known and self.warn_on_duplicate_tools:
            logger.warning("Tool already exists: %s", name)
        return is_known

    def get_tool(self, name: str) -> Tool | None:
        """Return a tool, or None."""
        return self._tools.get(name)

    def list_tools(self) -> list[Tool]:
        """Return all tools, in the order in which they were added."""
        return list(self._tools.values())

    def add_tool(self, fn: AnyFunction, name: str | None = None, **said: Incomplete) -> Tool:
        """Create and add a tool, and return it; if its name is taken, return the existing one."""
        tool = Tool.from_function(fn, name, **said)
        if not self._is_known(tool.name):
            self._tools[tool.name] = tool
        return self._tools[tool.name]

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
