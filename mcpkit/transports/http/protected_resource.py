"""Protected resource (RFC 9728): the endpoints of an app that requires access tokens, and the lifetime of streams."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit, urlunsplit

from pydantic_core import to_json
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from ...auth.urls_and_discovery import PROTECTED_RESOURCE, is_loopback
from ...auth.verifier import ProtectedResource
from ...components.component import optional
from ...identity.principals_and_scopes import owner_of
from ...protocol.revisions import LATEST
from .app_options import SSE_PATH, Settings
from .bearer_auth import ProtectedEndpoint, TokenExchange, Verification
from .request import headers_by_name
from .response import Exchange, RefusedError, headers_of, refuse

if TYPE_CHECKING:
    from ...auth.verifier import AccessToken, TokenVerifier
    from ...engine.engine import CustomRoute, Engine
    from ...identity.audit_and_revocation import Revocation

logger = logging.getLogger(__name__)

# Public URLs


class Resource(NamedTuple):
    """A protected endpoint as clients see it.

    Attributes:
        url: URL of the endpoint.
        metadata_url: URL of its metadata document.
        path: Path of the document below the mount point of the app; None if unknown.
        path_at_root: Path of the document from the root of the site.
    """

    url: str
    metadata_url: str
    path: str | None
    path_at_root: str


def bind_verifier(engine: Engine, verifier: TokenVerifier, settings: Settings) -> tuple[Resource, ...]:
    """Bind the verifier to the server, and return its MCP endpoint, and that of 2024-11-05 if it is served.

    Raises:
        ValueError: `public_url` is missing, or the verifier cannot be used there.
    """
    if settings.public_url is None:
        raise ValueError(
            "auth= needs the public URL of the server, as access tokens are issued for it. Write "
            'server.asgi(public_url="https://example.com/mcp") or server.run("http", public_url=...)'
        )
    if settings.principal is not None:
        text = "auth= and principal= cannot be combined, as both identify the client. Remove one of them"
        raise ValueError(text)
    resources = _resources(settings, settings.public_url)
    runtime = engine.runtime

    async def in_thread(function: Callable[[], object]) -> object:
        return await runtime.threads.run(function, {})

    urls = tuple(each.url for each in resources)
    shared = runtime.name, runtime.keys, runtime.scopes, runtime.storage, runtime.audit
    verifier.bind(ProtectedResource(urls[0], urls, *shared, in_thread))
    return resources


def _resources(settings: Settings, public_url: str) -> tuple[Resource, ...]:
    parts = urlsplit(public_url)
    if parts.query or parts.fragment or parts.username is not None:
        raise ValueError(
            f"public_url: {public_url!r} must only have a scheme, a host and a path. Write it like "
            "'https://example.com/mcp'"
        )
    origin = urlunsplit((parts.scheme.lower(), parts.netloc.lower(), "", "", ""))
    path, own_path = parts.path.rstrip("/"), settings.path.rstrip("/")
    prefix = path.removesuffix(own_path) if path.endswith(own_path) else None

    def resource(path: str, own_path: str) -> Resource:
        path_at_root = PROTECTED_RESOURCE + path
        below = None if prefix is None else PROTECTED_RESOURCE + own_path
        metadata_url = origin + (path_at_root if below is None else f"{prefix}{below}")
        return Resource(origin + path, metadata_url, below, path_at_root)

    mcp = resource(path, own_path)
    if not settings.http.sse:
        return (mcp,)
    if prefix is None:
        raise ValueError(
            f"public_url={public_url!r} does not end with path={settings.path!r}, so the public URL of "
            "/sse is unknown. Let both end alike, or set sse=False"
        )
    return mcp, resource(prefix + SSE_PATH, SSE_PATH)


# Protection of an app

_MAX_NAMES = 20  # maximum names in a log message


class Protection:
    """Verification of the access tokens of one app.

    Args:
        engine: Engine of the server.
        verifier: The token verifier.
        resources: The MCP endpoint, and that of 2024-11-05 if it is served.

    Attributes:
        mcp: The MCP endpoint.
        sse: The endpoint of the transport of 2024-11-05.
        documents: Apps for the metadata documents, by path below the mount point.
        documents_at_root: The same by path from the root of the site, where clients look first.
        routes: Routes of the verifier at the root of the site.
    """

    def __init__(self, engine: Engine, verifier: TokenVerifier, resources: Sequence[Resource]) -> None:
        self._engine, self._verifier, self._urls = engine, verifier, [each.url for each in resources]
        self._is_announced = False
        runtime = engine.runtime
        self._verification = Verification(verifier, runtime.scopes, runtime.audit, engine.revocations)
        self.mcp, *others = [
            ProtectedEndpoint(each.url, each.metadata_url, self._verification, engine.is_open)
            for each in resources
        ]
        self.sse = others[0] if others else self.mcp
        self.routes = verifier.routes()
        self.documents: dict[str, Document] = {}
        self.documents_at_root: dict[str, Document] = {}
        title = str(engine.declared.identity(LATEST).info.get("title") or runtime.name)
        for resource in resources if verifier.issuers else ():
            metadata = optional(
                resource=resource.url,
                authorization_servers=list(verifier.issuers),  # byte by byte as they identify themselves
                scopes_supported=list(runtime.scopes.defaults) or None,  # only those that clients need first
                bearer_methods_supported=["header"],
                resource_name=title,
            )
            document = Document(to_json(metadata))
            self.documents[resource.path_at_root] = self.documents_at_root[resource.path_at_root] = document
            if resource.path is not None:
                self.documents[resource.path] = document
        path = resources[0].path_at_root
        if resources[0].path == path and verifier.issuers:  # the app is at the root of the site
            self.documents[PROTECTED_RESOURCE] = self.documents[path]

    def revoke(self, revocation: Revocation) -> None:
        """Remove the cached tokens of a revoked principal; in any thread."""
        self.mcp.revoke(revocation)
        self.sse.revoke(revocation)
        self._verification.revoke(revocation)

    def announce(self, routes: Iterable[CustomRoute], mounts: Iterable[str]) -> None:
        """Log once which endpoints are protected, with their issuers, and everything without protection.

        Under uvicorn, the messages go to its logger, among its own at the start. Warnings go to the logger of this
        module.

        Args:
            routes: Custom routes.
            mounts: Paths of mounted apps.
        """
        if self._is_announced:
            return
        self._is_announced = True
        has_uvicorn = bool(logging.getLogger("uvicorn").handlers)
        log = (logging.getLogger("uvicorn.error") if has_uvicorn else logger).info
        urls, issuers = self._urls, self._verifier.issuers
        issued_by = f" issued by {_listed(issuers)}" if issuers else ""
        log("Access tokens%s are accepted at %s", issued_by, _listed(urls))
        for notice in self._verifier.notices():
            log("%s", notice)
        parts = urlsplit(urls[0])
        if parts.scheme != "https" and not is_loopback(parts.hostname):
            logger.warning(
                "public_url=%r does not use TLS, so access tokens can be read on the network. Serve it over https",
                urls[0],
            )
        unprotected = [f"route {route.path}" for route in routes if route.scopes is None]
        unprotected += [f"app mounted at {path}" for path in mounts]
        if unprotected:
            log("Open without an access token, as they have no scopes=: %s", _listed(unprotected))
        anonymous = [
            f"{each.kind} {each.key}"
            for part in self._engine.catalog.parts
            for each in part
            if each.is_anonymous and each.is_enabled
        ]
        if anonymous:
            logger.warning(
                "Open without an access token, as they have Access(allow_anonymous=True): %s. Hosts that only log in "
                "when `initialize` is rejected (401) will not log in here. Serve such hosts at an endpoint without "
                "these components",
                _listed(anonymous),
            )


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _MAX_NAMES
    return ", ".join(names[:_MAX_NAMES]) + (f" and {more} more" if more > 0 else "")


class ProtectedRoute:
    """ASGI middleware that requires an access token with scopes, for custom routes.

    Args:
        app: The ASGI app, which finds the principal in `request.state.principal`.
        endpoint: Endpoint that verifies the tokens.
        scopes: Required scopes; empty for any valid token.
    """

    def __init__(self, app: ASGIApp, endpoint: ProtectedEndpoint, scopes: tuple[str, ...]) -> None:
        self._app, self._endpoint, self._scopes = app, endpoint, scopes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or respond with a challenge."""
        headers = headers_by_name(scope)
        try:
            grant = self._endpoint.known(headers)
            if grant is None:
                grant = await self._endpoint.admit(headers, scope.get("client"), may_be_anonymous=False)
        except RefusedError as error:
            await refuse(send, error.status, error.text, error.headers)
            return
        if not grant.principal.scopes.issuperset(self._scopes):
            challenge = self._endpoint.challenge(self._scopes, grant.principal, LATEST)
            await refuse(send, challenge.status, challenge.message, headers_of(challenge))
            return
        state = {**scope.get("state", {}), "principal": grant.principal}
        await self._app({**scope, "state": state}, receive, send)


