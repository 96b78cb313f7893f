"""The interface of component providers, transforms of what they offer, and the look-up of dynamic components."""

from __future__ import annotations

import asyncio
import inspect
import itertools
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, TypeVar, get_args

from typing_extensions import Self

from .._utils.concurrency import Listeners
from .._utils.exceptions import RegistrationError
from ..components.component import Component, Listed
from ..components.tool import AnyTool
from ..content.blocks import described
from ..content.uri_normalization import normalized_template, spellings, template_spellings
from ..context import Context
from ..execution.lifespan import Lifespans
from ..identity.principals_and_scopes import Change, ListName
from ..requests.request_record import NO_STATE, Call, run_limited

if TYPE_CHECKING:
    from ..identity.principals_and_scopes import Principal


# Transforms


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


# Providers


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
        from ..identity.principals_and_scopes import Audience

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


# Dynamic providers, which are looked up at each request

# Maximum number of lists of a provider that are kept: one for each kind and user.
_MAX_KEPT = 256

# A cursor contains a position, so a position is never used twice.
_positions = itertools.count(1)


class Offer:
    """The components of one kind that a dynamic provider listed, after the transforms.

    Attributes:
        components: The components.
        restricted: Those that only some users see.
        is_reusable: Whether the same object is returned while the provider returns the same tuple.
    """

    __slots__ = ("components", "is_reusable", "restricted")

    def __init__(self, components: Iterable[Listed], *, is_reusable: bool) -> None:
        self.components = tuple(components)
        self.restricted = tuple(each for each in self.components if each.visible is not None)
        self.is_reusable = is_reusable


class Lookup:
    """A dynamic provider as one catalog serves it.

    Args:
        provider: The provider.
        kinds: Kinds that are looked up.
        transforms: Transforms of all catalogs between the provider and the client, innermost first.
        home: Lifespan that provides the state; None for that of the server that serves the component.
        lifespans: Lifespan of the provider itself, which is entered before it is called; None if it has none.
        position: Position among all providers; None for a new one.
    """

    def __init__(
        self,
        provider: Provider,
        kinds: frozenset[Kind],
        transforms: tuple[Transform, ...],
        home: Lifespans | None,
        lifespans: Lifespans | None,
        position: int | None = None,
    ) -> None:
        self.provider = provider
        self.kinds = kinds
        self.position = next(_positions) if position is None else position
        self.name = type(provider).__qualname__
        self._transforms = transforms
        self._home = home
        self._lifespans = lifespans
        self._kept: dict[tuple[Kind, int], tuple[object, Offer]] = {}

    def within(self, transforms: Iterable[Transform], home: Lifespans | None) -> Lookup:
        """Return the same provider as an outer catalog serves it, with the transforms of that one."""
        transforms = (*self._transforms, *transforms)
        home = self._home or home
        return Lookup(self.provider, self.kinds, transforms, home, self._lifespans, self.position)

    async def list(self, kind: Kind, call: Call, lifespans: Lifespans) -> Offer:
        """Return all components of a kind for the user of a request.

        Args:
            kind: The kind.
            call: The request.
            lifespans: The lifespan of the server that serves the request.

        Raises:
            TypeError: The provider returned something else.
            RegistrationError: A component cannot be served.
            Exception: Any exception of the provider.
        """
        found: Any = await self._run(call, lifespans, self.provider.list, kind)
        key = (kind, id(found))
        kept = self._kept.get(key)
        if kept is not None:
            return kept[1]
        if isinstance(found, str) or not hasattr(found, "__iter__"):
            raise TypeError(f"{self.name}.list({kind!r}) returned {described(found)}. Return a list")
        is_reusable = type(found) is tuple
        shown = (self._transformed(kind, each) for each in found)
        offer = Offer((each for each in shown if each is not None), is_reusable=is_reusable)
        if is_reusable:
            if len(self._kept) >= _MAX_KEPT:  # most are of former states
                self._kept.clear()
            self._kept[key] = found, offer  # with the tuple: no other object has its id then
        return offer

    async def find(self, kind: Kind, key: str, call: Call, lifespans: Lifespans) -> Listed | None:
        """Return the component with a name or URI in this catalog; None if there is none for the user.

        Arguments and exceptions are those of `list`.
        """
        plain = key
        for transform in reversed(self._transforms):
            if (original := transform.original(kind, plain)) is None:
                return None
            plain = original
        found = await self._run(call, lifespans, self.provider.find, kind, plain)
        shown = None if found is None else self._transformed(kind, found)
        if shown is not None and shown.key != key:
            raise TypeError(
                f"{self.name}.find({kind!r}, {plain!r}) returned {found!r}, which has a different name"
            )
        return shown

    async def _run(
        self, call: Call, lifespans: Lifespans, method: Callable[..., Coroutine[Any, Any, Any]], *args: Any
    ) -> Any:
        """Call a method of the provider within the time limit of the call, with the state of its server."""
        if self._lifespans is not None:
            await lifespans.state_of(self._lifespans)
        call.state = await lifespans.state_of(self._home or lifespans)

        async def run() -> Any:
            awaitable: Any = method(*args, Context(call))
            if not inspect.isawaitable(awaitable):
                name = method.__name__
                raise TypeError(
                    f"{self.name}.{name} returned {described(awaitable)}. Write `async def {name}`"
                )
            return await awaitable

        try:
            return await run_limited(run(), call, None)
        finally:
            call.state = NO_STATE

    def _transformed(self, kind: Kind, component: Any) -> Listed | None:
        """Return a component after the transforms; None if it is hidden."""
        check_provided(self.name, kind, component)
        if isinstance(component, AnyTool) and component.task is not None:
            raise TypeError(
                f"{self.name} returned {component!r} with task=, which providers do not support: the process that runs "
                "a task needs its tool outside a request. Register the tool with the server"
            )
        component.resolve()  # the provider's own, as it may return the same one again
        copy: Listed | None = transformed(component, self._transforms) if component.is_enabled else None
        if copy is not None and copy.home is None:
            copy.home = self._home
        return copy


async def find(
    lookups: Iterable[Lookup], lifespans: Lifespans, call: Call, kind: Kind, key: str
) -> Listed | None:
    """Return the component with a name or URI, or with an equivalent spelling of the URI, that the user sees, or None.

    Args:
        lookups: The providers, in order.
        lifespans: The lifespan of the server.
        call: The request.
        kind: Kind of the component.
        key: The name or URI.

    Raises:
        Exception: Any exception of a provider.
    """
    lookups = [each for each in lookups if kind in each.kinds]
    for lookup in lookups:
        found = await lookup.find(kind, key, call, lifespans)
        if found is not None and found.is_visible(call.principal):
            return found
    if kind in ("resources", "resource_templates"):
        forms_of = template_spellings if kind == "resource_templates" else spellings
        form = normalized_template(key)
        for lookup in lookups:
            for each in (await lookup.list(kind, call, lifespans)).components:
                if form in forms_of(each.key) and each.is_visible(call.principal):
                    return each
    return None
