"""Base classes of components: options, access rules, the form in lists, and components that run a function.

Hosts drop a whole list for one wrong member, so all values are checked at registration.
"""

from __future__ import annotations

import inspect
import logging
import sys
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeGuard

from pydantic_core import SchemaValidator, ValidationError, from_json, to_json
from typing_extensions import Self, TypedDict, Unpack

from .._utils.exceptions import RegistrationError
from .._utils.option_checks import unknown_option
from ..content.blocks import LeaveLoop
from ..content.json_encoding import check_sendable
from ..execution.coroutines import COMPLETE_TYPES, is_async_iterable, is_complete
from ..identity.principals_and_scopes import Principal, check_visible, is_matched, scope_names
from ..options import Options, check_bool
from ..protocol.jsonrpc import Json
from ..protocol.objects import Icon
from ..protocol.revisions import capability_path, knows, narrow
from ..requests.access_and_error_responses import error_for_client
from ..requests.request_record import Call, CallContext, Make, finish, finish_call, make_result, run_limited
from ..requests.timeouts_and_concurrency import CallLimits
from ..schema import Arguments, Output, Signature
from ..schema.function_signatures import innermost
from .dependencies import context_type, hidden, is_hidden

if TYPE_CHECKING:
    from ..execution.lifespan import Lifespans
    from ..requests.request_record import Runtime
    from .dependency_runner import Injection

logger = logging.getLogger(__name__)


# Options


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Access(Options):
    """Rules for who may see and use a component: `@server.tool(access=Access(visible=is_member))`.

    Attributes:
        scopes: Scopes that a call needs, one name or a list. The component is listed without them; a call that lacks
            one is challenged before the function runs (403, basic/authorization). `scopes=` of the decorator is short
            for it.
        optional_scopes: Scopes that the function may demand while it runs, by `ctx.require_scopes`. The response does
            not begin before it does.
        visible: Function of the request's principal that returns whether the component is listed and can be used;
            None shows it to every client.
        allow_anonymous: Whether a protected server serves the component to requests without an access token.
        requires_capabilities: Client capabilities that a call needs, such as `sampling` (`ctx.client.supports`).

    Raises:
        TypeError: There is no such option, or it has the wrong type.
        RegistrationError: A scope is not a scope of OAuth, or `allow_anonymous` is combined with `scopes`.
    """

    scopes: str | Collection[str] = ()
    optional_scopes: str | Collection[str] = ()
    visible: Callable[[Principal], bool] | None = None
    allow_anonymous: bool = False
    requires_capabilities: str | Sequence[str] = ()

    def __post_init__(self) -> None:
        """Check the values."""
        scope_names("Access(scopes=...)", self.scopes)
        scope_names("Access(optional_scopes=...)", self.optional_scopes)
        check_bool("Access(allow_anonymous=...)", self.allow_anonymous)
        check_visible("Access(visible=...)", self.visible)
        if self.allow_anonymous and self.scopes:
            raise RegistrationError(
                "Access(allow_anonymous=True) serves requests without a token, and scopes= needs one. Remove one of "
                "the two, or use optional_scopes= for what only some calls need"
            )


_UNRESTRICTED = Access()


class ComponentOptions(TypedDict, total=False):
    """Options of every component."""

    title: str | None
    """Display name."""
    description: str | None
    """Description for clients and models; None takes the summary and body of the docstring."""
    icons: Sequence[Icon] | None
    """Icons that a host may show."""
    meta: Mapping[str, Any] | None
    """The `_meta` of the entry in lists."""
    tags: Collection[str]
    """Tags for `server.enable(tags=...)` and `server.disable(tags=...)`; not sent to clients."""
    scopes: str | Collection[str]
    """Scopes that a call needs: short for `access=Access(scopes=...)`."""
    access: Access | None
    """Rules for the clients that may see and use the component."""
    timeout: float | None
    """Time limit of a call in seconds; None for no limit. The default is `Timeouts.call` of the server."""
    max_concurrency: int | None
    """Number of calls that run at a time; None for no limit. Others wait in order of arrival."""


