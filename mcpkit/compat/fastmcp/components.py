"""The base class of tools, resources, templates and prompts, and checks of their options."""

from __future__ import annotations

from collections.abc import Callable, Collection
from copy import copy
from typing import ClassVar

from pydantic import BaseModel
from typing_extensions import Self

from ...protocol.jsonrpc import Json
from ...protocol.objects import Incomplete
from ..sdk_models import log_difference, to_json_object, to_own
from .refusing import Refuses

Change = Callable[[Json], Json]
"""A change of a schema before it is listed."""

COMMON = frozenset({"name", "title", "description", "icons", "tags", "meta", "version", "enabled"})
REFUSED = {
    "app": "return a resource of type text/html from a tool",
    "auth": "use Server(auth=...) and @server.tool(scopes=...) of mcpkit",
    "exclude_args": "use Depends(...) as the default of the parameter",
    "metadata": "use meta=, title=, description= and similar arguments",
    "serializer": "return a ToolResult",
    "security": "omit it: paths outside the folder are rejected in all parameters",
    "task": "use @server.tool(task=True) of mcpkit",
}


def check(
    what: str, given: Json, known: Collection[str], refused: dict[str, str], ignored: Collection[str] = ()
) -> None:
    """Check the names of options, and log a warning for those that are ignored. Empty values are accepted.

    Raises:
        NotImplementedError: fastmcp has the option, and mcpkit.compat does not.
        TypeError: The option is unknown.
    """
    for name, value in given.items():
        if name in known:
            continue
        if name in refused:
            if value:
                raise NotImplementedError(f"mcpkit.compat has no {name}= of {what}. Instead, {refused[name]}")
        elif name in ignored:
            if value is not None:
                log_difference(f"{what}({name}=)", f"{what} ignores {name}=")
        else:
            raise TypeError(f"{what} got an unexpected keyword argument {name!r}")


class Component(Refuses):
    """A tool, a resource, a resource template or a prompt."""

    kind: ClassVar[str]
    more: ClassVar[frozenset[str]] = frozenset()
    server: Incomplete

    def __init__(self, name: str, description: str | None, said: Json) -> None:
        check(f"{self.kind}()", said, COMMON | self.more, REFUSED)
        self.name: str = said.get("name") or name
        if self.name == "<lambda>":
            raise ValueError("You must provide a name for lambda functions")
        given = said.get("description")
        self.description: str | None = description if given is None else given
        self.title: str | None = said.get("title")
        self.tags: set[str] = set(said.get("tags") or ())
        self.meta: Json | None = said.get("meta")
        self.version: str | None = None if said.get("version") is None else str(said["version"])
        self.icons: list[Incomplete] | None = said.get("icons")
        annotations = said.get("annotations")
        self.annotations: Json | None = (
            to_json_object(annotations) if isinstance(annotations, BaseModel) else annotations
        )
        self.enabled: bool = said.get("enabled", True)

    @property
    def key(self) -> str:
        """The name or URI."""
        return self.name

    def said(self, **more: object) -> Json:
        """Return the list entry."""
        ours = (self.meta or {}).get("fastmcp", {})
        version = {} if self.version is None else {"version": self.version, "versions": [self.version]}
        said = {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "icons": None if self.icons is None else [to_json_object(to_own(each)) for each in self.icons],
            "annotations": self.annotations,
            "_meta": {**(self.meta or {}), "fastmcp": {**ours, "tags": sorted(self.tags), **version}},
            **more,
        }
        return {name: each for name, each in said.items() if each is not None}

    def within(self, namespace: str) -> Self:
        """Return a copy with a namespace in the name."""
        found = copy(self)
        found.name = f"{namespace}_{self.name}"
        return found

    def enable(self) -> None:
        """Show the component in lists, and serve it."""
        self.enabled = True

    def disable(self) -> None:
        """Hide the component, as if it did not exist."""
        self.enabled = False
