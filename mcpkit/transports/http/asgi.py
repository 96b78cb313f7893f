"""The ASGI app; nothing of HTTP is imported before its first event."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..._utils.exceptions import RegistrationError
from ...storage.encryption_keys import check_environment
from .app_options import Guard, Settings, warn_of_workers

if TYPE_CHECKING:
    from starlette.routing import Route
    from starlette.types import ASGIApp

    from ...engine.engine import Engine
    from .protected_resource import Resource
    from .response import Receive, Scope, Send
    from .routes import Router


class HttpApp:
    """The server as an ASGI app; created by `Server.asgi`.

    Creating it imports no HTTP libraries, so that a module can have `app = server.asgi()` and still be started over
    stdio. The handler is created at the first event.

    Args:
        engine: Engine of the server.
        routes: Custom routes.
        settings: Options of the app.

    Raises:
        ValueError: A host, an origin or the secret in the environment is not valid; or `public_url` is missing with
            `auth=`; or an included server has `auth=` and this one has not. The message contains the fix.
        RegistrationError: A custom route has a path of the protocol or of a probe.
    """

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self.settings, self._engine = settings, engine
        self._guard = Guard(settings.public_url, settings.allowed_hosts, settings.allowed_origins)
        self._resources: Sequence[Resource] | None = None
        if engine.auth is not None:
            from .protected_resource import bind_verifier

            self._resources = bind_verifier(engine, engine.auth, settings)
        self._check_included()
        self._mounts: list[tuple[str, ASGIApp]] = []
        self._router: Router | None = None
        self._lock = threading.Lock()
        warn_of_workers(is_shared=engine.runtime.storage.is_persistent, is_stateless=settings.stateless)
        check_environment()
        for route in engine.routes:
            settings.check_route(route)

    def _check_included(self) -> None:
        """Check that no component of an included server with `auth=` is served without identification of clients.

        Raises:
            ValueError: A component would be public.
        """
        is_open = self._engine.auth is None and self.settings.principal is None
        if is_open and self._engine.catalog.includes_protected:
            raise ValueError(
                "an included server has auth=, but this server has none, so its protected components "
                "would be public. Give this server auth= too, or identify clients with asgi(principal=)"
            )

    @property
    def takes_tokens(self) -> bool:
        """True if clients need an access token."""
        return self._resources is not None

    def mount(self, path: str, app: ASGIApp) -> None:
        """Serve another app, such as that of another server, below a path: `app.mount("/x", other.asgi())`.

        Args:
            path: Path of the app, which begins with a slash.
            app: Any ASGI app. It must check hosts and origins itself, as the app of another server does.

        Raises:
            RegistrationError: The path does not begin with a slash.
        """
        if not path.startswith("/"):
            text = f"path of a mounted app must begin with a slash, such as '/other', got {path!r}"
            raise RegistrationError(text)
        self._mounts.append((path, app))

    def around(self, parent: ASGIApp) -> ASGIApp:
        """Return an ASGI app for the whole site: this app's routes outside its mount, and a parent app for the rest.

        Args:
            parent: App in which this one is mounted. It serves every other path, and the lifespan.
        """

        async def site(scope: Scope, receive: Receive, send: Send) -> None:
            routes = self.router().site
            await (routes if routes.is_outside_mount(scope) else parent)(scope, receive, send)

        return site

    def well_known(self) -> list[Route]:
        """Return the routes to add at the root of the site if this app is mounted in another one.

        Clients look there first for the metadata of a protected server: `Starlette(routes=[*app.well_known(),
        Mount("/notes", app)])`. Without these routes they find it below the mount point, because each challenge
        contains the URL. `app.around(site)` serves the same.
        """
        return self.router().site.root_routes()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI connection."""
        router = self._router
        await (self.router() if router is None else router)(scope, receive, send)

    def router(self) -> Router:
        """Return the handler, created on the first call."""
        from .routes import Router

        with self._lock:  # event loops of several threads may call it at the same time
            if self._router is None:
                self._check_included()  # again, as more servers may have been included
                self._router = Router(self._engine, self._mounts, self.settings, self._guard, self._resources)
            return self._router