_DOCUMENT_METHODS = "GET, HEAD, OPTIONS"
_DOCUMENT_HEADERS = {
    "Access-Control-Allow-Origin": "*",  # it is as public as the page of a website
    "Cache-Control": "public, max-age=300",
}


class Document:
    """ASGI app that serves a metadata document, readable by pages of any origin.

    Args:
        body: The document as JSON.
    """

    def __init__(self, body: bytes) -> None:
        self._body = body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        request = Request(scope)
        if request.method == "OPTIONS":
            preflight = {
                "Access-Control-Allow-Methods": _DOCUMENT_METHODS,
                "Access-Control-Allow-Headers": request.headers.get("access-control-request-headers", ""),
                "Access-Control-Max-Age": "7200",
                "Vary": "Access-Control-Request-Headers",
            }
            response = Response(status_code=204, headers={**_DOCUMENT_HEADERS, **preflight})
        elif request.method in {"GET", "HEAD"}:
            response = Response(self._body, media_type="application/json", headers=_DOCUMENT_HEADERS)
        else:
            response = PlainTextResponse("use GET to read this document", 405, {"Allow": _DOCUMENT_METHODS})
        await response(scope, receive, send)


# Lifetime of streams

GRACE = 60.0  # seconds for which a stream continues while its token cannot be verified again