class FunctionOptions(ComponentOptions, total=False):
    """Options of every component that is a function."""

    run_in: Literal["thread", "process", "loop"] | None
    """Place where a function that is not `async` runs: a worker `thread` (default); a worker `process`, which is killed
    when the call is cancelled or times out; or the event `loop`, where it must not block."""


def access_of(what: str, options: ComponentOptions) -> Access:
    """Return the access rules among the options of a component.

    Args:
        what: The component, for messages.
        options: Its options.

    Raises:
        TypeError: `access` is no `Access`, or scopes are given twice.
    """
    access = options.get("access")
    if access is not None and not isinstance(access, Access):  # pyright: ignore[reportUnnecessaryIsInstance]  # untyped authors
        raise TypeError(f"{what}: access must be Access(...), got {access!r}")
    if access is not None and "scopes" in options:
        raise TypeError(f"{what}: scopes= and access= are both given. Write Access(scopes=...) alone")
    if scopes := options.get("scopes"):
        return Access(scopes=scope_names(f"{what}: scopes=", scopes))
    return access or _UNRESTRICTED


# Components


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
    allowed: ClassVar[Iterable[str]] = ComponentOptions.__annotations__
    _option_groups: ClassVar[Mapping[str, type[Options]]] = {"access": Access}

    def __init__(self, key: str, options: ComponentOptions) -> None:
        what = f"{self.kind} {key!r}"
        check_sendable(what, "URI" if self.kind == "resource" else "name", key)
        if options:
            self._check_options(what, options)
        icons = options.get("icons")
        self.key = key
        self.title = options.get("title")
        self._description = options.get("description")
        self.icons = list(icons) if icons else None
        self.meta = json_object(f"{what}: meta", options.get("meta")) or None
        self.tags = frozenset(options.get("tags", ()))
        access = access_of(what, options) if options else _UNRESTRICTED
        self.requires = capabilities(what, access.requires_capabilities)
        self.visible = access.visible
        self.scopes = scope_names(what, access.scopes)
        self.optional_scopes = scope_names(what, access.optional_scopes)
        self.is_guarded = bool(self.scopes or self.optional_scopes)
        self.is_anonymous = access.allow_anonymous
        self.is_enabled = True
        self.position = 0
        self.home: Lifespans | None = None
        self._limits: CallLimits | None = CallLimits.of(what, options) if options else None

    def _check_options(self, what: str, options: ComponentOptions) -> None:
        if unknown := sorted(options.keys() - set(self.allowed)):
            parameters = inspect.signature(type(self)).parameters.values()
            known = [*(each.name for each in parameters if each.kind is each.KEYWORD_ONLY), *self.allowed]
            raise TypeError(unknown_option(what, unknown[0], known, self._option_groups))
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
        about = "visible= of %r %s: it is hidden"
        return self.visible is None or is_matched(self.visible, principal, about, self)

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


# Entries of lists


class Listed(Component):
    """A component that is an entry of a list: `tools/list`, `resources/list` and so on.

    Attributes:
        wire: Name of the entry in the specification.
    """

    wire: ClassVar[str]

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

    def _entry(self, first: Json, **members: Any) -> Json:
        """Return an entry of the members that are not None, with those that all lists have.

        Args:
            first: Members at the beginning, such as the name.
            members: Other members of this list.
        """
        members = {"title": self.title, "description": self.description, **members}
        return optional(**first, **members, icons=self.icons, _meta=self.meta)


