"""The server: what it is made of, how a request finds its method, and how long it lives."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from .calls.lifespan import Lifespans
from .calls.limits import check_timeout
from .calls.runtime import Runtime
from .calls.workers.processes import Processes
from .calls.workers.threads import Threads
from .common.errors import RegistrationError
from .common.numbers import check_count, check_seconds
from .common.to_the_end import to_the_end
from .components.catalog import ServerCatalog
from .components.checks import check_icons, check_text
from .components.component import optional
from .engine.engine import Engine, family
from .engine.error_hooks import ErrorHooks
from .engine.identity import CAPABILITIES, Declared
from .engine.registry import Registry
from .middleware import Middlewares
from .protocol.eras import Cache
from .protocol.revisions import CACHEABLE
from .protocol.types import Icon
from .state.memory import Memory
from .state.principal import Principal, checked_principal
from .state.scopes import Scope, Scopes, scope_names
from .transports.serving import Serving

if TYPE_CHECKING:
    from .auth.verifier import TokenVerifier
    from .components.component import Component
    from .components.included import Included
    from .engine.task_keeper import TaskKeeper
    from .state.audit import Audit
    from .state.keys import Keys
    from .state.revocations import Revocations
    from .state.shared import Shared
    from .state.store import Store
    from .tasks.options import Tasks
    from .transports.http.options import OwnRoute

F = TypeVar("F", bound=Callable[..., Any])

LifespanFunction = Callable[["Server"], AbstractAsyncContextManager[Any]]

_DEFAULT_CACHE = {method: Cache() for method in CACHEABLE} | {"resources/read": Cache(0, "private")}


class Server(Serving, Registry, ServerCatalog):
    """An MCP server: a registry of what it offers, and how requests are answered.

    Args:
        name: What it calls itself.
        version: Its version.
        title: A name for people.
        description: What it is.
        instructions: How a model should use it.
        icons: Pictures that a host may show.
        website_url: Where people find more.
        lifespan: An async context manager function of the server, entered once for each event
            loop; handlers and middleware find what it yields in `ctx.state`.
        lifespan_wait: Seconds, from the beginning, for which requests wait for the lifespan, as it may register
            components. Then clients are told of what there is, and of the rest when it comes; what needs the
            state waits on. None waits for as long as it takes.
        offers: Capabilities to declare before anything is registered for them: `tools`,
            `resources`, `prompts`, `completions`, `logging`. What is registered is declared anyway.
        page_size: Entries in one page of a list; None puts all in one.
        cache: How long and by whom results may be kept, by method, for example
            `{"tools/list": Cache(ttl=300)}`. Lists are public, what is read is private, and both
            are stale at once by default.
        timeout: The seconds that a call of a tool, resource or prompt may take, where it has no
            `timeout=` of its own; None for any number.
        threads: The greatest number of worker threads for functions that are not `async`.
        stuck_threads: How many threads may still run functions whose calls were cancelled or out of
            time; while there are more, calls that need a thread are refused.
        processes: The greatest number of worker processes, for what has `process=True`; None for one
            for each processor.
        max_running: The greatest number of requests that run at a time; more are refused. Over HTTP one client has
            at most as many of them as are free for others, so at most half: a principal, or who is at one address.
        question_timeout: Seconds for which a client may leave a question open.
        secret: What signs session ids: at least 16 characters or bytes; of several, the first signs and
            all are accepted. None takes the environment variable `MCPKIT_SECRET`, or else a
            secret that lasts as long as the process and the workers that it starts.
        encrypt_state: Whether the `requestState` that stateless clients carry is encrypted, rather than
            signed only; takes the extra `crypto`.
        shared: What the processes that serve the same share: sessions, states, changes, and what handlers and
            extensions keep. None keeps all of it in this process; what outlives it needs a secret.
        mask_errors: Whether clients read no more of an unexpected exception than a reference to the log;
            False sends its type and text too, never a traceback: for development.
        auth: What verifies access tokens over HTTP, such as `Jwt("https://id.example.com")` of `mcpkit.auth`; of
            several, the token's issuer chooses. None serves everybody.
        scopes: What may be granted, by name: `{"notes:read": Scope("Read notes", default=True)}`.
        tasks: Who runs the calls of tools that are tasks: `workers`, processes of their own; or, when None, this one
            and whatever others serve. `Tasks(...)` says more.

    Attributes:
        store: Where handlers and extensions keep what processes share.
        routes: The routes of the author's own.
        scopes: What may be granted.
        middleware: Wraps requests: `@server.middleware`.
        on_error: Hears of requests that fail though nobody meant them to: `@server.on_error`.

    Raises:
        TypeError: One of the arguments is of another type; the message names it.
        ValueError: One of them is out of range, or `shared` outlives the process and there is no secret that does,
            or tasks are left to workers without anything that they share.
        RegistrationError: An icon has not the specification's form.
        ImportError: `encrypt_state` needs a package that is not installed.
    """

    def __init__(
        self,
        name: str,
        *,
        version: str = "0.0.0",
        title: str | None = None,
        description: str | None = None,
        instructions: str | None = None,
        icons: Sequence[Icon] | None = None,
        website_url: str | None = None,
        lifespan: LifespanFunction | None = None,
        lifespan_wait: float | None = 5.0,
        offers: Collection[str] = (),
        page_size: int | None = None,
        cache: Mapping[str, Cache] | None = None,
        timeout: float | None = None,
        threads: int = 40,
        stuck_threads: int = 40,
        processes: int | None = None,
        max_running: int = 1024,
        question_timeout: float = 600.0,
        secret: str | bytes | Sequence[str | bytes] | None = None,
        encrypt_state: bool = False,
        shared: Shared | None = None,
        mask_errors: bool = True,
        auth: TokenVerifier | Sequence[TokenVerifier] | None = None,
        scopes: Mapping[str, Scope | str] | None = None,
        tasks: Literal["workers", "replicas"] | Tasks | None = None,
    ) -> None:
        if isinstance(offers, str):
            raise TypeError(f"offers must be a set such as {{{offers!r}}}, got {offers!r}")
        _check("offers", set(offers) - CAPABILITIES.keys(), CAPABILITIES)
        _check("cache", set(cache or ()) - CACHEABLE, sorted(CACHEABLE))
        for argument, value in {
            "name": name,
            "version": version,
            "title": title,
            "description": description,
            "instructions": instructions,
            "website_url": website_url,
        }.items():
            _check_text(argument, value, is_required=argument in ("name", "version"))
        check_icons("Server", icons)
        if lifespan is not None and not callable(lifespan):  # pyright: ignore[reportUnnecessaryComparison]  # untyped authors
            raise ValueError(
                "lifespan must be a function of the server that returns an async context manager, "
                f"such as one under @asynccontextmanager; got {lifespan!r}"
            )
        check_seconds("lifespan_wait", lifespan_wait, may_be_zero=True, may_be_none=True)
        check_count("page_size", page_size, none="one page")
        check_count("max_running", max_running)
        check_seconds("question_timeout", question_timeout)
        check_timeout(timeout)
        if shared is not None:
            from .state.shared import check_shared

            check_shared(shared, secret)
        if encrypt_state:
            from .state.keys import aes_gcm

            aes_gcm()
        if tasks is not None:
            from .tasks.options import options_of

            tasks = options_of(tasks)
            if tasks.by == "workers" and shared is None:
                raise ValueError(
                    'tasks="workers" has processes of their own run tasks, which see none of what is kept in this one: '
                    'say where they are, as in shared=Sqlite("tasks.db"), or leave tasks= out'
                )
        self._tasks = tasks
        lifespans = Lifespans(None if lifespan is None else partial(lifespan, self))
        self.scopes = Scopes(scopes)
        super().__init__(lifespans, self._check_scopes)
        self.name = name
        self.version = version
        kept: Shared = Memory() if shared is None else shared  # alike for all of its apps and pipes
        self.store: Store = kept
        self.routes: list[OwnRoute] = []
        self.on_error = ErrorHooks()
        implementation = optional(
            name=name,
            title=title,
            version=version,
            description=description,
            icons=list(icons) if icons else None,
            websiteUrl=website_url,
        )
        verifier = _verifier_of(auth)
        declared = Declared(self, implementation, offers, instructions)
        runtime = Runtime(
            self,
            name,
            threads=Threads(threads, stuck_threads),
            processes=Processes(processes),
            timeout=timeout,
            max_running=max_running,
            question_timeout=question_timeout,
            shared=kept,
            is_alone=shared is None,
            scopes=self.scopes,
            auth=verifier,
            make_keys=partial(_keys, secret, name),
            encrypt_state=encrypt_state,
            mask_errors=mask_errors,
            cache={**_DEFAULT_CACHE, **(cache or {})},
            identity=declared.identity,
            declares=declared.has,
            state_in=lifespans.state_in,
            explain=self.on_error.explain,
        )
        if secret is not None:
            _ = runtime.keys  # which complains where it is given
        self.engine = Engine(
            self,
            runtime,
            declared,
            lifespans,
            lifespan_wait=lifespan_wait,
            version=version,
            page_size=page_size,
            auth=verifier,
            make_tasks=self._make_tasks,
        )
        self.is_protected = self.engine.auth is not None
        self.middleware = Middlewares(self.methods, self._lead)
        self.extension_listeners.add(self._lead)

    def _lead(self) -> None:
        """Let requests pass through the middleware that there is now: the server's, and inside it its extensions'."""
        inner = chain.from_iterable(each.middleware.hooks for each in self.attached)
        hooks = (*self.middleware.hooks, *inner)
        if self.engine.auth is not None:
            from .state.meter import Meter

            self.on_audit.measure_by([hook for _, hook in hooks if isinstance(hook, Meter)])
        if not hooks:
            self.engine.lead_to(self.engine.methods.dispatch)
            return
        from .engine.chain import through
        from .state.task_meter import TaskMeter

        self.engine.runtime.task_meters = tuple(hook for _, hook in hooks if isinstance(hook, TaskMeter))

        self.engine.lead_to(through(hooks, self.engine.methods.dispatch))

    def _make_tasks(self) -> TaskKeeper:
        from .tasks.handshake import TasksOfBoth
        from .tasks.options import options_of

        engine = self.engine
        return TasksOfBoth(self, engine.runtime, engine, engine.hubs, options_of(self._tasks))

    # Tests

    @contextmanager
    def override(
        self, function: Callable[..., object], replacement: Callable[..., object]
    ) -> Generator[None]:
        """Put another function in the place of one that what is served here depends on: for a test, by `with`.

        Args:
            function: What stands in `Depends(...)`.
            replacement: What is called instead: of any kind; it may depend on others, `function` among them.

        Raises:
            RegistrationError: Nothing depends on the function, or the replacement cannot be filled.
        """
        from .components.injection.plan import overridden

        runtime = self.engine.runtime
        before = runtime.overrides
        injections = [each for part in self.parts for component in part for each in component.injections]
        runtime.overrides = overridden(before, injections, function, replacement)
        try:
            yield
        finally:
            runtime.overrides = before

    # Life

    def route(
        self,
        path: str,
        *,
        methods: Collection[str] | None = None,
        name: str | None = None,
        outside_mount: bool = False,
        scopes: str | Collection[str] | None = None,
    ) -> Callable[[F], F]:
        """Serve a path of the HTTP app with a function of one's own: `@server.route("/hello")`.

        Args:
            path: A path as Starlette has it, such as `/files/{name}`.
            methods: HTTP methods; GET when None.
            name: A name for `request.url_for`; the function's when None.
            outside_mount: Whether the path begins at the root of the site, wherever the app is mounted, as those below
                `/.well-known` must: `app.around(site)` serves it there.
            scopes: What whoever asks must have been granted, by the same access tokens as the MCP endpoint takes; an
                empty list for any good token, None for nobody's. The function finds them in
                `request.state.principal`.

        Returns:
            A decorator that returns the function unchanged. It takes a Starlette `Request` and returns a `Response`.

        Raises:
            RegistrationError: The path does not begin with a slash, or `methods` is no list; or the server has no such
                scope, or verifies no access tokens.
        """
        if isinstance(methods, str):
            raise RegistrationError(f"methods is a list such as [{methods!r}], got {methods!r}")
        if not path.startswith("/"):
            raise RegistrationError(f"a route begins with a slash, such as '/health', got {path!r}")

        needed = None if scopes is None else scope_names(f"route {path!r}: scopes=", scopes)
        if needed is not None:
            self.scopes.check(f"route {path!r} needs", needed)
            if self.engine.auth is None:
                raise RegistrationError(f"route {path!r}: scopes= takes a server that has auth=")

        def register(function: F) -> F:
            from .transports.http.options import OwnRoute

            self.routes.append(OwnRoute(path, function, methods, name, outside_mount, needed))
            return function

        return register

    def running(self) -> AbstractAsyncContextManager[None]:
        """Keep the lifespans entered while a transport serves, in a block: `async with server.running():`.

        It nests, and does not wait for them: what needs none is answered meanwhile. `await ready()` waits.

        Raises:
            RegistrationError: Type hints of a component cannot be resolved.
            BaseException: Whatever leaving a lifespan raised.
        """
        return self.engine.running()

    async def ready(self) -> None:
        """Wait until the lifespans of this server and of those it includes have been entered.

        Raises:
            BaseException: Whatever entering one of them raised.
        """
        await self.engine.ready()

    async def revoke(self, principal: Principal | str, *, keep: float | None = None) -> None:
        """Send somebody away, by whichever clients they have come: in all processes that share `shared`, within 1 s.

        The access tokens that they have got until now are refused from then on (401). What they have here ends: their
        sessions, the streams on which they listen, the calls that run for them, and their tasks. A token that is issued
        later is let in, so that they may log in again; and so may their clients, by themselves, unless the
        authorization server has revoked what it has granted them as well, as an `OAuthProxy` does, here and at the
        provider.

        Args:
            principal: Who, or the id of who it is; scopes and client do not matter.
            keep: Seconds for which it holds, by default 30 days: longer than access tokens live. A token that does not
                say when it was issued is refused as long.

        Raises:
            TypeError: It is neither a Principal nor text.
            ValueError: There is no id, or `keep` is not above 0.
            RuntimeError: The server has no `auth=`.
            OSError: The shared store does not answer: try again, as others may not have heard of it.
        """
        revocations = self.engine.revocations
        if revocations is None:
            raise RuntimeError("revoke takes a server that verifies access tokens: Server(auth=...)")
        who = checked_principal(Principal(principal) if isinstance(principal, str) else principal)
        if who.id is None:
            raise ValueError("a Principal without an id is nobody, who cannot be sent away")
        check_seconds("keep", keep, may_be_none=True)
        # The calls that end may be that of whoever asks for this.
        await to_the_end(self._send_away(revocations, who, keep))

    async def _send_away(self, revocations: Revocations, who: Principal, keep: float | None) -> None:
        await revocations.revoke(str(who.id), keep)
        self.on_audit.tell("revocation", who)
        if (auth := self.engine.auth) is not None:
            from .calls.foreign import ground_of

            await auth.revoke(who, ground_of(self.engine.runtime))

    @property
    def on_audit(self) -> Audit:
        """Hears of logins, refusals, revocations and the like: `@server.on_audit`."""
        return self.engine.runtime.audit

    def _check_scopes(self, component: Component) -> None:
        if needed := (*component.scopes, *component.may_need):
            self.scopes.check(f"{component.kind} {component.key!r} needs", needed)

    def _follow(self, source: Registry, prefix: str) -> Included:
        included = super()._follow(source, prefix)
        self.engine.lifespans.begin(family(source))
        return included


def _keys(secret: str | bytes | Sequence[str | bytes] | None, name: str) -> Keys:
    from .state.keys import Keys

    return Keys(secret, name)


def _verifier_of(auth: TokenVerifier | Sequence[TokenVerifier] | None) -> TokenVerifier | None:
    """Return what verifies tokens as one, imported where there is any."""
    if auth is None:
        return None
    from .auth.given import verifier_of

    return verifier_of(auth)


def _check_text(argument: str, value: object, *, is_required: bool) -> None:
    if is_required and (not isinstance(value, str) or not value):
        raise ValueError(f"{argument} must be a string that is not empty, got {value!r}")
    check_text(f"Server: {argument}", value)


def _check(argument: str, unknown: Collection[str], known: Collection[str]) -> None:
    if unknown:
        raise ValueError(f"{argument}: unknown {min(unknown)!r}; there are {', '.join(known)}")
