"""What protects an app: its endpoints, their documents, and the routes that belong to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit, urlunsplit

from starlette.middleware import Middleware

from ....auth.discovery import PROTECTED_RESOURCE
from ....auth.verifier import ProtectedResource
from ....engine.routes import CustomRoute
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
    from ....state.revocations import Revocation


class Resource(NamedTuple):
    """An endpoint as its clients know it.

    Attributes:
        url: Where they reach it.
        document: Where they read of it.
        below: The path of the document below the point where the app is mounted; None where that cannot be told.
        at_root: The path of the document from the root of the site.
    """

    url: str
    document: str
    below: str | None
    at_root: str


class Public(NamedTuple):
    """Where an app is reached, as its operator says.

    Attributes:
        origin: Scheme, host and port.
        mcp: The MCP endpoint.
        sse: The one of the transport of 2024-11-05; None where it is not served.
    """

    origin: str
    mcp: Resource
    sse: Resource | None

    @classmethod
    def of(cls, settings: Settings, public_url: str) -> Public:
        """Read `public_url`.

        Raises:
            ValueError: It cannot be told from it where `/sse` is reached, or it is no URL of an endpoint.
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
        """Whether the app is all that there is of the site, as nothing stands before its paths."""
        return self.mcp.below == self.mcp.at_root


def _resource(origin: str, prefix: str | None, path: str, own: str) -> Resource:
    at_root = PROTECTED_RESOURCE + path
    below = None if prefix is None else PROTECTED_RESOURCE + own
    where = at_root if below is None else f"{prefix}{below}"
    return Resource(origin + path, origin + where, below, at_root)


def enter(engine: Engine, verifier: TokenVerifier, settings: Settings) -> Public:
    """Tell what verifies tokens where it does so, and return where that is.

    Raises:
        ValueError: Nobody has said where clients reach the app, or it cannot be used there.
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
    """What takes the access tokens of one app.

    Args:
        engine: Who answers.
        verifier: Verifies the tokens.
        public: Where the app is reached.

    Attributes:
        mcp: Takes those of the MCP endpoint.
        sse: Takes those of the transport of 2024-11-05.
        documents: What serves each document, by its path below the point where the app is mounted.
        documents_at_root: The same by their paths from the root of the site, where clients look first.
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
        """Tell the operator, once, where tokens are taken and what needs none.

        Args:
            routes: The routes of the author's own.
            mounts: Where other apps are served.
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
        """Forget the tokens of somebody who has been sent away; in any thread."""
        self.mcp.revoke(revocation)
        self.sse.revoke(revocation)
        self._verification.revoke(revocation)

    def middleware(self, scopes: tuple[str, ...]) -> Middleware:
        """Return what has a route of the author's own take the same tokens.

        Args:
            scopes: What whoever asks must have been granted.
        """
        return Middleware(Protected, endpoint=self.mcp, scopes=scopes)

    @property
    def routes(self) -> Sequence[Route]:
        """What the verifier serves at the root of the site."""
        return self._verifier.routes()


def _title(engine: Engine) -> str:
    info = engine.declared.identity(LATEST).info
    return str(info.get("title") or engine.runtime.name)
