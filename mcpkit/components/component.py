"""What a server offers under a name or a URI: who may see it, what it takes to use it, and the limits of its calls."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import Self, TypedDict

from ..calls.limits import Limits
from ..common.errors import RegistrationError
from ..content.data import check_sendable
from ..protocol.revisions import narrow
from ..protocol.types import Icon, Json
from ..state.principal import Principal
from ..state.scopes import scope_names
from ..state.visibility import check_visible, says
from .checks import capabilities, check_icons, check_text, json_object

if TYPE_CHECKING:
    from ..calls.lifespan import Lifespans
    from .injection.plan import Injection


class ComponentOptions(TypedDict, total=False):
    """What every component may be given beside its name; `Decorators.tool` says what each means."""

    title: str | None
    description: str | None
    icons: Sequence[Icon] | None
    meta: Mapping[str, Any] | None
    tags: Collection[str]
    requires: str | Sequence[str]
    visible: Callable[[Principal], bool] | None
    scopes: str | Collection[str]
    may_need: str | Collection[str]
    anonymous: bool
    timeout: float | None
    concurrency: int | None
    single_use: bool
    replace: bool


class Component(ABC):
    """One thing that a server offers.

    Args:
        key: Its name or URI.
        options: What it is given beside.

    Attributes:
        key: What it is listed, called and removed by: a name, or a URI (template) for resources.
        title: A name for people, or None.
        tags: Free words of the author's, for selecting components; never sent.
        requires: Capabilities that a client must have declared to use it.
        visible: Says who may see and use it; None for everybody.
        scopes: What whoever uses it must have been granted.
        may_need: What it may ask for in its midst, by `ctx.require`.
        is_guarded: Whether it takes scopes.
        is_anonymous: Whether nobody need say who they are to use it, where the server is protected.
        is_single_use: Whether each `requestState` is taken once.
        replaces: Whether it takes the place of what has the same name or URI.
        is_enabled: Whether clients see it.
        position: Its place in the order of registration; 0 before.
        home: The stays in the lifespan whose state it finds: of the innermost server that it has come through; None
            for those of the one that serves it.
    """

    kind: ClassVar[str]
    """What an error message calls it: `tool`, `resource`, `resource template`, `prompt` or `method`."""

    allowed: ClassVar[Iterable[str]] = ComponentOptions.__annotations__
    """The options that every component of the class may be given."""

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
        self.requires = capabilities(f"{self.kind} {key!r}", options.get("requires", ()))
        self.visible = options.get("visible")
        self.scopes: tuple[str, ...] = ()
        self.may_need: tuple[str, ...] = ()
        if "scopes" in options or "may_need" in options:
            what = f"{self.kind} {key!r}"
            self.scopes = scope_names(f"{what}: scopes=", options.get("scopes", ()))
            self.may_need = scope_names(f"{what}: may_need=", options.get("may_need", ()))
        self.is_guarded = bool(self.scopes or self.may_need)
        self.is_anonymous = options.get("anonymous", False)
        self.is_single_use = options.get("single_use", False)
        self.replaces = options.get("replace", False)
        self.is_enabled = True
        self.position = 0
        self.home: Lifespans | None = None
        self._limits: Limits | None = Limits.of(f"{self.kind} {key!r}", options) if options else None

    def _check_options(self, what: str, options: ComponentOptions) -> None:
        if unknown := sorted(options.keys() - set(self.allowed)):
            own = [
                p.name for p in inspect.signature(type(self)).parameters.values() if p.kind is p.KEYWORD_ONLY
            ]
            raise RegistrationError(
                f"{what}: there is no option {unknown[0]}=; there are {', '.join([*own, *self.allowed])}"
            )
        check_text(f"{what}: title", options.get("title"))
        check_text(f"{what}: description", options.get("description"))
        check_icons(what, options.get("icons"))
        check_visible(what, options.get("visible"))
        for name in ("single_use", "replace", "anonymous"):
            if type(options.get(name, False)) is not bool:
                raise RegistrationError(f"{what}: {name} is True or False, got {options.get(name)!r}")
        if options.get("anonymous") and options.get("scopes"):
            raise RegistrationError(
                f"{what}: anonymous=True serves whoever has no token, and scopes= wants one: leave one of them out; "
                "may_need= is for what only some calls need"
            )
        if isinstance(tags := options.get("tags"), str):
            raise RegistrationError(
                f"{what}: tags is a set of words, not one string; write tags={{{tags!r}}}"
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
