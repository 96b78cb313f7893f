"""What tools, resources, templates, prompts and methods have in common: an author's function under a name."""

from __future__ import annotations

import inspect
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from typing_extensions import Self, TypedDict, Unpack

from ..calls.call import Call, CallContext
from ..calls.failures import spoken
from ..calls.limits import Limits, run_limited
from ..calls.making import Make, Unfinished, call_and_make, finish, finish_call, make_result
from ..calls.workers.placement import Place, check_pickles, is_async_generator_function, place_of, run_in
from ..content.lazy import LeaveLoop
from ..errors import RegistrationError
from ..protocol.revisions import narrow
from ..protocol.types import Icon
from ..schema import Signature
from ..state.principal import Principal
from ..state.visibility import check_visible, says
from .checks import capabilities, check_icons, check_meta, check_text
from .injection.markers import context_type, hidden, is_hidden

if TYPE_CHECKING:
    from ..calls.lifespan import Lifespans
    from .injection.plan import Injection

logger = logging.getLogger("mcpkit")


_LEFT_HERE: Final = frozenset(
    {"_signature", "_injection", "_arguments", "_output", "_limits", "_place", "visible", "home", "watch"}
)
"""Attributes that do not go along to a worker process."""


class ComponentOptions(TypedDict, total=False):
    """What every component may be given beside its function and name; `Decorators.tool` says what each means."""

    title: str | None
    description: str | None
    icons: Sequence[Icon] | None
    meta: Mapping[str, Any] | None
    tags: Collection[str]
    requires: str | Sequence[str]
    visible: Callable[[Principal], bool] | None
    timeout: float | None
    concurrency: int | None
    thread: bool
    process: bool
    single_use: bool
    replace: bool


