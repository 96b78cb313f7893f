"""Routes of the HTTP app besides the MCP endpoint: custom routes, also outside the mount, metadata and probes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import BaseRoute, Match, Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from ...engine.engine import CustomRoute
from .exchange import headers_by_name
from .intake.cors import Cors
from .intake.guard import Guard
from .intake.mounting import is_mounted, mount_point, path_below
from .intake.refused_body import watch
from .options import DEFAULT_PATH, Settings

if TYPE_CHECKING:
    from .protection.protection import Protection

_NEVER_KEPT = {"Cache-Control": "no-store"}

_IS_MOUNTED = "mcpkit.is_mounted"
"""ASGI scope key: whether the app is mounted in another one."""


class _OutsideRoute(Route):
    """A route with a path from the root of the site. It does not exist below a mount point."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Match the path if the app is not mounted."""
        return (Match.NONE, {}) if scope[_IS_MOUNTED] else super().matches(scope)


class Routes:
    """ASGI app for every path that does not belong to the protocol.

    It applies the guard, with three exceptions: probes, which load balancers request by address and which reveal
    nothing else; mounted apps, which have guards of their own; and verifier endpoints for any origin
    (`is_for_any_origin`). It never redirects: a trailing slash makes no difference.

    Args:
        routes: Custom routes.
        mounts: Mounted apps with their paths. Later additions to both lists are served too.
        guard: Check of hosts and origins.
        settings: Options of the app.
        protection: Verification of access tokens; None if none are needed.
        hindrance: Returns the reason why the service is not ready, or None; its argument includes the shared storage.

    Raises:
        RegistrationError: A custom route has a path that is already used.
    """

    def __init__(
        self,
        routes: Sequence[CustomRoute],
        mounts: Sequence[tuple[str, ASGIApp]],
        guard: Guard,
        settings: Settings,
        protection: Protection | None,
        *,
        hindrance: Callable[[bool], Awaitable[str | None]],
    ) -> None:
        self._own, self._given = routes, mounts
        self._guard = guard
        self._settings = settings
        self._hindrance = hindrance
        self._probes = {
            path: answer
            for path, answer in (
                (settings.http.readiness_path, self._readiness),
                (settings.http.liveness_path, _life),
            )
            if path is not None
        }
        self._probed = {path.rstrip("/") for path in self._probes}
        self._starlette = Starlette()
        self._starlette.router.redirect_slashes = False
        self._elsewhere = self._starlette.router.default
        self._starlette.router.default = self._point
        self._answer: ASGIApp = Cors(self._starlette, guard) if settings.http.cors else self._starlette
        self._mounts: list[Mount] = []
        self._protection = protection
        self._documents = {} if protection is None else dict(protection.documents)
        self._documents_at_root = {} if protection is None else protection.documents_at_root
        self._outside: list[Route] = []
        self._for_any_origin: set[str] = set()
        self._served = -1, -1
        self.take_up()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request with a path that does not belong to the protocol.

        Args:
            scope: An ASGI scope of type `http` or `websocket`; it is not changed.
            receive: ASGI receive channel.
            send: ASGI send channel.
        """
        self.take_up()
        path = path_below(scope)
        if (document := self._documents.get(path)) is not None and scope["type"] == "http":
            await document(scope, receive, send)  # which pages of any origin may read
            return
        scope = self._placed(scope, path)
        for mount in () if _is_one_of(self._outside, scope) else self._mounts:
            match, found = mount.matches(scope)
            if match is Match.FULL:
                await mount.handle({**scope, **found}, receive, send)
                return
        if scope["type"] == "http":
            headers = headers_by_name(scope)
            receive, send = watch(scope, headers, receive, send)
            origin = None if path.rstrip("/") in self._for_any_origin else headers.get(b"origin")
            if not self._is_probe(scope, path) and (
                refusal := self._guard.refuse(headers.get(b"host"), origin)
            ):
                status, text = refusal
                await PlainTextResponse(text, status)(scope, receive, send)
                return
        await self._answer(scope, receive, send)

    def is_outside(self, scope: Scope) -> bool:
        """Return True if a request for the whole site has a path outside the mount.

        Args:
            scope: An ASGI scope of any type.
        """
        self.take_up()
        if scope["type"] != "http":
            return False
        path = path_below(scope)
        if path in self._documents_at_root:
            return True
        return bool(self._outside) and _is_one_of(self._outside, self._placed(scope, path))

    def _placed(self, scope: Scope, path: str) -> Scope:
        """Return the scope with the mount point as Starlette expects it, from which `request.url_for` starts."""
        root = mount_point(scope)
        router = self._starlette.router
        placed = {**scope, "root_path": root, "app_root_path": root, "router": router, "path": root + path}
        placed[_IS_MOUNTED] = is_mounted(scope)
        if not _is_one_of((*self._mounts, *router.routes), placed):
            placed["path"] = root + (path.rstrip("/") if path.endswith("/") else f"{path}/")
        return placed

    def _is_probe(self, scope: Scope, path: str) -> bool:
        is_read = scope["method"] in {"GET", "HEAD"}  # what else has this path is the author's own
        return is_read and path.rstrip("/") in self._probed

    def take_up(self) -> None:
        """Add the routes and apps that were registered since the last time.

        Raises:
            RegistrationError: A path is already used.
        """
        served = len(self._own), len(self._given)
        if self._served == served:
            return
        added = self._own[: served[0]]
        for each in added:
            self._settings.check_route(each)
        own = [self._route(each) for each in added]
        given: Sequence[Route] = () if self._protection is None else self._protection.routes
        own += [
            _OutsideRoute(each.path, each.endpoint, methods=each.methods, name=each.name) for each in given
        ]
        self._for_any_origin = {
            each.path for each in given if getattr(each.endpoint, "is_for_any_origin", False)
        }
        probes: list[BaseRoute] = [Route(path, answer) for path, answer in self._probes.items()]
        self._starlette.router.routes = [*probes, *own]
        self._outside = [route for route in own if isinstance(route, _OutsideRoute)]
        self._mounts = [Mount(*each) for each in self._given[: served[1]]]
        if self._documents and any(
            getattr(app, "takes_tokens", False) for _, app in self._given[: served[1]]
        ):
            from ...auth.discovery import PROTECTED_RESOURCE

            self._documents.pop(PROTECTED_RESOURCE, None)  # which would stand for either server
        self._served = served

    def _route(self, own: CustomRoute) -> Route:
        protection, middleware = self._protection, []
        if own.scopes is not None and protection is not None:
            middleware = [protection.middleware(own.scopes)]
        kind = _OutsideRoute if own.is_outside_mount else Route
        return kind(own.path, own.function, methods=own.methods, name=own.name, middleware=middleware)

    @property
    def outside(self) -> list[Route]:
        """Routes to serve at the root of the site, for an app around this one."""
        self.take_up()
        own = [Route(each.path, self, methods=each.methods, name=each.name) for each in self._outside]
        return [*own, *(Route(path, each) for path, each in self._documents_at_root.items())]

    async def _point(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond to an unknown path with the path of the MCP endpoint, for clients that use the URL of the site."""
        if scope["type"] != "http" or self._settings.path != DEFAULT_PATH:  # one of their own may be a secret
            await self._elsewhere(scope, receive, send)
            return
        text = f"Not Found. The MCP endpoint is at {mount_point(scope)}{DEFAULT_PATH}"
        await PlainTextResponse(text, 404)(scope, receive, send)

    async def _readiness(self, request: Request) -> JSONResponse:
        excluded = request.query_params.getlist("exclude")
        reason = await self._hindrance("shared" not in excluded)
        if reason is None:
            return JSONResponse({"status": "ready"}, headers=_NEVER_KEPT)
        return JSONResponse({"status": "not ready", "reason": reason}, status_code=503, headers=_NEVER_KEPT)


async def _life(_request: Request) -> JSONResponse:
    """Respond as long as the event loop runs."""
    return JSONResponse({"status": "live"}, headers=_NEVER_KEPT)


def _is_one_of(routes: Iterable[BaseRoute], scope: Scope) -> bool:
    return any(route.matches(scope)[0].value for route in routes)
