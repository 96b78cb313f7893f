"""Providers: components that are looked up at each request, for example in a database."""

from __future__ import annotations

import inspect
import itertools
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

from typing_extensions import Self

from .._utils.errors import INTERNAL_ERROR, ProtocolError, RegistrationError
from .._utils.listeners import Listeners
from .._utils.uris import normalized_template, spellings, template_spellings
from ..components.catalog import Catalog
from ..components.component import Listed
from ..components.prefix import prefixed, without_prefix
from ..components.security_schemes import listed
from ..content.wording import described
from ..execution.lifespan import Lifespans
from ..identity.change import ListName
from ..protocol.types import Json
from ..requests.call import NO_STATE, Call
from ..requests.limits import run_limited

if TYPE_CHECKING:
    from ..context import Context

logger = logging.getLogger(__name__)

Kind = Literal["tools", "resources", "resource_templates", "prompts"]
"""Kinds of components that a provider can have."""

_KINDS: tuple[Kind, ...] = get_args(Kind)

Position = tuple[int, str]
"""Position of an entry in a list: that of its component or provider, and the position within its entries."""

_BEHIND = 10**15
"""First position of providers, after all registered components."""

_positions = itertools.count(1)
"""A cursor names a position, so a position is never given twice."""


class Provider:
    """Base class for components that are looked up at each request, for example in a database.

    A subclass implements `list` and `find`, and `server.include(provider)` adds it:

        class Notes(Provider):
            kinds = frozenset({"resources"})

            async def list(self, kind, ctx):
                return [note_resource(row) for row in await ctx.state.rows(ctx.principal.id)]

            async def find(self, kind, key, ctx):
                row = await ctx.state.row(key, ctx.principal.id)
                return None if row is None else note_resource(row)

    Lists contain registered components first, then those of providers. `find` is called only for names and URIs that
    are not registered. Both methods run in the event loop, within `Timeouts.call`.

    Attributes:
        kinds: Kinds of components that it provides, of `tools`, `resources`, `resource_templates` and `prompts`. The
            server declares their capabilities, and calls the provider for no other kind.
        listeners: Internal: functions that get the name of each list that has changed.
    """

    kinds: ClassVar[Collection[Kind]] = frozenset()
    listeners: Listeners[[ListName]]

    def __new__(cls, *_: Any, **__: Any) -> Self:
        """Create an instance with listeners, even if a subclass does not call `super().__init__()`."""
        made = super().__new__(cls)
        object.__setattr__(made, "listeners", Listeners())
        return made

    async def list(self, kind: Kind, ctx: Context) -> Sequence[Listed]:
        """Return all components of a kind that the user of the request may see. The default returns none.

        Args:
            kind: One of `kinds`.
            ctx: The request.

        Returns:
            Components of this kind with distinct names or URIs, in the order in which clients get them.
        """
        return ()

    async def find(self, kind: Kind, key: str, ctx: Context) -> Listed | None:
        """Return the component with a name or URI; None if there is none for this user. The default returns None.

        Args:
            kind: One of `kinds`. For `resources`, the URI may belong to a template: return a `Resource` for this URI.
                For `resource_templates`, it is called only to complete arguments of the template.
            key: The name, the URI, or the text of the template.
            ctx: The request.

        Returns:
            The component, or None.
        """
        return None

    def changed(self, kind: Kind) -> None:
        """Notify the listening clients that a list has changed, from any thread: `provider.changed("tools")`.

        Args:
            kind: One of `kinds`.

        Raises:
            ValueError: `kind` is not one of `kinds`.
        """
        if kind not in self.kinds:
            kinds = ", ".join(self.kinds)
            raise ValueError(
                f"{self!r} does not provide {kind!r}, but {kinds}. Add it to its `kinds`, or pass one of these"
            )
        self.listeners.tell(_list_of(kind))


class Provided:
    """The components of a provider in a registry: with the prefix, and without hidden ones.

    Args:
        source: The provider, or its components in an included registry.
        catalog: The catalog of the registry.
        prefix: Prefix of names and URIs.

    Attributes:
        kinds: Kinds that are provided.
        position: Position among all providers.
        name: Name in messages: the class of the provider.
        home: The lifespan that provides the state; None for that of the server that serves the component.
    """

    def __init__(self, source: Provider | Provided, catalog: Catalog, prefix: str) -> None:
        self._source = source
        self._catalog = catalog
        self._prefix = prefix
        self.kinds: frozenset[Kind] = frozenset(source.kinds)
        self.home: Lifespans | None = catalog.lifespans
        if isinstance(source, Provided):
            self.position: int = source.position
            self.name: str = source.name
            self.home = source.home or self.home
        else:
            self.position = next(_positions)
            self.name = type(source).__qualname__

    def shows(self, provider: Provider, prefix: str) -> bool:
        """Return True if it has the components of a provider under a prefix."""
        return self._source is provider and self._prefix == prefix

    async def list(self, kind: Kind, ctx: Context) -> Iterable[Listed]:
        """Return all components of a kind that are not hidden.

        Raises:
            TypeError: The provider returned something else.
            RegistrationError: A component cannot be served.
            Exception: Any exception of the provider.
        """
        found = await self._awaited("list", self._source.list(kind, ctx))
        if isinstance(found, str) or not hasattr(found, "__iter__"):
            raise TypeError(f"{self.name}.list({kind!r}) returned {described(found)}. Return a list")
        return [shown for each in found if (shown := self._shown(kind, each)) is not None]

    async def find(self, kind: Kind, key: str, ctx: Context) -> Listed | None:
        """Return the component with a name or URI in this registry; None if there is none or it is hidden.

        Raises:
            Exception: The same as in `list`.
        """
        plain = without_prefix(key, self._prefix, is_uri=kind.startswith("resource"))
        if plain is None:
            return None
        found = await self._awaited("find", self._source.find(kind, plain, ctx))
        if found is None or (shown := self._shown(kind, found)) is None:
            return None
        if shown.key != key:
            raise TypeError(
                f"{self.name}.find({kind!r}, {plain!r}) returned {found!r}, which has a different name"
            )
        return shown

    async def _awaited(self, method: str, answer: Awaitable[Any]) -> Any:
        if not inspect.isawaitable(answer):
            raise TypeError(f"{self.name}.{method} returned {described(answer)}. Write `async def {method}`")
        return await answer

    def _shown(self, kind: Kind, component: Any) -> Listed | None:
        part = getattr(self._catalog, kind)
        if not part.takes(component):
            raise TypeError(f"{self.name} returned {component!r} for {kind}, which is not a {part.kind}")
        from ..components.tools import Tool

        if isinstance(component, Tool) and component.task is not None:
            raise TypeError(
                f"{self.name} returned {component!r} with task=, which providers do not support: the process that runs "
                "a task needs its tool outside a request. Register the tool with the server"
            )
        component.resolve()  # this one and not its twin, as the author may keep it
        if not component.is_enabled or part.hides(component):
            return None
        twin: Listed = component.renamed(prefixed(component, self._prefix))
        if twin.home is None:
            twin.home = self.home
        return twin


