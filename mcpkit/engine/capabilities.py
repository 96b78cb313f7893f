"""The identity of a server: its `Implementation` and its capabilities."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cache
from itertools import chain

from ..protocol.jsonrpc import Json
from ..protocol.revisions import SERVER_CAPABILITIES, TASKS, TASKS_IN_CORE, Identity, narrow
from .included_providers_and_extensions import CompositeCatalog

_TASKS_IN_CORE: Json = {"cancel": {}, "requests": {"tools": {"call": {}}}}


class Capabilities:
    """The declarations of a server (basic/lifecycle, "Capability Negotiation"; server/discover).

    A declared capability stays declared, even if its list becomes empty.

    Args:
        catalog: Components of the server.
        implementation: The `Implementation` in the form of the newest revision.
        offers: Capabilities to declare before a component needs them.
        instructions: Instructions for clients; None for none.

    Attributes:
        names: Capabilities that are declared so far; `has` adds to them.
        identity: Returns the `Implementation` with the members of a revision. Each result has it, so it is no method.
    """

    def __init__(
        self,
        catalog: CompositeCatalog,
        implementation: Json,
        offers: Collection[str],
        instructions: str | None,
    ) -> None:
        self.instructions = instructions
        self._catalog = catalog
        self.names = set(offers)

        @cache
        def identity(revision: str) -> Identity:
            return Identity(narrow("Implementation", implementation, revision))

        self.identity: Callable[[str], Identity] = identity
        catalog.listeners.add(lambda change: self.add(change.kind))

    def add(self, capability: str) -> None:
        """Declare a capability, after a component that needs it was registered."""
        self.names.add(capability)

    def has(self, capability: str) -> bool:
        """Return True if the server declares a capability."""
        if capability in self.names:
            return True
        catalog = self._catalog
        dynamic = {kind for each in catalog.providers for kind in each.kinds}
        is_needed = False
        if capability == "completions":
            is_needed = not dynamic.isdisjoint(("prompts", "resource_templates")) or any(
                each.completers for each in chain(catalog.prompts, catalog.resource_templates)
            )
        elif capability == "tasks":
            is_needed = catalog.derived(
                "has tasks", lambda: any(tool.task is not None for tool in catalog.tools)
            )
        elif capability == "logging":
            components = chain.from_iterable(catalog.parts)
            is_needed = bool(dynamic) or any(each.takes_context for each in components)
        if is_needed:
            self.add(capability)
        return is_needed

    def for_revision(self, revision: str, *, is_identified: bool = False) -> Json:
        """Return the `ServerCapabilities` with the members of a revision.

        Args:
            revision: The revision.
            is_identified: Whether the user is known. Only then a client can list tasks.
        """
        declared: Json = {name: how for name, how in SERVER_CAPABILITIES.items() if self.has(name)}
        extensions = {name: each.settings for name, each in self._catalog.extensions.items()}
        if self.has("tasks"):
            extensions[TASKS] = {}
            if revision == TASKS_IN_CORE:
                declared["tasks"] = {**({"list": {}} if is_identified else {}), **_TASKS_IN_CORE}
        if extensions:
            declared["extensions"] = extensions
        return narrow("ServerCapabilities", declared, revision)
