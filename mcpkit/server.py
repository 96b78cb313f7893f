"""The `Server` class: its options, components, middleware and lifecycle."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from ._utils.concurrency import run_shielded
from ._utils.exceptions import RegistrationError
from ._utils.option_checks import check_seconds, refuses_unknown
from .components.component import check_icons, check_text, optional
from .components.registry_and_decorators import ServerBase
from .engine.engine import CustomRoute, Engine
from .engine.error_hooks import ErrorHooks
from .engine.included_providers_and_extensions import Registry
from .engine.request_handlers_and_capabilities import Capabilities
from .execution.lifespan import Lifespans
from .execution.worker_processes import Processes
from .execution.worker_threads import Threads
from .identity.principals_and_scopes import Principal, Scope, Scopes, checked_principal, scope_names
from .middleware.base import MiddlewareStack
from .options import Limits, ServerOptions, TaskOptions, Timeouts, check_group, task_options
from .protocol.objects import Icon
from .protocol.revisions import CACHEABLE, CacheHint
from .requests.request_record import Runtime
from .storage.base import TaskMeter
from .storage.memory import Memory
from .transports.serving import Serving

if TYPE_CHECKING:
    from .auth.verifier import TokenVerifier
    from .components.component import Component
    from .engine.request_handlers_and_capabilities import Handler, TaskKeeper
    from .identity.audit_and_revocation import AuditLog
    from .storage.base import Storage
    from .storage.encryption_keys import Keys

F = TypeVar("F", bound=Callable[..., Any])

LifespanFunction = Callable[["Server"], AbstractAsyncContextManager[Any]]

_DEFAULT_CACHE = {method: CacheHint() for method in CACHEABLE} | {"resources/read": CacheHint(0, "private")}

_GROUPS = {"limits": Limits, "timeouts": Timeouts, "options": ServerOptions}


class Server(Serving, Registry, ServerBase):
    """An MCP server: its components, and how requests are served.

        server = Server("weather", version="1.2.0", instructions="Forecasts for any place.")

        @server.tool
        def get_forecast(city: str) -> str:
            ...

        server.run()

    Args:
        name: Name that clients get (`serverInfo`).
        version: Version that clients get.
        title: Display name.
        description: Description that clients get: one or two sentences on the purpose of the server.
        instructions: Instructions for the model; hosts may add them to their prompt.
        icons: Icons that a host may show.
        website_url: Page about the server.
        lifespan: Async context manager function of the server, entered once for each event loop. Handlers and
            middleware find what it yields in `ctx.state`.
        auth: Verifier of access tokens over HTTP, such as `Jwt("https://id.example.com")` of `mcpkit.auth`. Of several,
            the issuer of the token selects one. None serves every request.
        scopes: OAuth scopes by name: `{"notes:read": Scope("Read notes", default=True)}`.
        storage: Storage that several processes share, such as `Redis("redis://...")` of `mcpkit.storage`: sessions,
            states, change notifications, and what handlers store. None keeps everything in this process. A storage that
            outlives the process needs `secret_key`.
        secret_key: Key that signs session ids and states, at least 16 characters or bytes. Of several, the first signs
            and all are accepted. None takes the environment variable `MCPKIT_SECRET`, or a random key that lives as
            long as the process and its workers.
        limits: Upper bounds, see `Limits`.
        timeouts: Time limits in seconds, see `Timeouts`; a number is the time limit of calls.
        tasks: Processes that run tasks: `workers` (started by `mcpkit worker`), or None for this process and its
            replicas; `TaskOptions(...)` sets more.
        mask_error_details: Whether clients get only a reference to the log for an unexpected exception. False sends its
            type and text too, never a traceback: for development.
        options: Options that few servers change, see `ServerOptions`.

    Attributes:
        name: The name of the server.
        storage: The storage of the server.
        middleware: Functions around requests: `@server.middleware`.
        on_error: Functions that get unexpected exceptions: `@server.on_error`.
        engine: Internal: serves the requests. Transports use it.

    Raises:
        TypeError: An argument has the wrong type; the message names it.
        ValueError: An argument is out of range, the storage outlives the process and there is no secret key, or tasks
            are left to workers without a shared storage.
        RegistrationError: An icon does not have the form of the specification.
        ImportError: `encrypt_state` needs a package that is not installed.
    """

    @refuses_unknown("Server()", _GROUPS)
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
        auth: TokenVerifier | Sequence[TokenVerifier] | None = None,
        scopes: Mapping[str, Scope | str] | None = None,
        storage: Storage | None = None,
        secret_key: str | bytes | Sequence[str | bytes] | None = None,
        limits: Limits = Limits(),  # noqa: B008 - frozen
        timeouts: Timeouts | float | None = Timeouts(),  # noqa: B008 - frozen
        tasks: Literal["workers", "replicas"] | TaskOptions | None = None,
        mask_error_details: bool = True,
        options: ServerOptions = ServerOptions(),  # noqa: B008 - frozen
    ) -> None:
        # Checks of the arguments
        for argument, value in {
            "name": name,
            "version": version,
            "title": title,
            "description": description,
            "instructions": instructions,
            "website_url": website_url,
        }.items():
            if argument in ("name", "version") and (not isinstance(value, str) or not value):
                raise ValueError(f"{argument} must be a string that is not empty, got {value!r}")
            check_text(f"Server: {argument}", value)
        check_icons("Server", icons)
        if lifespan is not None and not callable(lifespan):  # pyright: ignore[reportUnnecessaryComparison]  # untyped authors
            raise TypeError(
                "lifespan must be a function of the server that returns an async context manager, "
                f"for example decorated with @asynccontextmanager, got {lifespan!r}"
            )
        check_group("limits", limits, Limits)
        check_group("options", options, ServerOptions)
        timeouts = Timeouts.of(timeouts)
        if storage is not None:
            from .storage.base import check_storage

            check_storage(storage, secret_key)
        if options.encrypt_state:
            from .storage.encryption_keys import aes_gcm

            aes_gcm()
        self._task_options = task_options(tasks)
        if self._task_options.by == "workers" and storage is None:
            raise ValueError(
                'tasks="workers" runs tasks in other processes, which cannot read the storage of this one. Pass a '
                'shared storage, for example storage=Sqlite("tasks.db"), or remove tasks='
            )

        # Components
        lifespans = Lifespans(None if lifespan is None else partial(lifespan, self))
        self._scopes = Scopes(scopes)
        super().__init__(lifespans, self._check_component)
        self.name = name
        self.storage: Storage = Memory() if storage is None else storage
        self.catalog.replaces_duplicates = options.on_duplicate == "replace"
        self._drops_unknown_arguments = options.unknown_arguments == "ignore"
        self.on_error = ErrorHooks()

        # The engine
        implementation = optional(
            name=name,
            title=title,
            version=version,
            description=description,
            icons=list(icons) if icons else None,
            websiteUrl=website_url,
        )
        verifier: TokenVerifier | None = None
        if auth is not None:
            from .auth.auth_option import verifier_of

            verifier = verifier_of(auth)
        declared = Capabilities(self.catalog, implementation, options.capabilities, instructions)
        runtime = Runtime(
            self,
            name,
            threads=Threads(limits.worker_threads, limits.abandoned_threads),
            processes=Processes(limits.worker_processes),
            limits=limits,
            timeouts=timeouts,
            storage=self.storage,
            is_alone=storage is None,
            scopes=self._scopes,
            auth=verifier,
            make_keys=partial(_keys, secret_key, name),
            options=options,
            mask_error_details=mask_error_details,
            cache={**_DEFAULT_CACHE, **options.cache},
            identity=declared.identity,
            declares=declared.has,
            state_in=lifespans.state_in,
            explain=self.on_error.explain,
        )
        if secret_key is not None:
            _ = runtime.keys  # raises for an invalid key
        self.engine = Engine(
            self.catalog,
            runtime,
            declared,
            lifespans,
            version=version,
            auth=verifier,
            make_tasks=self._make_tasks,
        )
        self.catalog.is_protected = self.engine.auth is not None
        self.middleware = MiddlewareStack(self.catalog.methods, self._update_middleware)
        self.catalog.structure_listeners.add(self._follow_structure)

    def _update_middleware(self) -> None:
        """Rebuild the chain of middleware: that of the server outside, that of its extensions inside."""
        inner = chain.from_iterable(each.middleware.hooks for each in self.catalog.attached)
        hooks = (*self.middleware.hooks, *inner)
        if self.engine.auth is not None:
            from .identity.audit_and_revocation import AuditMeter

            self.on_audit.set_meters([hook for _, hook in hooks if isinstance(hook, AuditMeter)])
        handler: Handler = self.engine.methods.dispatch
        meters: list[TaskMeter] = []
        if hooks:
            from .engine.middleware_chain import build_chain

            handler = build_chain(hooks, handler)
            meters = [hook for _, hook in hooks if isinstance(hook, TaskMeter)]
        self.engine.runtime.task_meters = tuple(meters)
        self.engine.set_handler(handler)

    def _make_tasks(self) -> TaskKeeper:
        from .tasks.task_creation_and_methods import TaskService

        return TaskService(self.engine, self._task_options)

    def route(
        self,
        path: str,
        *,
        methods: Collection[str] | None = None,
        name: str | None = None,
        outside_mount: bool = False,
        scopes: str | Collection[str] | None = None,
    ) -> Callable[[F], F]:
        """Add a route to the HTTP app, such as a health check or a webhook.

            @server.route("/hello")
            async def hello(request: Request) -> Response:
                return PlainTextResponse("hello")

        Args:
            path: Path in the syntax of Starlette, such as `/files/{name}`.
            methods: HTTP methods; None for GET.
            name: Name for `request.url_for`; None for the name of the function.
            outside_mount: Whether the path begins at the root of the site, wherever the app is mounted, as paths below
                `/.well-known` must. `app.around(site)` serves it there.
            scopes: Scopes that the route needs. The access tokens are those of the MCP endpoint. An empty list accepts
                any valid token; None needs no token. The function finds the user in `request.state.principal`.

        Returns:
            A decorator that returns the function unchanged. The function takes a Starlette `Request` and returns a
            `Response`.

        Raises:
            RegistrationError: The path does not begin with a slash, `methods` is a string, the server does not have one
                of the scopes, or `scopes` is set and the server has no `auth=`.
        """
        if isinstance(methods, str):
            raise RegistrationError(
                f"methods must be a list such as [{methods!r}], got the string {methods!r}"
            )
        if not path.startswith("/"):
            raise RegistrationError(
                f"the path of a route must begin with a slash, such as '/health', got {path!r}"
            )

        needed = None if scopes is None else scope_names(f"route {path!r}: scopes=", scopes)
        if needed is not None:
            self._scopes.check(f"route {path!r} needs", needed)
            if self.engine.auth is None:
                raise RegistrationError(
                    f"route {path!r}: scopes= needs a server with auth=. Add Server(auth=...), or remove scopes="
                )

        def register(function: F) -> F:
            self.engine.routes.append(CustomRoute(path, function, methods, name, outside_mount, needed))
            return function

        return register

    def running(self) -> AbstractAsyncContextManager[None]:
        """Return a context manager that keeps the lifespan entered in the running event loop, and runs tasks.

        Use it to serve without `run` and `asgi`: `async with server.running():`. Blocks can be nested; the lifespan is
        entered once. The block starts at once: requests wait for the lifespan, see `Timeouts.startup`.

        Raises:
            RegistrationError: Type hints of a component cannot be resolved.
            BaseException: Any exception that the lifespan raises when it is left.
        """
        return self.engine.running()

    async def revoke(self, principal: Principal | str, *, ttl: float | None = None) -> None:
        """Revoke the access of a user, for all of the user's clients: `await server.revoke("ada")`.

        From now on, the server refuses every access token that was issued before (401). It closes the user's sessions
        and event streams, and cancels the user's calls and tasks. With a shared `storage=`, this holds in all processes
        within 1 second. With an `OAuthProxy`, the grants of the user are revoked as well, here and at the upstream
        provider.

        Tokens that are issued later are accepted, so the user can log in again. A client can also get one without the
        user, unless the authorization server has revoked its grant.

        Args:
            principal: The user, or the id of the user. Scopes and client do not matter.
            ttl: Seconds for which the revocation is stored; None for 30 days, which is longer than access tokens live.
                For this time, a token without a time of issue is refused.

        Raises:
            TypeError: `principal` is neither a Principal nor a string.
            ValueError: The principal has no id, or `ttl` is not above 0.
            RuntimeError: The server has no `auth=`.
            OSError: The storage does not answer. Try again, as other processes may not know the revocation.
        """
        revocations = self.engine.revocations
        if revocations is None:
            raise RuntimeError("revoke needs a server that verifies access tokens: Server(auth=...)")
        who = checked_principal(Principal(principal) if isinstance(principal, str) else principal)
        if who.id is None:
            raise ValueError(
                "a Principal without an id cannot be revoked. Pass its id or a Principal with one"
            )
        check_seconds("ttl", ttl, may_be_none=True)
        user_id = who.id

        async def revoke() -> None:
            await revocations.revoke(user_id, ttl)
            self.on_audit.emit("revocation", who)
            if (auth := self.engine.auth) is not None:
                from .requests.access_and_error_responses import verifier_context

                await auth.revoke(who, verifier_context(self.engine.runtime))

        # The revocation cancels the calls of the user, and the caller may be one of them.
        await run_shielded(revoke())

    @property
    def on_audit(self) -> AuditLog:
        """The audit log: `@server.on_audit` registers a function that gets logins, refusals and revocations."""
        return self.engine.runtime.audit

    def _check_component(self, component: Component) -> None:
        """Check a component against the options of the server, and apply these options to it."""
        if self._drops_unknown_arguments and (drop := getattr(component, "drop_unknown_arguments", None)):
            drop()
        if needed := (*component.scopes, *component.optional_scopes):
            self._scopes.check(f"{component.kind} {component.key!r} needs", needed)

    def _follow_structure(self) -> None:
        """Follow what is included: its middleware, and its lifespans if this server runs."""
        self._update_middleware()
        self.engine.lifespans.begin(self.catalog.family())


def _keys(secret_key: str | bytes | Sequence[str | bytes] | None, name: str) -> Keys:
    from .storage.encryption_keys import Keys

    return Keys(secret_key, name)
