"""Providers, which offer components, and transforms, which shape them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, TypeVar, get_args

from typing_extensions import Self

from .._utils.concurrency import Listeners
from .._utils.exceptions import RegistrationError
from ..components.base import Component, Listed
from ..identity.principal import Change, ListName

if TYPE_CHECKING:
    from ..context import Context
    from ..identity.principal import Principal

Kind = Literal["tools", "resources", "resource_templates", "prompts"]
"""Kinds of components that a provider can have."""

KINDS: tuple[Kind, ...] = get_args(Kind)

KIND_OF: dict[str, Kind] = {
    "tool": "tools",
    "resource": "resources",
    "resource template": "resource_templates",
    "prompt": "prompts",
}
"""Kind by `Component.kind`."""

C = TypeVar("C", bound=Component)


class Provider:
    """A source of components, such as a database, a folder or another server: `server.include(provider)`.

    A *dynamic* provider looks components up at each request. A subclass implements `list` and `find`:

        class Notes(Provider):
            kinds = frozenset({"resources"})

            async def list(self, kind, ctx):
                return [note_resource(row) for row in await ctx.state.rows(ctx.principal.id)]

            async def find(self, kind, key, ctx):
                row = await ctx.state.row(key, ctx.principal.id)
                return None if row is None else note_resource(row)

    Lists contain registered components first, then those of dynamic providers. `find` is called only for names and URIs
    that are not registered. Both methods run in the event loop, within `Timeouts.call`.

    A *static* provider has the same components for all users, and implements `snapshot` instead. The server reads it
    when the provider is included, and after each `changed()`. These components are served like registered ones.

    Attributes:
        kinds: Kinds of components that it provides, of `tools`, `resources`, `resource_templates` and `prompts`. The
            server declares their capabilities, and calls the provider for no other kind.
        listeners: Internal: functions that get each change of a list or a resource.
    """

    kinds: ClassVar[Collection[Kind]] = frozenset()
    listeners: Listeners[[Change]]

    def __new__(cls, *_: Any, **__: Any) -> Self:
        """Create an instance with listeners, even if a subclass does not call `super().__init__()`."""
        provider = super().__new__(cls)
        object.__setattr__(provider, "listeners", Listeners())
        return provider

    def snapshot(self, kind: Kind) -> tuple[Component, ...] | None:
        """Return the components of a kind that all users get; None (default) for a kind that `list` and `find` look up.

        It is called in any thread, without a request. Return the same objects again for components that have not
        changed.

        Args:
            kind: One of `kinds`.
        """
        return None

    async def list(self, kind: Kind, ctx: Context) -> Sequence[Listed]:
        """Return all components of a kind that the user of the request may see. The default returns none.

        Args:
            kind: One of `kinds`.
            ctx: The request.

        Returns:
            Components of this kind with distinct names or URIs, in the order in which clients get them. If nothing has
            changed for this user, return the same tuple object as before: its rendered pages are used again.
        """
        return ()

    async def find(self, kind: Kind, key: str, ctx: Context) -> Listed | None:
        """Return the component with a name or URI; None if there is none for this user. The default searches `list`.

        Args:
            kind: One of `kinds`. For `resources`, the URI may belong to a template: return a `Resource` for this URI.
                For `resource_templates`, it is called only to complete arguments of the template.
            key: The name, the URI, or the text of the template.
            ctx: The request.

        Returns:
            The component, or None.
        """
        return next((each for each in await self.list(kind, ctx) if each.key == key), None)

    def watch(self, uri: str) -> AbstractAsyncContextManager[None]:
        """Return a context manager that is open while a client is subscribed to a URI. The default does nothing.

        Within it, call `resource_updated(uri)` at each update.

        Args:
            uri: A URI of this provider.
        """
        return nullcontext()

    def lifespan(self) -> AbstractAsyncContextManager[Any]:
        """Return a context manager that is open while a server with this provider runs. The default does nothing.

        It is entered once for each event loop, before requests are served.
        """
        return nullcontext()

    def changed(self, *kinds: Kind) -> None:
        """Update the lists after a change, and notify the clients, from any thread: `provider.changed("tools")`.

        Args:
            kinds: Some of `kinds`; none for all of them.

        Raises:
            ValueError: A kind is not one of `kinds`.
            RegistrationError: A component of a snapshot cannot be served, or its name is in use. The others are.
        """
        for kind in kinds:
            if kind not in self.kinds:
                known = ", ".join(self.kinds)
                raise ValueError(
                    f"{self!r} does not provide {kind!r}, but {known}. Add it to its `kinds`, or pass one of these"
                )
        for name in lists_of(kinds or self.kinds):
            self.listeners.notify(Change(name))

    def resource_updated(
        self, uri: str, *, to: Principal | Callable[[Principal], bool] | None = None
    ) -> None:
        """Notify the subscribers of a resource that its data have changed, from any thread.

        Args:
            uri: The URI as this provider knows it.
            to: The subscribed users to notify, see `Server.notify_resource_updated`; None for all.

        Raises:
            TypeError: `to` is neither a Principal nor callable.
            ValueError: `to` is a Principal without an id.
        """
        from ..identity.principal import Audience

        self.listeners.notify(Change("resource", uri, None if to is None else Audience.of(to)))


class ProviderWatch(NamedTuple):
    """The `watch` of a provider for one URI.

    Args:
        provider: The provider.
        uri: The URI as the provider knows it.
        key: The URI that clients use.
    """

    provider: Provider
    uri: str
    key: str

    async def watch(self) -> AsyncGenerator[None, None]:
        """Keep the watch open until the generator is closed. The provider announces updates itself."""
        async with self.provider.watch(self.uri):
            await asyncio.get_running_loop().create_future()
            yield


def check_kinds(provider: Provider) -> None:
    """Check the `kinds` of a provider.

    Raises:
        RegistrationError: There are none, or one is unknown.
    """
    kinds: Any = provider.kinds
    if (
        type(kinds) not in (frozenset, set, tuple, list)
        or not kinds
        or not all(map(KINDS.__contains__, kinds))
    ):
        raise RegistrationError(
            f"{type(provider).__qualname__}.kinds must be a set of some of {', '.join(KINDS)}, such as "
            f"`kinds = frozenset({{'tools'}})`, got {kinds!r}"
        )


def check_provided(name: str, kind: Kind, component: Any) -> None:
    """Check that a provider returned a component of the right kind.

    Args:
        name: Name of the provider in messages.
        kind: The kind.
        component: The component.

    Raises:
        TypeError: It is something else.
    """
    if not isinstance(component, Component) or KIND_OF.get(component.kind) != kind:
        what = kind[:-1].replace("_", " ")
        raise TypeError(f"{name} returned {component!r} for {kind}, which is not a {what}")


def lists_of(kinds: Iterable[Kind]) -> Iterable[ListName]:
    """Return the names of the protocol's lists that contain components of these kinds."""
    return dict.fromkeys("resources" if kind == "resource_templates" else kind for kind in kinds)


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


class Prefix(Transform):
    """A prefix of names (`weather_get_forecast`), and of the part after the scheme of URIs (`data://weather/x`).

    Args:
        prefix: The prefix, without the underscore or the slash.
    """

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix

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

    def __eq__(self, other: object) -> bool:
        """Return True for the same prefix."""
        return isinstance(other, Prefix) and other.prefix == self.prefix

    def __hash__(self) -> int:
        """Return the hash of the prefix."""
        return hash(self.prefix)


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