def listed(component: Listed, revision: str, runtime: Runtime) -> Json:
    """Return the list entry of a component; for a tool of a protected server, with `securitySchemes` in its `_meta`.

    Hosts such as ChatGPT read there whether a tool needs a login, and its scopes. The form is that of OpenAI's Apps
    SDK. A value that the author set stays.

    Args:
        component: The listed component.
        revision: Protocol version of the list.
        runtime: The runtime of the server.
    """
    entry = component.listed(revision)
    if not runtime.is_protected or component.kind != "tool" or not knows(revision, "Tool", "_meta"):
        return entry
    login: Json = {"type": "oauth2", "scopes": list(component.scopes or runtime.scopes.defaults)}
    schemes: list[Json] = [login]
    if component.is_anonymous:
        scopes = runtime.scopes.reduced((*component.scopes, *component.optional_scopes))
        schemes = [{"type": "noauth"}, {**login, "scopes": list(scopes)}] if scopes else [{"type": "noauth"}]
    return {**entry, "_meta": {"securitySchemes": schemes, **entry.get("_meta", {})}}


def optional(**members: Any) -> Json:
    """Return the members that are not None."""
    return {name: value for name, value in members.items() if value is not None}


# Checks of values that follow the specification's schema


def check_text(what: str, value: Any) -> None:
    """Check that a value is None or a string that can be sent.

    Raises:
        RegistrationError: It is neither, or the string has a lone surrogate.
    """
    if value is not None and not isinstance(value, str):
        raise RegistrationError(f"{what} must be a string, got {value!r}")
    where, _, part = what.rpartition(": ")
    check_sendable(where, part, value)


def check_members(what: str, value: Any, shape: type[Mapping[str, Any]], *, required: str = "") -> None:
    """Check a dict against a TypedDict of the specification: unknown, missing and wrongly typed members.

    Args:
        what: Name of the value in messages.
        value: The dict.
        shape: TypedDict with the specification's members.
        required: A member that must be present.

    Raises:
        RegistrationError: The dict does not match.
    """
    known = shape.__annotations__
    if not _is_mapping(value):
        raise RegistrationError(f"{what} must be a dict with {', '.join(known)}, got {value!r}")
    if unknown := sorted(map(str, value.keys() - known.keys())):
        raise RegistrationError(
            f"{what}: unknown member {unknown[0]!r}. The specification defines {', '.join(known)}"
        )
    if required and required not in value:
        raise RegistrationError(f"{what}: the member {required!r} is missing")
    schema, validator = _schema_of(shape)
    members: Json = dict(value)
    try:
        validator.validate_python(members)
    except ValidationError:
        from ..schema.validation_errors import problems

        wrong = "; ".join(map(str, problems(schema, members)))
        raise RegistrationError(f"{what}: {wrong}") from None
    where, _, part = what.rpartition(": ")
    check_sendable(where, part, members)


@cache
def _schema_of(shape: type[Mapping[str, Any]]) -> tuple[Json, SchemaValidator]:
    from ..schema.fast_path_for_builtin_types import describe

    described = describe(shape)
    return described.schema, SchemaValidator(described.core)


def check_icons(what: str, icons: Any) -> None:
    """Check icons ("icons" of the base protocol).

    Raises:
        RegistrationError: The value is not a list of icons, or an icon has a source that hosts must not load.
    """
    if icons is None:
        return
    if not _is_sequence(icons):
        raise RegistrationError(
            f'{what}: icons must be a list such as [{{"src": "https://..."}}], got {icons!r}'
        )
    for icon in icons:
        check_members(f"{what}: icon", icon, Icon, required="src")
        if not icon["src"].startswith(("https:", "http:", "data:")):
            raise RegistrationError(f"{what}: icon: src must be an https: or data: URI, got {icon['src']!r}")


def json_object(what: str, value: Any) -> Json:
    """Return a copy of a dict as a JSON object; None gives an empty one.

    Raises:
        RegistrationError: It is not a dict with string keys, or a value cannot be converted to JSON.
    """
    if value is None:
        return {}
    if not _is_mapping(value) or not all(isinstance(key, str) for key in value):
        raise RegistrationError(f"{what} must be a dict with string keys, got {value!r}")
    try:
        copy: Json = from_json(to_json(dict(value), inf_nan_mode="constants"), allow_inf_nan=False)
    except ValueError as error:
        raise RegistrationError(f"{what} cannot be converted to JSON: {error}") from None
    return copy