class Component(ABC):
    """One thing that a server offers, made from one function.

    Args:
        function: The author's function.
        key: Its name or URI.
        options: See `ComponentOptions`.

    Attributes:
        key: What it is listed, called and removed by: a name, or a URI (template) for resources.
        function: The author's function, unchanged.
        title: A name for people, or None.
        tags: Free words of the author's, for selecting components; never sent.
        requires: Capabilities that a client must have declared to use it.
        visible: Says who may see and use it; None for everybody.
        is_single_use: Whether each `requestState` is taken once.
        replaces: Whether it takes the place of what has the same name or URI.
        is_enabled: Whether clients see it.
        is_resolved: Whether its type hints have been read.
        position: Its place in the order of registration; 0 before.
        home: The stays in the lifespan whose state it finds: of the innermost server that it has come through; None
            for those of the one that serves it.
    """

    kind: ClassVar[str]
    """What an error message calls it: `tool`, `resource`, `resource template`, `prompt` or `method`."""

    def __init__(self, function: Callable[..., Any], key: str, **options: Unpack[ComponentOptions]) -> None:
        if options:
            self._check_options(f"{self.kind} {key!r}", options)
        icons, meta = options.get("icons"), options.get("meta")
        self.function = function
        self.key = key
        self.title = options.get("title")
        self._description = options.get("description")
        self.icons = list(icons) if icons else None
        self.meta = dict(meta) if meta else None
        self.tags = frozenset(options.get("tags", ()))
        self.requires = capabilities(f"{self.kind} {key!r}", options.get("requires", ()))
        self.visible = options.get("visible")
        self.is_single_use = options.get("single_use", False)
        self.replaces = options.get("replace", False)
        self.is_enabled = True
        self.is_resolved = False
        self.position = 0
        self.home: Lifespans | None = None
        self._signature: Signature | None = None
        self._injected: tuple[tuple[str, type[CallContext]], ...] = ()
        self._injection: Injection | None = None
        self._is_async = False
        self._limits: Limits | None = Limits.of(f"{self.kind} {key!r}", options) if options else None
        self._place: Place | None = place_of(f"{self.kind} {key!r}", function, options) if options else None

    def _check_options(self, what: str, options: ComponentOptions) -> None:
        common = ComponentOptions.__annotations__
        if unknown := sorted(options.keys() - common.keys()):
            own = [
                p.name for p in inspect.signature(type(self)).parameters.values() if p.kind is p.KEYWORD_ONLY
            ]
            raise RegistrationError(
                f"{what}: there is no option {unknown[0]}=; there are {', '.join([*own, *common])}"
            )
        check_text(f"{what}: title", options.get("title"))
        check_text(f"{what}: description", options.get("description"))
        check_icons(what, options.get("icons"))
        check_meta(what, options.get("meta"))
        check_visible(what, options.get("visible"))
        for name in ("single_use", "replace"):
            if type(options.get(name, False)) is not bool:
                raise RegistrationError(f"{what}: {name} is True or False, got {options.get(name)!r}")
        if isinstance(tags := options.get("tags"), str):
            raise RegistrationError(
                f"{what}: tags is a set of words, not one string; write tags={{{tags!r}}}"
            )

    @property
    def description(self) -> str | None:
        """What it is for: `description=`, else the docstring's summary and body."""
        return self._description if self._description is not None else self.signature.description

    def is_visible(self, principal: Principal) -> bool:
        """Say whether a principal may see and use it; where its function cannot say so, it may not."""
        return self.visible is None or says(self.visible, principal, "visible= of %r %s: it is hidden", self)

    @property
    def takes_context(self) -> bool:
        """Whether the function, or what it depends on, asks for a Context."""
        return any(injection.takes_context for injection in self.injections) or bool(self._injected)

    @property
    def injections(self) -> tuple[Injection, ...]:
        """The functions of the component that depend on others."""
        self.resolve()
        return () if self._injection is None else (self._injection,)

    @property
    def signature(self) -> Signature:
        """The function's signature, read on first use.

        Raises:
            RegistrationError: The signature cannot be served; the message says what to change.
        """
        if self._signature is None:
            self._signature = Signature.of(self.function, is_injected=is_hidden)
        return self._signature

    def resolve(self) -> None:
        """Read all that depends on the function's type hints, once.

        Raises:
            RegistrationError: Something in the signature cannot be served, or a forward reference
                cannot be resolved (`schema.UnresolvedHint`), which a later call may mend.
        """
        if not self.is_resolved:
            self.build()
            signature = self.signature
            self._warn_of_untyped_context()
            hints = [(each.name, each.annotation, each.default) for each in signature.injected]
            if any(hidden(annotation, default) for _, annotation, default in hints):
                from .injection.plan import Injection  # which few servers need

                self._injection = Injection(f"{self.kind} {self.key!r}", hints)
            else:
                kinds = ((name, context_type(annotation)) for name, annotation, _ in hints)
                self._injected = tuple((name, kind) for name, kind in kinds if kind is not None)
            if self._place is None and is_async_generator_function(self.function):
                self._place = "loop"
            self._is_async = signature.is_async and self._place is None
            if self._place == "process" and signature.injected:
                raise RegistrationError(
                    f"{self.kind} {self.key!r}: it runs in another process (process=True), where there is nothing "
                    f"to pass as {signature.injected[0].name!r}: remove this parameter, or process=True"
                )
            self.is_resolved = True
        elif self._place == "process":  # by now the module that it is in has been executed
            check_pickles(f"{self.kind} {self.key!r}", self.function)

    def _warn_of_untyped_context(self) -> None:
        for parameter in self.signature.parameters:
            if hint := parameter.context_hint:
                logger.warning(
                    "%s %r: the parameter %r has no type, so it is an argument that the client fills in; %s",
                    *(self.kind, self.key, parameter.name, hint),
                )

    @abstractmethod
    def build(self) -> None:
        """Build what the kind of component needs from the signature."""

    def run(self, kwargs: dict[str, Any], call: Call, make: Make) -> Coroutine[Any, Any, Any]:
        """Call the function within its limits: a coroutine function here, any other in a worker thread or process.

        Args:
            kwargs: The validated arguments; the Context is added.
            call: The request.
            make: Makes the result of what the function returns. It is called where the function ran, or in a
                thread where it has to read or to draw something.

        Returns:
            The result.

        Raises:
            CallTimeoutError: Its time is over.
            BaseException: Whatever the function or `make` raises; of a group of errors for the client, the first.
        """
        run = self._run(kwargs, call, make)
        is_limited = self._limits is not None or call.runtime.timeout is not None
        return run_limited(run, call, self._limits) if is_limited else run

    async def _run(self, kwargs: dict[str, Any], call: Call, make: Make) -> Any:
        if call.rounds is not None:
            call.rounds.begin()
        try:
            for name, kind in self._injected:
                kwargs[name] = kind(call)
            if self._injection is not None:
                is_in_loop = self._is_async or self._place is not None
                result = await self._injection.call(self.function, kwargs, call, make, is_in_loop=is_in_loop)
            elif self._is_async:
                value = await self.function(**kwargs)
                try:
                    result = make_result(value, make, call)
                except LeaveLoop:
                    result = await finish(value, make, call)
            elif self._place is not None:
                result = await run_in(self._place, self.function, kwargs, call, make)
            else:
                work = {"function": self.function, "kwargs": kwargs, "make": make, "call": call}
                result = await call.runtime.threads.run(call_and_make, work, call)
                if type(result) is Unfinished:
                    result = await finish_call(result.value, make, call)
        except BaseException as error:
            if spoken(error) is not error:  # not kept in a variable: its traceback has this frame
                raise spoken(error) from None
            raise
        if call.rounds is not None:
            call.rounds.check_settled()
        return result

    def __getstate__(self) -> dict[str, Any]:
        """Return what makes results in a worker process; what follows from the function is read there once more."""
        return {name: None if name in _LEFT_HERE else value for name, value in vars(self).items()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Read all that depends on the function's type hints, as results depend on them."""
        vars(self).update(state, is_resolved=False)
        self.resolve()

    def renamed(self, key: str) -> Self:
        """Return a copy that goes by another name or URI."""
        twin = object.__new__(type(self))
        vars(twin).update(vars(self), key=key)
        return twin

    @property
    def origin(self) -> str:
        """Where the function is defined, for messages to the author."""
        function = inspect.unwrap(getattr(self.function, "func", self.function))
        function = getattr(function, "__func__", function)
        name = getattr(function, "__qualname__", type(function).__qualname__)
        code = getattr(function, "__code__", None)
        place = f"{code.co_filename}:{code.co_firstlineno}" if code else "defined elsewhere"
        return f"{getattr(function, '__module__', '?')}.{name} ({place})"

    def __repr__(self) -> str:
        """Show kind and key."""
        return f"<{self.kind} {self.key!r}>"


class Listed(Component):
    """A component that clients find in a list."""

    wire: ClassVar[str]
    """The specification's name of its listed form."""

    def listed(self, revision: str) -> dict[str, Any]:
        """Return the component as a list of `revision` shows it."""
        self.resolve()
        return narrow(self.wire, self.describe(revision), revision)

    @abstractmethod
    def describe(self, revision: str) -> dict[str, Any]:
        """Return the listed form; fields that `revision` does not know may be left in."""


def function_name(function: Callable[..., Any]) -> str:
    """Return the name that a function, method, partial or callable object goes by.

    Raises:
        RegistrationError: It has none, or is a lambda.
    """
    inner: Any = function
    while hasattr(inner, "func"):
        inner = inner.func
    name = getattr(inner, "__name__", None) or type(inner).__name__
    if name == "<lambda>":
        raise RegistrationError("a lambda has no name; give it one with name=")
    return str(name)


def optional(**members: Any) -> dict[str, Any]:
    """Return the members that are not None."""
    return {name: value for name, value in members.items() if value is not None}
