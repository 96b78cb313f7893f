"""Base classes of registered components: access rules, limits and the form in lists."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import Self

from .._utils.errors import RegistrationError
from .._utils.signatures import unknown_option
from ..content.data import check_sendable
from ..identity.principal import Principal
from ..identity.scopes import scope_names
from ..identity.visibility import says
from ..protocol.revisions import narrow
from ..protocol.types import Json
from ..requests.limits import CallLimits
from .checks import capabilities, check_icons, check_text, json_object
from .options import GROUPS, ComponentOptions, access_of

if TYPE_CHECKING:
    from ..execution.lifespan import Lifespans
    from .injection.plan import Injection


class Component(ABC):
    """Base class of tools, resources, resource templates, prompts and custom methods.

    Args:
        key: Name, or URI (template) of a resource.
        options: Options of the component, see `ComponentOptions`.

    Attributes:
        kind: Kind of component in messages: `tool`, `resource`, `resource template`, `prompt` or `method`.
        allowed: Names of the options that every component of the class accepts.
        key: Name, or URI (template) of a resource. Clients use it in requests, and `remove` takes it.
        title: Display name, or None.
        icons: Icons that a host may show, or None.
        meta: `_meta` of the entry in lists, or None.
        tags: Words by which `enable` and `disable` select the component; not sent to clients.
        requires: Client capabilities that a call needs.
        visible: Function that returns whether a principal may see and use the component; None for every principal.
        scopes: Scopes that a call needs.
        optional_scopes: Scopes that the function may demand, by `ctx.require_scopes`.
        is_guarded: Whether it has `scopes` or `optional_scopes`.
        is_anonymous: Whether a protected server serves it without an access token.
        is_enabled: Whether clients can see and use it.
        position: Place in the order of registration; 0 before it is registered.
        home: Lifespans of the innermost server that the component was registered with, for `ctx.state`; None takes
            those of the server that runs it.
    """

    kind: ClassVar[str]
    """Kind in error messages: `tool`, `resource`, `resource template`, `prompt` or `method`."""

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
        """Description for models and users, or None."""
        return self._description

    def is_visible(self, principal: Principal) -> bool:
        """Return whether a principal may see and use the component.

        An exception in `visible` is logged and hides the component.

        Args:
            principal: Principal of the request.
        """
        return self.visible is None or says(self.visible, principal, "visible= of %r %s: it is hidden", self)

    @property
    @abstractmethod
    def takes_context(self) -> bool:
        """True if the component receives a Context, and so may send log messages."""

    @property
    def injections(self) -> tuple[Injection, ...]:
        """Dependency plans of the component's functions."""
        return ()

    def resolve(self) -> None:  # noqa: B027 - there may be nothing to read
        """Read type hints and build schemas, on the first call.

        Raises:
            RegistrationError: The definition cannot be served, or a forward reference cannot be resolved yet
                (`schema.UnresolvedHint`); a later call tries again.
        """

    def renamed(self, key: str) -> Self:
        """Return a copy with another name or URI.

        Args:
            key: Name or URI of the copy.
        """
        twin = object.__new__(type(self))
        vars(twin).update(vars(self), key=key)
        return twin

    @property
    def origin(self) -> str:
        """Module and class or function that defines the component, for error messages."""
        return f"{type(self).__module__}.{type(self).__qualname__}"

    def __repr__(self) -> str:
        """Show kind and key."""
        return f"<{self.kind} {self.key!r}>"


class Listed(Component):
    """A component that is an entry of a list: `tools/list`, `resources/list` and so on."""

    wire: ClassVar[str]
    """The specification's name of its listed form."""

    def listed(self, revision: str) -> Json:
        """Return the entry of the component in lists of a protocol version.

        Args:
            revision: Protocol version. Fields that it does not define are left out.
        """
        self.resolve()
        return narrow(self.wire, self.describe(revision), revision)

    @abstractmethod
    def describe(self, revision: str) -> Json:
        """Return the entry with fields of every protocol version; `listed` removes those that `revision` lacks.

        Args:
            revision: Protocol version.
        """


def optional(**members: Any) -> Json:
    """Return the members that are not None."""
    return {name: value for name, value in members.items() if value is not None}