def capabilities(what: str, requires: Any) -> tuple[str, ...]:
    """Return the checked capability names of `requires_capabilities=`.

    Raises:
        RegistrationError: It is neither a name nor a list of names, or a capability is unknown.
    """
    if not requires:
        return ()
    names: Any = (requires,) if isinstance(requires, str) else requires
    if not _is_sequence(names) or not all(isinstance(name, str) for name in names):
        raise RegistrationError(f"{what}: requires must be a list of strings, got {requires!r}")
    for name in names:
        try:
            capability_path(name)
        except ValueError as error:
            raise RegistrationError(f"{what}: requires: {error}") from None
    return tuple(names)


def is_template(uri: str) -> bool:
    """Return whether a URI has braces, and so is a template, valid or not."""
    return "{" in uri or "}" in uri


def _is_sequence(value: Any) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, list | tuple)


def _is_mapping(value: Any) -> TypeGuard[Mapping[Any, Any]]:
    return isinstance(value, Mapping)


# Components that are made from a function

# Attributes that do not go along to a worker process.
_NOT_PICKLED = frozenset(
    {"_signature", "_injection", "_arguments", "_output", "_limits", "_place", "visible", "home", "watch"}
)


class FunctionComponent(Component):
    """A component that is made from one function.

    Args:
        function: Function that handles requests.
        key: Name or URI.
        options: See `FunctionOptions`.

    Attributes:
        function: The function, unchanged.
        is_resolved: Whether its type hints have been read.
        describes_arguments: Whether lists show arguments with descriptions. If not, the description of the component
            keeps that part of the docstring.
    """

    allowed: ClassVar = FunctionOptions.__annotations__
    describes_arguments = True

    def __init__(self, function: Callable[..., Any], key: str, **options: Unpack[FunctionOptions]) -> None:
        super().__init__(key, options)
        self.function = function
        self.is_resolved = False
        self._signature: Signature | None = None
        self._arguments: Arguments | None = None
        self._injected: tuple[tuple[str, type[CallContext]], ...] = ()
        self._injection: Injection | None = None
        self._is_async = False
        self._place = _place_of(f"{self.kind} {key!r}", function, options) if options else None

    # Definition

    @property
    def description(self) -> str | None:
        """Description for models and users: `description=`, else the docstring's summary and body."""
        return self._description if self._description is not None else self.signature.description

    @property
    def signature(self) -> Signature:
        """Signature of the function, read on first use.

        Raises:
            RegistrationError: The signature cannot be served. The message contains the remedy.
        """
        if self._signature is None:
            self._signature = Signature.of(
                self.function, is_injected=is_hidden, describes_arguments=self.describes_arguments
            )
        return self._signature

    @property
    def arguments(self) -> Arguments:
        """Input schema and validator."""
        if self._arguments is None:
            self.resolve()
        assert self._arguments is not None
        return self._arguments

    def resolve(self) -> None:
        """Read the type hints of the function and build what depends on them, on the first call.

        Raises:
            RegistrationError: The signature cannot be served, or a forward reference cannot be resolved yet
                (`schema.UnresolvedHint`); a later call tries again.
        """
        what = f"{self.kind} {self.key!r}"
        if self.is_resolved:
            if self._place == "process":  # by now the module that it is in has been executed
                import pickle

                try:
                    pickle.dumps(self.function)
                except (pickle.PicklingError, AttributeError, TypeError) as error:
                    raise RegistrationError(
                        f"{what}: a worker process (run_in='process') cannot import the function by its name: {error}"
                    ) from error
            return
        self.build()
        signature = self.signature
        for parameter in signature.parameters:
            if hint := parameter.context_hint:
                logger.warning(
                    "%s %r: the parameter %r has no type annotation, so clients see it as an argument. %s",
                    *(self.kind, self.key, parameter.name, hint),
                )
        hints = [(each.name, each.annotation, each.default) for each in signature.injected]
        if any(hidden(annotation, default) for _, annotation, default in hints):
            from .dependency_runner import Injection  # which few servers need

            self._injection = Injection(what, hints)
        else:
            kinds = ((name, context_type(annotation)) for name, annotation, _ in hints)
            self._injected = tuple((name, kind) for name, kind in kinds if kind is not None)
        if self._place is None and inspect.isasyncgenfunction(innermost(self.function)):
            self._place = "loop"
        self._is_async = signature.is_async and self._place is None
        if self._place == "process" and signature.injected:
            raise RegistrationError(
                f'{what}: a function with run_in="process" gets no Context and no dependencies. '
                f"Remove the parameter {signature.injected[0].name!r}, or run_in="
            )
        self.is_resolved = True

    @abstractmethod
    def build(self) -> None:
        """Build arguments, schemas and completions from the signature."""

    def _output_of_returns(self) -> Output | None:
        try:
            return Output.of(self.signature.returns)
        except RegistrationError as error:
            raise type(error)(f"{self.signature.name}: result: {error}") from error

    @property
    def origin(self) -> str:
        """Module, name, file and line of the function, for error messages."""
        function = inspect.unwrap(getattr(self.function, "func", self.function))
        function = getattr(function, "__func__", function)
        name = getattr(function, "__qualname__", type(function).__qualname__)
        code = getattr(function, "__code__", None)
        place = f"{code.co_filename}:{code.co_firstlineno}" if code else "defined elsewhere"
        return f"{getattr(function, '__module__', '?')}.{name} ({place})"

    # Hidden parameters

    @property
    def injections(self) -> tuple[Injection, ...]:
        """Dependency plans of the component's functions."""
        self.resolve()
        return () if self._injection is None else (self._injection,)

    @property
    def takes_context(self) -> bool:
        """True if the function or one of its dependencies has a parameter for the Context."""
        return any(injection.plan.takes_context for injection in self.injections) or bool(self._injected)

    @property
    def headers(self) -> frozenset[str]:
        """Lower-case names of the HTTP headers that `FromHeader` parameters read; empty before `resolve`."""
        return frozenset() if self._injection is None else frozenset(self._injection.plan.headers)

    @property
    def questions(self) -> list[Callable[[Call], Awaitable[Any]]]:
        """Functions that request input from the user before the function runs, one for each `Ask` parameter."""
        self.resolve()
        return [] if self._injection is None else self._injection.plan.questions

    # Calls

    def run(
        self, kwargs: dict[str, Any], call: Call, make: Make, seconds: float | None = None
    ) -> Coroutine[Any, Any, Any]:
        """Call the function within its limits: in the event loop if `async`, else in a worker thread or process.

        Args:
            kwargs: Validated arguments; the Context is added.
            call: The request.
            make: Converts the returned value to the result. It runs where the function ran, or in a thread when it
                reads files or renders images.
            seconds: Timeout in seconds, in place of the component's; None for that of the component.

        Returns:
            What `make` returned.

        Raises:
            CallTimeoutError: The call took longer than its timeout.
            BaseException: Raised by the function or by `make`; of a group of errors for the client, the first.
        """
        run, limits = self._run(kwargs, call, make), self._limits
        if seconds is not None:
            return run_limited(run, call, CallLimits(seconds, None if limits is None else limits.slots))
        is_limited = limits is not None or call.runtime.timeouts.call is not None
        return run_limited(run, call, limits) if is_limited else run

    async def _run(self, kwargs: dict[str, Any], call: Call, make: Make) -> Any:
        if call.dialogue is not None:
            call.dialogue.begin()
        try:
            for name, kind in self._injected:
                kwargs[name] = kind(call)
            if self._injection is not None:
                is_in_loop = self._is_async or self._place is not None
                result = await self._injection.call(self.function, kwargs, call, make, is_in_loop=is_in_loop)
            elif self._is_async:
                value = await self.function(**kwargs)
                try:
                    is_plain = call.dialogue is None and type(value) in COMPLETE_TYPES  # as most are
                    result = make(value) if is_plain else make_result(value, make, call)
                except LeaveLoop:
                    result = await finish(value, make, call)
            elif self._place == "process":
                result = await call.runtime.processes.run(self.function, kwargs, make)
            elif self._place == "loop":
                result = await finish_call(self.function(**kwargs), make, call)
            else:
                work = {"function": self.function, "kwargs": kwargs, "make": make, "call": call}
                result = await call.runtime.threads.run(_call_and_make, work, call)
                if type(result) is _Unfinished:
                    result = await finish_call(result.value, make, call)
        except BaseException as error:
            if error_for_client(error) is not error:  # not kept in a variable: its traceback has this frame
                raise error_for_client(error) from None
            raise
        if call.dialogue is not None:
            call.dialogue.check_settled()
        return result

    # Worker processes, which import the component by the name of its function

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes that a worker process needs; it reads the function's signature again."""
        return {name: None if name in _NOT_PICKLED else value for name, value in vars(self).items()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the attributes in a worker process and read the signature again."""
        vars(self).update(state, is_resolved=False)
        self.resolve()


def function_name(function: Callable[..., Any]) -> str:
    """Return the name of a function, method, partial or callable object.

    Raises:
        RegistrationError: It has no name, or is a lambda.
    """
    inner: Any = function
    while hasattr(inner, "func"):
        inner = inner.func
    name = getattr(inner, "__name__", None) or type(inner).__name__
    if name == "<lambda>":
        raise RegistrationError("a lambda has no name. Pass name=")
    return str(name)


# Place of a function, other than the event loop for `async def` and a thread for other functions.
Place = Literal["loop", "process"]


def _place_of(what: str, function: Callable[..., Any], options: FunctionOptions) -> Place | None:
    """Read the option `run_in`; None for the default: the event loop for `async def`, a worker thread for others.

    Raises:
        RegistrationError: The function cannot run there; the message contains the correction.
    """
    place = options.get("run_in")
    if place not in {None, "thread", "process", "loop"}:
        raise RegistrationError(f'{what}: run_in must be "thread", "process" or "loop", got {place!r}')
    inner = innermost(function)
    if place == "thread" and (inspect.iscoroutinefunction(inner) or inspect.isasyncgenfunction(inner)):
        raise RegistrationError(
            f'{what}: an async function runs in the event loop. Remove run_in="thread", or write `def` instead'
        )
    if place == "process":
        check_importable(what, function)
    return None if place == "thread" else place


def check_importable(what: str, function: Any) -> None:
    """Check that a function has a name by which another process can import it.

    Raises:
        RegistrationError: It has none; the message has the reason.
    """
    function = innermost(function)
    name = getattr(function, "__qualname__", "")
    module = sys.modules.get(getattr(function, "__module__", None) or "")
    reason = ""
    if "<lambda>" in name:
        reason = "a lambda has no name"
    elif "<locals>" in name:
        reason = f"{name} is defined inside another function"
    elif module is None:
        reason = "it has no module"
    elif module.__name__ == "__main__" and not module.__spec__:
        reason = "its module has no file" if getattr(module, "__file__", "<")[:1] == "<" else ""
    if reason:
        raise RegistrationError(
            f"{what}: a worker process (run_in='process') imports the function by its name, but {reason}. "
            "Define it at the top level of a module"
        )


class _Unfinished:
    """Return value of a function in a thread that the event loop must await or iterate first.

    Attributes:
        value: The return value.
    """

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


def _call_and_make(function: Callable[..., Any], kwargs: dict[str, Any], make: Make, call: Call) -> Any:
    """Call a function in this thread, and make its result; `_Unfinished` if the event loop must await or iterate it."""
    try:
        value = function(**kwargs)
        if call.dialogue is None and type(value) in COMPLETE_TYPES:  # as most are
            return make(value)
        if not is_complete(type(value)) and (inspect.isawaitable(value) or is_async_iterable(value)):
            return _Unfinished(value)
        return make_result(value, make, call)
    finally:
        if call.stops is not None:
            call.close_stops()