def check_kinds(provider: Provider) -> None:
    """Check the `kinds` of a provider.

    Raises:
        RegistrationError: There are none, or one is unknown.
    """
    kinds: Any = provider.kinds
    if (
        type(kinds) not in (frozenset, set, tuple, list)
        or not kinds
        or not all(map(_KINDS.__contains__, kinds))
    ):
        raise RegistrationError(
            f"{type(provider).__qualname__}.kinds must be a set of some of {', '.join(_KINDS)}, such as "
            f"`kinds = frozenset({{'tools'}})`, got {kinds!r}"
        )


def lists_of(providers: Iterable[Provided]) -> Iterable[ListName]:
    """Return the names of the protocol's lists that contain components of these providers."""
    return dict.fromkeys(_list_of(kind) for each in providers for kind in _KINDS if kind in each.kinds)


def _list_of(kind: Kind) -> ListName:
    return "resources" if kind == "resource_templates" else kind


async def find(
    providers: Iterable[Provided], lifespans: Lifespans, call: Call, kind: Kind, key: str
) -> Listed | None:
    """Return the component with a name or URI from the first provider that has it, or None.

    Args:
        providers: The providers, in order.
        lifespans: The lifespan that provides the state.
        call: The request.
        kind: Kind of the component.
        key: The name or URI.

    Raises:
        Exception: Any exception of a provider.
    """
    for provided in providers:
        if kind in provided.kinds:
            found: Listed | None = await _ask(provided, lifespans, call, provided.find, kind, key)
            if found is not None:
                return found
    return None


async def find_spelled(
    providers: Iterable[Provided], lifespans: Lifespans, call: Call, kind: Kind, key: str
) -> Listed | None:
    """Return the component that a provider lists under an equivalent spelling of a URI.

    Arguments and exceptions are those of `find`.
    """
    form = normalized_template(key)
    for provided in providers:
        if kind in provided.kinds:
            for each in await _ask(provided, lifespans, call, provided.list, kind):
                if form in (template_spellings if kind == "resource_templates" else spellings)(each.key):
                    found: Listed = each
                    return found
    return None


async def entries(
    providers: Iterable[Provided], lifespans: Lifespans, call: Call, kind: Kind, taken: Mapping[str, str]
) -> list[tuple[Position, Json]]:
    """Return the list entries of providers that the user of the request may see, in the form of the call's revision.

    Args:
        providers: The providers of this kind.
        lifespans: The lifespan that provides the state.
        call: The request.
        kind: Kind of the components.
        taken: Origin of each registered name or URI.

    Raises:
        ProtocolError: -32603 if two components have one name.
        Exception: Any exception of a provider.
    """
    origins = dict(taken)
    found: list[tuple[Position, Json]] = []
    for provided in providers:
        for number, each in enumerate(await _ask(provided, lifespans, call, provided.list, kind)):
            if not each.is_visible(call.principal):
                continue
            mine = f"one of {provided.name}"
            other = origins.setdefault(each.key, mine)
            if other is not mine:
                two_with_one_name = f"two {each.kind}s are named {each.key!r}"
                logger.error("%s: %s and %s", two_with_one_name, other, mine)
                raise ProtocolError(
                    INTERNAL_ERROR,
                    f"{two_with_one_name}, one of them from {provided.name}. Rename one on the server",
                )
            position = (_BEHIND + provided.position, f"{number:09}:{each.key}")
            found.append((position, listed(each, call.revision, call.runtime)))
    return found


async def _ask(
    provided: Provided,
    lifespans: Lifespans,
    call: Call,
    method: Callable[..., Coroutine[Any, Any, Any]],
    *args: Any,
) -> Any:
    """Call a method of a provider within the time limit of the call, with the state of the server that included it."""
    from ..context import Context

    call.state = await lifespans.state_of(provided.home or lifespans)
    try:
        return await run_limited(method(*args, Context(call)), call, None)
    finally:
        call.state = NO_STATE


def resumed(after: Position, entries: Iterable[tuple[Position, object]]) -> Position:
    """Return the position of the entry after which a list continues.

    The order of a provider may change between pages. If the entry that a cursor names has moved, the list continues
    after its new position. If it is gone, the list continues at its old position.
    """
    place, text = after
    if place < _BEHIND:
        return after
    number, _, key = text.partition(":")
    moved = (each for each, _ in entries if each[0] == place and each[1].partition(":")[2] == key)
    return next(moved, (place, number))
