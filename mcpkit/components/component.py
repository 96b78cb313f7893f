"""What a server offers under a name or a URI: who may see it, what it takes to use it, and the limits of its calls."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import Self

from ..calls.limits import CallLimits
from ..common.errors import RegistrationError
from ..common.signatures import unknown_option
from ..content.data import check_sendable
from ..protocol.revisions import narrow
from ..protocol.types import Json
from ..state.principal import Principal
from ..state.scopes import scope_names
from ..state.visibility import says
from .checks import capabilities, check_icons, check_text, json_object
from .options import GROUPS, ComponentOptions, access_of

if TYPE_CHECKING:
    from ..calls.lifespan import Lifespans
    from .injection.plan import Injection


class Component(ABC):
    """One thing that a server offers.

    Args:
        key: Its name or URI.
        options: What it is given beside.

    Attributes:
        key: What it is listed, called and removed by: a name, or a URI (template) for resources.
        title: A name for people, or None.
        tags: Free words of the author's, for selecting components; never sent.
        requires: Client capabilities that a call needs.
        visible: Function that returns whether a principal may see and use it; None for every principal.
        scopes: Scopes that a call needs.
        optional_scopes: Scopes that its function may demand, by `ctx.require_scopes`.
        is_guarded: Whether it has scopes of either kind.
        is_anonymous: Whether a protected server serves it without an access token.
        is_enabled: Whether clients see it.
        position: Its place in the order of registration; 0 before.
        home: The stays in the lifespan whose state it finds: of the innermost server that it has come through; None
            for those of the one that serves it.
    """

    kind: ClassVar[str]
    """What an error message calls it: `tool`, `resource`, `resource template`, `prompt` or `method`."""

    allowed: ClassVar[Iterable[str]] = ComponentOptions.__annotations__
    """Options of every component of the class."""

    def __init__(self, key: str, options: ComponentOptions) -> None:
        check_sendable(f"{self.kind} {key!r}", "name" if self.kind != "resource" else "URI", key)
        if options:
            self._check_options(f"{self.kind} {key!r}", options)
        icons = options.get("icons")
        self.key = key
        self.title = options.get("title")
        self._description = options.get("description")
        self.icons = list(icons) if icons else None
        self.meta = json_object(f"{self.kind} {key!r}: meta", options.get("meta")) or None
        self.tags = frozenset(options.get("tags", ()))
        access = access_of(f"{self.kind} {key!r}", options) if options else None
        self.requires: tuple[str, ...] = ()
        self.visible: Callable[[Principal], bool] | None = None
        self.scopes: tuple[str, ...] = ()
        self.optional_scopes: tuple[str, ...] = ()
        if access is not None:
            what = f"{self.kind} {key!r}"
            self.requires = capabilities(what, access.requires_capabilities)
            self.visible = access.visible
            self.scopes = scope_names(what, access.scopes)
            self.optional_scopes = scope_names(what, access.optional_scopes)
        self.is_guarded = bool(self.scopes or self.optional_scopes)
        self.is_anonymous = access is not None and access.allow_anonymous
        self.is_enabled = True
        self.position = 0
        self.home: Lifespans | None = None
        self._limits: CallLimits | None = CallLimits.of(f"{self.kind} {key!r}", options) if options else None

    def _check_options(self, what: str, options: ComponentOptions) -> None:
        if unknown := sorted(options.keys() - set(self.allowed)):
            own = [
                p.name for p in inspect.signature(type(self)).parameters.values() if p.kind is p.KEYWORD_ONLY
            ]
            raise TypeError(unknown_option(what, unknown[0], [*own, *self.allowed], GROUPS))
        check_text(f"{what}: title", options.get("title"))
        check_text(f"{what}: description", options.get("description"))
        check_icons(what, options.get("icons"))
        if isinstance(tags := options.get("tags"), str):
            raise RegistrationError(
                f"{what}: tags must be a set of words, got one string. Write tags={{{tags!r}}}"
            )

    @property
    def description(self) -> str | None:
        """What it is for."""
        return self._description

    def is_visible(self, principal: Principal) -> bool:
        """Say whether a principal may see and use it; where its function cannot say so, it may not."""
        return self.visible is None or says(self.visible, principal, "visible= of %r %s: it is hidden", self)

    @property
    @abstractmethod
    def takes_context(self) -> bool:
        """Whether what serves it is given a Context, and so may log."""

    @property
    def injections(self) -> tuple[Injection, ...]:
        """The functions of the component that depend on others."""
        return ()

    def resolve(self) -> None:  # noqa: B027 - there may be nothing to read
        """Read all that it depends on, once.

        Raises:
            RegistrationError: Something cannot be served, or a forward reference
                cannot be resolved (`schema.UnresolvedHint`), which a later call may mend.
        """

    def renamed(self, key: str) -> Self:
        """Return a copy that goes by another name or URI."""
        twin = object.__new__(type(self))
        vars(twin).update(vars(self), key=key)
        return twin

    @property
    def origin(self) -> str:
        """Where it comes from, for messages to the author."""
        return f"{type(self).__module__}.{type(self).__qualname__}"

    def __repr__(self) -> str:
        """Show kind and key."""
        return f"<{self.kind} {self.key!r}>"


class Listed(Component):
    """A component that clients find in a list."""

    wire: ClassVar[str]
    """The specification's name of its listed form."""

    def listed(self, revision: str) -> Json:
        """Return the component as a list of `revision` shows it."""
        self.resolve()
        return narrow(self.wire, self.describe(revision), revision)

    @abstractmethod
    def describe(self, revision: str) -> Json:
        """Return the listed form; fields that `revision` does not know may be left in."""


def optional(**members: Any) -> Json:
    """Return the members that are not None."""
    return {name: value for name, value in members.items() if value is not None}
