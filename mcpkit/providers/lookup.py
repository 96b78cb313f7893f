"""Components of dynamic providers, which are looked up at each request."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from ..components.base import Listed
from ..components.tool import AnyTool
from ..content.blocks import described
from ..content.uri_normalization import normalized_template, spellings, template_spellings
from ..context import Context
from ..execution.lifespan import Lifespans
from ..requests.call import NO_STATE, Call, run_limited
from .base import Kind, Provider, Transform, check_provided, transformed

_MAX_KEPT = 256
"""Maximum number of lists of a provider that are kept: one for each kind and user."""

_positions = itertools.count(1)
"""A cursor contains a position, so a position is never used twice."""


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
        return Lookup(
            self.provider, self.kinds, transforms, self._home or home, self._lifespans, self.position
        )

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
        plain: str | None = key
        for transform in reversed(self._transforms):
            if plain is None:
                return None
            plain = transform.original(kind, plain)
        if plain is None:
            return None
        found = await self._run(call, lifespans, self.provider.find, kind, plain)
        shown = None if found is None else self._transformed(kind, found)
        if shown is not None and shown.key != key:
            raise TypeError(
                f"{self.name}.find({kind!r}, {plain!r}) returned {found!r}, which has a different name"
            )
        return shown

    async def _run(
        self,
        call: Call,
        lifespans: Lifespans,
        method: Callable[..., Coroutine[Any, Any, Any]],
        *args: Any,
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
