"""The tools, resources, templates and prompts of a server, and of servers that are mounted in it."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from ...protocol.jsonrpc import Json
from ...protocol.objects import Incomplete
from ..shared_models_and_settings import log_difference
from .fastmcp_components import (
    IGNORED_OPTIONS,
    LOOKUP_ALTERNATIVES,
    SERVER_ALTERNATIVES,
    Component,
    NotFoundError,
    check_options,
    check_positional,
)
from .fastmcp_context import Sessions
from .fastmcp_tools import Tool
from .resources_and_prompts import Prompt, Resource, ResourceTemplate

ComponentT = TypeVar("ComponentT", bound=Component)
logger = logging.getLogger("fastmcp.server")

_SEPARATORS = {"tool_separator": "_", "resource_separator": "+", "prompt_separator": "_"}
"""Options of fastmcp 2 for the separator after a prefix, and their defaults."""


class Registry:
    """The components of a server.

    Args:
        on_duplicate: Behaviour if the key of a component is taken, by kind: `warn`, `error`, `replace` or `ignore`.
    """

    def __init__(self, on_duplicate: dict[str, str]) -> None:
        self._on_duplicate = on_duplicate
        self._components: dict[Incomplete, dict[str, Incomplete]] = {
            kind: {} for kind in (Tool, Resource, ResourceTemplate, Prompt)
        }
        self._mounted: list[tuple[Incomplete, str | None]] = []
        self.sessions = Sessions()

    def _add(self, component: ComponentT) -> ComponentT:
        known = self._components[type(component)]
        behavior = self._on_duplicate[component.kind] if component.key in known else "replace"
        if behavior == "error":
            raise ValueError(f"Component already exists: {component.kind}:{component.key}@")
        if behavior == "warn":
            logger.warning("Component already exists: %s:%s@", component.kind, component.key)
        if behavior != "ignore":
            component.server = self
            known[component.key] = component
        added: ComponentT = known[component.key]
        return added

    def add_tool(self, tool: Incomplete, *positional: object, **options: Incomplete) -> Tool:
        """Add a tool, or a function as a tool."""
        check_positional("add_tool()", positional, "name=, description=")
        if isinstance(tool, Tool):
            check_options("add_tool()", options)
            return self._add(tool)
        return self._add(Tool(tool, **options))

    def add_prompt(self, prompt: Incomplete, *positional: object, **options: Incomplete) -> Prompt:
        """Add a prompt, or a function as a prompt."""
        check_positional("add_prompt()", positional, "name=, description=")
        if isinstance(prompt, Prompt):
            check_options("add_prompt()", options)
            return self._add(prompt)
        return self._add(Prompt(prompt, **options))

    def add_resource(self, resource: Incomplete, *positional: object) -> Resource | ResourceTemplate:
        """Add a resource or a template."""
        check_positional("add_resource()", positional, "the URI")
        is_own = isinstance(resource, Resource | ResourceTemplate)
        return self._add(resource if is_own else Resource(resource.uri, resource))

    def remove_tool(self, name: str) -> None:
        """Remove a tool. Raises NotFoundError if there is none with this name."""
        if self._components[Tool].pop(name, None) is None:
            raise NotFoundError(f"Unknown tool: {name!r}")

    def tool(self, name_or_fn: Incomplete = None, *positional: object, **options: Incomplete) -> Incomplete:
        """Register a function as a tool. It is a decorator, with or without arguments."""
        check_positional("tool()", positional, "description=, tags=, annotations=")
        return _register("tool", name_or_fn, options, lambda fn, options: self._add(Tool(fn, **options)))

    def prompt(self, name_or_fn: Incomplete = None, *positional: object, **options: Incomplete) -> Incomplete:
        """Register a function as a prompt. It is a decorator, with or without arguments."""
        check_positional("prompt()", positional, "description=, tags=")
        return _register("prompt", name_or_fn, options, lambda fn, options: self._add(Prompt(fn, **options)))

    def resource(self, uri: object, *positional: object, **options: Incomplete) -> Incomplete:
        """Return a decorator that registers a function as a resource; with parameters in the URI, as a template."""
        check_positional("resource()", positional, "name=, description=")
        if not isinstance(uri, str):
            raise TypeError("The @resource decorator was used incorrectly. Use @resource('uri')")
        create = ResourceTemplate if "{" in uri and "}" in uri else Resource
        return _register("resource", None, options, lambda fn, options: self._add(create(uri, fn, **options)))

    def mount(
        self,
        server: object = None,
        namespace: object = None,
        tool_names: object = None,
        *positional: object,
        prefix: object = None,
        **options: object,
    ) -> None:
        """Include the components of another server, with later ones, and put a namespace before their names.

        The orders of fastmcp 2 and 3 are accepted too: `mount("namespace", server)`, and `as_proxy` as the third
        argument.

        Raises:
            TypeError: The server is not a FastMCP, or the namespace is not a string.
        """
        check_positional("mount()", positional, "prefix=")
        if isinstance(namespace, Registry) and not isinstance(server, Registry):
            log_difference(
                "mount()", "mount(prefix, server) is the order of fastmcp 2. Use mount(server, prefix)"
            )
            server, namespace = namespace, server
        other_options = {"as_proxy" if isinstance(tool_names, bool) else "tool_names": tool_names, **options}
        for option, default in _SEPARATORS.items():
            if other_options.pop(option, None) not in (None, default):
                raise TypeError(f"mount() has no {option}=, as in fastmcp 4. The separator is {default!r}")
        check_options("mount()", other_options, (), SERVER_ALTERNATIVES)
        name = prefix if namespace is None else namespace
        if not isinstance(server, Registry) or not isinstance(name, str | None):
            raise TypeError(
                "mount(server, namespace) takes a FastMCP and a string or None, got "
                f"{type(server).__name__} and {type(name).__name__}"
            )
        if server is self:
            raise ValueError("Cannot mount a server onto itself")
        server.sessions = self.sessions
        self._mounted.append((server, name or None))

    async def import_server(self, *servers: object, **options: object) -> None:
        """Call `mount` with the same arguments."""
        self.mount(*servers, **options)

    def all_of(self, kind: type[ComponentT]) -> dict[str, ComponentT]:
        """Return the enabled components: own ones override mounted ones, and later mounts override earlier ones."""
        mounted = [
            each if namespace is None else each.within(namespace)
            for server, namespace in self._mounted
            for each in server.all_of(kind).values()
        ]
        own: list[ComponentT] = [each for each in self._components[kind].values() if each.enabled]
        found = {each.key: each for each in [*mounted, *own]}
        return {each.key: found[each.key] for each in [*own, *mounted]}

    def _find(self, kind: type[ComponentT], key: str) -> ComponentT:
        found: ComponentT | None = self._components[kind].get(key)
        if found is None or not found.enabled:
            found = self.all_of(kind).get(key) if self._mounted else None
        if found is None:
            raise NotFoundError(f"Unknown {kind.kind}: {key!r}")
        return found

    async def list_tools(self, **options: object) -> list[Tool]:
        """Return all tools."""
        check_options("list_tools()", options, (), LOOKUP_ALTERNATIVES, IGNORED_OPTIONS)
        return list(self.all_of(Tool).values())

    async def get_tools(self) -> dict[str, Tool]:
        """Return all tools by name."""
        return self.all_of(Tool)

    async def get_tool(self, name: str, version: object = None) -> Tool:
        """Return a tool. Raises NotFoundError if there is none with this name."""
        check_options("get_tool()", {"version": version}, (), LOOKUP_ALTERNATIVES)
        return self._find(Tool, name)

    async def list_resources(self, **options: object) -> list[Resource]:
        """Return all resources."""
        check_options("list_resources()", options, (), LOOKUP_ALTERNATIVES, IGNORED_OPTIONS)
        return list(self.all_of(Resource).values())

    async def list_resource_templates(self, **options: object) -> list[ResourceTemplate]:
        """Return all resource templates."""
        check_options("list_resource_templates()", options, (), LOOKUP_ALTERNATIVES, IGNORED_OPTIONS)
        return list(self.all_of(ResourceTemplate).values())

    async def list_prompts(self, **options: object) -> list[Prompt]:
        """Return all prompts."""
        check_options("list_prompts()", options, (), LOOKUP_ALTERNATIVES, IGNORED_OPTIONS)
        return list(self.all_of(Prompt).values())


def _register(
    kind: str, name_or_fn: Incomplete, options: Json, add: Callable[[Incomplete, Json], object]
) -> Incomplete:
    """Add a function, or return a decorator that does."""
    if isinstance(name_or_fn, str):
        if options.get("name") is not None:
            raise TypeError(
                "Cannot specify both a name as first argument and as keyword argument. "
                f"Use either @{kind}({name_or_fn!r}) or @{kind}(name={options['name']!r}), not both."
            )
        options, name_or_fn = {**options, "name": name_or_fn}, None
    if name_or_fn is None:
        return partial(_register, kind, options=options, add=add)
    if not callable(name_or_fn):
        raise TypeError(
            f"First argument to @{kind} must be a function, string, or None, got {type(name_or_fn)}"
        )
    if next(iter(inspect.signature(name_or_fn).parameters), None) in ("self", "cls"):
        name = name_or_fn.__name__
        raise TypeError(f"{name!r} is a method. Register the bound method: mcp.{kind}(instance.{name})")
    add(name_or_fn, options)
    return name_or_fn
