"""Transforms of the components that a provider offers: prefixes of names and URIs, and hidden tags."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeVar, get_args

from ..components.component import Component

# Kinds of components that a provider can have.
Kind = Literal["tools", "resources", "resource_templates", "prompts"]

KINDS: tuple[Kind, ...] = get_args(Kind)

# Kind by `Component.kind`.
KIND_OF: dict[str, Kind] = {
    "tool": "tools",
    "resource": "resources",
    "resource template": "resource_templates",
    "prompt": "prompts",
}

C = TypeVar("C", bound=Component)


class Transform:
    """A change of the components that a provider offers, such as a prefix. The default changes nothing.

    Transforms are synchronous and have no state. They are applied to a snapshot once, and to a dynamic component at
    each look-up. A transform may hide a component from users, and never shows one that is hidden.
    `original(kind, rename(kind, key)) == key` must hold for every key.
    """

    def apply(self, component: C) -> C | None:
        """Return a component in its new form, with the name or URI of `rename`; None hides it.

        Args:
            component: The component. It may be served elsewhere: return a copy, such as `component.renamed(key)`, or
                the component itself.
        """
        return component

    def rename(self, kind: Kind, key: str) -> str:
        """Return the new name or URI; also for URIs in results and in notifications.

        Args:
            kind: Kind of the component.
            key: Name, URI or URI template.
        """
        return key

    def original(self, kind: Kind, key: str) -> str | None:
        """Return the name or URI that becomes `key`; None if none does.

        Args:
            kind: Kind of the component.
            key: Name, URI or URI template.
        """
        return key


def transformed(component: C, transforms: Iterable[Transform]) -> C | None:
    """Return a copy of a component after transforms, the first one innermost; None if one of them hides it."""
    shown: C | None = component
    for transform in transforms:
        if shown is None:
            return None
        shown = transform.apply(shown)
    return component.renamed(component.key) if shown is component else shown


@dataclass(frozen=True)
class Prefix(Transform):
    """A prefix of names (`weather_get_forecast`), and of the part after the scheme of URIs (`data://weather/x`).

    Args:
        prefix: The prefix, without the underscore or the slash.
    """

    prefix: str

    def apply(self, component: C) -> C:
        """Return a copy under the prefix; methods keep their names."""
        kind = KIND_OF.get(component.kind)
        return component if kind is None else component.renamed(self.rename(kind, component.key))

    def rename(self, kind: Kind, key: str) -> str:
        """Return a name or URI under the prefix."""
        if kind in ("tools", "prompts"):
            return f"{self.prefix}_{key}"
        scheme, separator, rest = key.partition("://" if "://" in key else ":")
        return f"{scheme}{separator}{self.prefix}/{rest}" if separator else key

    def original(self, kind: Kind, key: str) -> str | None:
        """Return the name or URI without the prefix; None if it does not have it."""
        if kind in ("tools", "prompts"):
            return key[len(self.prefix) + 1 :] if key.startswith(f"{self.prefix}_") else None
        for separator in ("://", ":"):
            scheme, found, rest = key.partition(separator)
            if found and rest.startswith(f"{self.prefix}/"):
                plain = f"{scheme}{found}{rest[len(self.prefix) + 1 :]}"
                if self.rename(kind, plain) == key:
                    return plain
        return None if ":" in key else key


class HiddenTags(Transform):
    """Hides the components that have one of some tags, see `Server.disable`.

    Args:
        tags: The tags.
    """

    def __init__(self, tags: frozenset[str]) -> None:
        self._tags = tags

    def apply(self, component: C) -> C | None:
        """Return the component, or None if it has one of the tags."""
        return component if self._tags.isdisjoint(component.tags) else None