RETRY_INTERVAL = 5.0  # seconds after which a failed verification is repeated

_MAX_CONCURRENT = 16  # maximum concurrent verifications

_MAX_TIMER = 3600.0  # maximum seconds of the timer, because clocks can be adjusted


class StreamExpiry:
    """Listening streams of one event loop, by access token.

    A stream ends when its token expires. A token with limited freshness is verified again while a stream is open, once
    for all its streams.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._tokens: dict[tuple[ProtectedEndpoint, bytes], _Token] = {}
        self._verifying = asyncio.Semaphore(_MAX_CONCURRENT)

    def add(self, exchange: Exchange, end: Callable[[], None]) -> Callable[[], None]:
        """End a stream when the access token of its request expires or is revoked.

        Args:
            exchange: The request, which has a token.
            end: Ends the stream.

        Returns:
            A function to call after the stream has ended.
        """
        assert isinstance(exchange, TokenExchange), "the request must have an access token"
        assert exchange.grant is not None
        digest = hashlib.sha256(exchange.request_headers[b"authorization"]).digest()
        key = exchange.endpoint, digest
        token = self._tokens.get(key)
        if token is None:
            token = self._tokens[key] = _Token(exchange.endpoint, exchange.request_headers, exchange.grant)
            self._schedule(token)
        elif exchange.grant is not token.grant:
            token.grant = exchange.grant
            self._schedule(token)
        stream = object()
        token.streams[stream] = end

        def remove() -> None:
            if token.streams.pop(stream, None) is not None and not token.streams:
                token.stop()
                if self._tokens.get(key) is token:
                    del self._tokens[key]

        return remove

    def revoke(self, revocation: Revocation) -> None:
        """End the streams of a revoked principal."""
        for token in tuple(self._tokens.values()):
            if revocation.covers(token.grant.principal, token.grant.issued):
                token.end()

    def close(self) -> None:
        """Stop checking."""
        for token in self._tokens.values():
            token.stop()

    def _schedule(self, token: _Token, retry_at: float = 0.0) -> None:
        """Check a token when it expires, and when it is stale or after the retry time."""
        if token.timer is not None:
            token.timer.cancel()
        when = min(token.expires, max(token.fresh_until, retry_at))
        if when < math.inf:
            delay = min(max(when - time.time(), 0), _MAX_TIMER)
            token.timer = self._loop.call_later(delay, self._check, token)

    def _check(self, token: _Token) -> None:
        """End streams with an expired token, and verify a stale token again."""
        now = time.time()
        if token.expires <= now:
            token.end()
        elif token.fresh_until > now:
            self._schedule(token)
        elif token.verification is None:
            token.verification = self._loop.create_task(self._verify(token))

    async def _verify(self, token: _Token) -> None:
        """Verify a token again. Its streams end if it is invalid or changed, or after the grace period."""
        before, retry_at = token.grant.principal, 0.0
        try:
            async with self._verifying:
                grant = await token.endpoint.admit(token.headers, None, may_be_anonymous=False)
        except RefusedError as error:
            now = time.time()
            retry_at = now + RETRY_INTERVAL
            if error.status in {401, 403, 400}:
                token.end()
            elif now >= token.fresh_until + GRACE:
                logger.warning(
                    "closing event streams, as their access token could not be verified again within "
                    "%d s. Clients can open them again later",
                    GRACE,
                )
                token.end()
        else:
            if owner_of(before) != owner_of(grant.principal) or before.scopes != grant.principal.scopes:
                token.end()
            token.grant = grant
        finally:
            token.verification = None
        if token.streams:
            self._schedule(token, retry_at)


@dataclass(eq=False)
class _Token:
    """An access token, and the streams opened with it."""

    endpoint: ProtectedEndpoint
    headers: Mapping[bytes, bytes]
    grant: AccessToken
    streams: dict[object, Callable[[], None]] = field(default_factory=dict[object, Callable[[], None]])
    timer: asyncio.TimerHandle | None = None
    verification: asyncio.Task[None] | None = None

    @property
    def expires(self) -> float:
        return math.inf if self.grant.expires is None else self.grant.expires

    @property
    def fresh_until(self) -> float:
        return math.inf if self.grant.fresh_until is None else self.grant.fresh_until

    def end(self) -> None:
        for end in tuple(self.streams.values()):
            with suppress(Exception):  # one that fails keeps no other one open
                end()

    def stop(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
        if self.verification is not None:
            self.verification.cancel()
