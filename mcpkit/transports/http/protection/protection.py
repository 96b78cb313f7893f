"""Protection of an app: its endpoints, their metadata documents, and the routes of the verifier."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit, urlunsplit

from starlette.middleware import Middleware

from ....auth.discovery import PROTECTED_RESOURCE
from ....auth.verifier import ProtectedResource
from ....engine.engine import CustomRoute
from ....protocol.revisions import LATEST
from ..options import SSE_PATH, Settings
from .announcing import announce
from .endpoint import Endpoint
from .metadata import Document, document
from .own_routes import Protected
from .verification import Verification

if TYPE_CHECKING:
    from starlette.routing import Route

    from ....auth.verifier import TokenVerifier
    from ....engine.engine import Engine
    from ....identity.revocation import Revocation


class Resource(NamedTuple):
    """A protected endpoint as clients see it.

    Attributes:
        url: URL of the endpoint.
        document: URL of its metadata document.
        below: Path of the document below the mount point of the app; None if unknown.
        at_root: Path of the document from the root of the site.
    """

    url: str
    document: str
    below: str | None
    at_root: str


class Public(NamedTuple):
    """Public URLs of an app, from the option `public_url`.

    Attributes:
        origin: Scheme, host and port.
        mcp: The MCP endpoint.
        sse: The endpoint of the transport of 2024-11-05; None if it is not served.
    """

    origin: str
    mcp: Resource
    sse: Resource | None

    @classmethod
    def of(cls, settings: Settings, public_url: str) -> Public:
        """Parse `public_url`.

        Raises:
            ValueError: The URL is not that of an endpoint, or the URL of `/sse` cannot be derived from it.
        """
        parts = urlsplit(public_url)
        if parts.query or parts.fragment or parts.username is not None:
            raise ValueError(
                f"public_url: {public_url!r} must only have a scheme, a host and a path. Write it like "
                "'https://example.com/mcp'"
            )
        origin = urlunsplit((parts.scheme.lower(), parts.netloc.lower(), "", "", ""))
        path, own = parts.path.rstrip("/"), settings.path.rstrip("/")
        prefix = path.removesuffix(own) if path.endswith(own) else None
        if prefix is None and settings.http.sse:
            raise ValueError(
                f"public_url={public_url!r} does not end with path={settings.path!r}, so the public URL of "
                "/sse is unknown. Let both end alike, or set sse=False"
            )
        return cls(
            origin,
            _resource(origin, prefix, path, own),
            None
            if prefix is None or not settings.http.sse
            else _resource(origin, prefix, prefix + SSE_PATH, SSE_PATH),
        )

    @property
    def is_alone(self) -> bool:
        """True if the app is at the root of the site, without a path prefix."""
        return self.mcp.below == self.mcp.at_root


def _resource(origin: str, prefix: str | None, path: str, own: str) -> Resource:
    at_root = PROTECTED_RESOURCE + path
    below = None if prefix is None else PROTECTED_RESOURCE + own
    where = at_root if below is None else f"{prefix}{below}"
    return Resource(origin + path, origin + where, below, at_root)


def enter(engine: Engine, verifier: TokenVerifier, settings: Settings) -> Public:
    """Bind the verifier to the server, and return the public URLs of the app.

    Raises:
        ValueError: `public_url` is missing, or the verifier cannot be used there.
    """
    if settings.public_url is None:
        raise ValueError(
            "auth= needs the public URL of the server, as access tokens are issued for it. Write "
            'server.asgi(public_url="https://example.com/mcp") or server.run("http", public_url=...)'
        )
    if settings.principal is not None:
        raise ValueError(
            "auth= and principal= cannot be combined, as both identify the client. Remove one of them"
        )
    public = Public.of(settings, settings.public_url)
    resources = (public.mcp.url,) if public.sse is None else (public.mcp.url, public.sse.url)
    runtime = engine.runtime

    async def in_thread(function: Callable[[], object]) -> object:
        return await runtime.threads.run(function, {})

    verifier.bind(
        ProtectedResource(
            public.mcp.url,
            resources,
            runtime.name,
            runtime.keys,
            runtime.scopes,
            runtime.storage,
            runtime.audit,
            in_thread,
        )
    )
    return public


class Protection:
    """Verification of the access tokens of one app.

    Args:
        engine: Engine of the server.
        verifier: The token verifier.
        public: Public URLs of the app.

    Attributes:
        mcp: The MCP endpoint.
        sse: The endpoint of the transport of 2024-11-05.
        documents: Apps for the metadata documents, by path below the mount point.
        documents_at_root: The same by path from the root of the site, where clients look first.
    """

    def __init__(self, engine: Engine, verifier: TokenVerifier, public: Public) -> None:
        self._engine, self._verifier, self._public = engine, verifier, public
        self._is_announced = False
        runtime = engine.runtime
        self._verification = Verification(verifier, runtime.scopes, runtime.audit, engine.revocations)
        self.mcp = self._endpoint(public.mcp)
        self.sse = self.mcp if public.sse is None else self._endpoint(public.sse)
        self.documents: dict[str, Document] = {}
        self.documents_at_root: dict[str, Document] = {}
        for resource in (public.mcp, public.sse):
            if resource is None or not verifier.issuers:
                continue
            served = Document(document(resource.url, verifier.issuers, engine.runtime.scopes, _title(engine)))
            self.documents[resource.at_root] = self.documents_at_root[resource.at_root] = served
            if resource.below is not None:
                self.documents[resource.below] = served
        if public.is_alone and verifier.issuers:
            self.documents[PROTECTED_RESOURCE] = self.documents[public.mcp.at_root]

    def announce(self, routes: Iterable[CustomRoute], mounts: Iterable[str]) -> None:
        """Log once which endpoints are protected, and everything without protection.

        Args:
            routes: Custom routes.
            mounts: Paths of mounted apps.
        """
        if not self._is_announced:
            self._is_announced = True
            urls = [each.url for each in (self._public.mcp, self._public.sse) if each is not None]
            verifier = self._verifier
            announce(urls, verifier.issuers, verifier.notices(), self._engine.catalog, routes, mounts)

    def _endpoint(self, resource: Resource) -> Endpoint:
        return Endpoint(
            resource.url,
            resource.document if self._verifier.issuers else None,
            self._verifier,
            self._verification,
            self._engine.runtime.scopes,
            self._engine.runtime.audit,
            self._engine.is_open,
            self._engine.revocations,
        )

    def revoke(self, revocation: Revocation) -> None:
        """Remove the cached tokens of a revoked principal; in any thread."""
        self.mcp.revoke(revocation)
        self.sse.revoke(revocation)
        self._verification.revoke(revocation)

    def middleware(self, scopes: tuple[str, ...]) -> Middleware:
        """Return the middleware that protects a custom route.

        Args:
            scopes: Required scopes.
        """
        return Middleware(Protected, endpoint=self.mcp, scopes=scopes)

    @property
    def routes(self) -> Sequence[Route]:
        """Routes of the verifier at the root of the site."""
        return self._verifier.routes()


def _title(engine: Engine) -> str:
    info = engine.declared.identity(LATEST).info
    return str(info.get("title") or engine.runtime.name)
