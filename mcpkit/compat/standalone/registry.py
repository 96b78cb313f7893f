"""The tools, resources, templates and prompts of a server, and of those that are mounted in it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from typing_extensions import Self

from ...protocol.types import Incomplete, Json
from ..fastmcp.settings import get_logger
from .components import Component, check
from .context import Sessions
from .exceptions import NotFoundError
from .options import REFUSED
from .prompts import Prompt
from .resources import Resource, ResourceTemplate, made
from .tools import Tool

ComponentT = TypeVar("ComponentT", bound=Component)
logger = get_logger("fastmcp.server")


class Registry:
    """What a server is made of.

    Args:
        on_duplicate: What is done with a component whose key is taken, by kind: `warn`, `error`, `replace` or `ignore`.
    """

    def __init__(self, on_duplicate: dict[str, str]) -> None:
        self._on_duplicate = on_duplicate
        self._components: dict[Incomplete, dict[str, Incomplete]] = {
            kind: {} for kind in (Tool, Resource, ResourceTemplate, Prompt)
        }
        self._mounted: list[tuple[Self, str | None]] = []
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
        found: ComponentT = known[component.key]
        return found

    def add_tool(self, tool: Incomplete) -> Tool:
        """Add a tool, or a function as one."""
        return self._add(tool if isinstance(tool, Tool) else Tool(tool))

    def add_prompt(self, prompt: Incomplete) -> Prompt:
        """Add a prompt, or a function as one."""
        return self._add(prompt if isinstance(prompt, Prompt) else Prompt(prompt))

    def add_resource(self, resource: Incomplete) -> Resource | ResourceTemplate:
        """Add a resource or a template."""
        is_own = isinstance(resource, Resource | ResourceTemplate)
        return self._add(resource if is_own else Resource(resource.uri, resource))

    def remove_tool(self, name: str) -> None:
        """Remove a tool. Raises NotFoundError if there is none of that name."""
        if self._components[Tool].pop(name, None) is None:
            raise NotFoundError(f"Unknown tool: {name!r}")

    def tool(self, name_or_fn: Incomplete = None, **said: Incomplete) -> Incomplete:
        """Make a tool of the function below, or of the one that is given."""
        return _decorated("tool", name_or_fn, said, lambda fn, said: self._add(Tool(fn, **said)))

    def prompt(self, name_or_fn: Incomplete = None, **said: Incomplete) -> Incomplete:
        """Make a prompt of the function below, or of the one that is given."""
        return _decorated("prompt", name_or_fn, said, lambda fn, said: self._add(Prompt(fn, **said)))

    def resource(self, uri: object, **said: Incomplete) -> Incomplete:
        """Make a resource of the function below; where the URI has parameters, a template."""
        if not isinstance(uri, str):
            raise TypeError("The @resource decorator was used incorrectly. Use @resource('uri')")
        return _decorated("resource", None, said, lambda fn, said: self._add(made(uri, fn, said)))

    def mount(
        self, server: Self, namespace: str | None = None, *, prefix: str | None = None, **options: Incomplete
    ) -> None:
        """Have another server's components here, also those that it gets later, their names in a namespace."""
        check("mount()", options, (), REFUSED, ())
        server.sessions = self.sessions
        self._mounted.append((server, namespace or prefix))

    async def import_server(self, server: Self, prefix: str | None = None) -> None:
        """Do what `mount` does."""
        self.mount(server, prefix)

    def all_of(self, kind: type[ComponentT]) -> dict[str, ComponentT]:
        """Return what is not hidden: its own before what is mounted, and that rather the later it was."""
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

    async def list_tools(self) -> list[Tool]:
        """Return all tools."""
        return list(self.all_of(Tool).values())

    async def get_tools(self) -> dict[str, Tool]:
        """Return all tools by name."""
        return self.all_of(Tool)

    async def get_tool(self, name: str) -> Tool:
        """Return a tool. Raises NotFoundError if there is none of that name."""
        return self._find(Tool, name)

    async def list_resources(self) -> list[Resource]:
        """Return all resources."""
        return list(self.all_of(Resource).values())

    async def list_resource_templates(self) -> list[ResourceTemplate]:
        """Return all templates."""
        return list(self.all_of(ResourceTemplate).values())

    async def list_prompts(self) -> list[Prompt]:
        """Return all prompts."""
        return list(self.all_of(Prompt).values())


def _decorated(
    kind: str, name_or_fn: Incomplete, said: Json, add: Callable[[Incomplete, Json], object]
) -> Incomplete:
    """Add a function, or return a decorator that does."""
    if isinstance(name_or_fn, str):
        if said.get("name") is not None:
            raise TypeError(
                "Cannot specify both a name as first argument and as keyword argument. "
                f"Use either @{kind}({name_or_fn!r}) or @{kind}(name={said['name']!r}), not both."
            )
        said, name_or_fn = {**said, "name": name_or_fn}, None
    if name_or_fn is None:
        return partial(_decorated, kind, said=said, add=add)
    if not callable(name_or_fn):
        raise TypeError(
            f"First argument to @{kind} must be a function, string, or None, got {type(name_or_fn)}"
        )
    if next(iter(inspect.signature(name_or_fn).parameters), None) in ("self", "cls"):
        name = name_or_fn.__name__
        raise TypeError(f"{name!r} is a method: register it where it is bound, mcp.{kind}(instance.{name})")
    add(name_or_fn, said)
    return name_or_fn
