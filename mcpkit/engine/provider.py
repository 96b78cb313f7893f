"""Providers: components that an author's code looks up when somebody asks, such as in a database."""

from __future__ import annotations

import inspect
import itertools
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

from typing_extensions import Self

from ..calls.call import NO_STATE, Call
from ..calls.lifespan import Lifespans
from ..calls.limits import run_limited
from ..common.errors import INTERNAL_ERROR, ProtocolError, RegistrationError
from ..common.listeners import Listeners
from ..common.uris import normalized_template, spellings, template_spellings
from ..components.catalog import Catalog
from ..components.component import Listed
from ..components.prefix import prefixed, without_prefix
from ..components.security_schemes import listed
from ..content.wording import described
from ..protocol.types import Json
from ..state.change import ListName

if TYPE_CHECKING:
    from ..components.context import Context

logger = logging.getLogger(__name__)

Kind = Literal["tools", "resources", "resource_templates", "prompts"]
"""What can be provided."""

_KINDS: tuple[Kind, ...] = get_args(Kind)

Position = tuple[int, str]
"""Where an entry stands in a list: the place of what lists it, and among what that lists."""

_BEHIND = 10**15
"""Where providers begin to list: behind all that is registered."""

_positions = itertools.count(1)
"""A cursor names a position, so a position is never given twice."""


class Provider:
    """Tools, resources, resource templates and prompts that are looked up when somebody asks.

    A class of one's own says in `list` what there is and in `find` what goes by a name; `server.include(provider)` adds
    it. In lists what it has comes after what is registered, and it is asked for what is not registered alone. Both
    methods run in the event loop, within the server's `timeout=`.

    Attributes:
        kinds: What it has, of `tools`, `resources`, `resource_templates` and `prompts`: clients are told that there are
            such, and it is asked for nothing else.
        listeners: They hear of the lists that have changed.
    """

    kinds: ClassVar[Collection[Kind]] = frozenset()
    listeners: Listeners[[ListName]]

    def __new__(cls, *_: Any, **__: Any) -> Self:
        """Return one that can be listened to, whatever its `__init__` does."""
        made = super().__new__(cls)
        object.__setattr__(made, "listeners", Listeners())
        return made

    async def list(self, kind: Kind, ctx: Context) -> Sequence[Listed]:
        """Return all that there is of a kind, for who asks; nothing where it is not overridden.

        Args:
            kind: One of `kinds`.
            ctx: The request.

        Returns:
            Components of this kind, each with a name or URI of its own, in the order in which clients get them.
        """
        return ()

    async def find(self, kind: Kind, key: str, ctx: Context) -> Listed | None:
        """Return what goes by a name or URI, for who asks; None where there is none, or it is not overridden.

        Args:
            kind: One of `kinds`. For `resources` the URI may be one of a template's: it takes a `Resource` for that
                URI. For `resource_templates` it is asked when their arguments are to be completed alone.
            key: The name, the URI, or the text of the template.
            ctx: The request.
        """
        return None

    def changed(self, kind: Kind) -> None:
        """Tell the clients that listen that a list has changed; in any thread.

        Raises:
            ValueError: It is none of `kinds`.
        """
        if kind not in self.kinds:
            raise ValueError(f"{self!r} does not provide {kind!r}, but: {', '.join(self.kinds)}")
        self.listeners.tell(_list_of(kind))


class Provided:
    """What a provider has, as a registry shows it: under a prefix, without what the registry hides.

    Args:
        source: The provider, or what another registry shows of it.
        catalog: The catalog.
        prefix: What is put before names.

    Attributes:
        kinds: What it has.
        position: Its place among all providers.
        name: What messages call it: the class of the provider.
        home: The stays in the lifespan whose state it finds; None for those of the server that serves it.
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
        """Say whether it is what a provider has under a prefix."""
        return self._source is provider and self._prefix == prefix

    async def list(self, kind: Kind, ctx: Context) -> Iterable[Listed]:
        """Return all that there is of a kind and not hidden.

        Raises:
            TypeError: The provider has returned something else.
            RegistrationError: Something cannot be served.
            Exception: Whatever the provider raises.
        """
        found = await self._awaited("list", self._source.list(kind, ctx))
        if isinstance(found, str) or not hasattr(found, "__iter__"):
            raise TypeError(f"{self.name}.list({kind!r}) returned {described(found)}. Return a list")
        return [shown for each in found if (shown := self._shown(kind, each)) is not None]

    async def find(self, kind: Kind, key: str, ctx: Context) -> Listed | None:
        """Return what goes by a name or URI here, unless it is hidden; raises as `list` does."""
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
    """Check what a provider says that it has.

    Raises:
        RegistrationError: It says nothing, or something that there is not.
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
    """Return the lists of the protocol in which there is something of these providers."""
    return dict.fromkeys(_list_of(kind) for each in providers for kind in _KINDS if kind in each.kinds)


def _list_of(kind: Kind) -> ListName:
    return "resources" if kind == "resource_templates" else kind


async def find(
    providers: Iterable[Provided], lifespans: Lifespans, call: Call, kind: Kind, key: str
) -> Listed | None:
    """Return what the first provider that knows a name or URI has; None where nobody does.

    Args:
        providers: Who is asked.
        lifespans: Fills the state that they find.
        call: The request.
        kind: What is asked for.
        key: The name or URI.

    Raises:
        Exception: Whatever a provider raises.
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
    """Return what providers list under another spelling of a URI; arguments and errors are those of `find`."""
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
    """Return what providers list, for who asks, as `call.revision` shows it.

    Args:
        providers: Who is asked; they have what is listed.
        lifespans: Fills the state that they find.
        call: The request.
        kind: What is listed.
        taken: Where each name or URI comes from that is registered.

    Raises:
        ProtocolError: -32603, when two things have one name.
        Exception: Whatever a provider raises.
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
                what = f"two {each.kind}s are named {each.key!r}"
                logger.error("%s: %s and %s", what, other, mine)
                raise ProtocolError(INTERNAL_ERROR, f"{what}, one of them from {provided.name}")
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
    """Ask a provider, within the server's time; it finds the state of the server that has included it."""
    from ..components.context import Context

    call.state = await lifespans.state_of(provided.home or lifespans)
    try:
        return await run_limited(method(*args, Context(call)), call, None)
    finally:
        call.state = NO_STATE


def resumed(after: Position, entries: Iterable[tuple[Position, object]]) -> Position:
    """Return the position of the entry after which a list goes on.

    The order of a provider is its own. Where what a cursor names has moved, the list goes on behind where it is now;
    where it is gone, with what has taken its place.
    """
    place, text = after
    if place < _BEHIND:
        return after
    number, _, key = text.partition(":")
    moved = (each for each, _ in entries if each[0] == place and each[1].partition(":")[2] == key)
    return next(moved, (place, number))
