"""Base class of the authorizations, and the tokens of one server: added to requests, refreshed and renewed."""

from __future__ import annotations

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, Final
from weakref import WeakKeyDictionary

from ..._utils.concurrency import Listeners
from ..._utils.exceptions import AuthorizationError, ProtocolError, TransportError
from ...auth.urls_and_discovery import MetadataError, canonical, check_url, origin, shortened
from ...auth.verifier import warn_insecure_options
from ...protocol import jsonrpc
from ...protocol.http_headers import NAMED_BY
from ...protocol.jsonrpc import Json, is_object
from ..http.headers_and_errors import Challenge, Pairs, read_challenges, without_credentials
from ..http.http_endpoint import HttpSender
from .authorization_server_client import (
    AuthorizationFailedError,
    AuthorizationServerClient,
    DiscoveredServer,
    TokenRefusedError,
    discover,
    parse_scopes,
    select_scopes,
)
from .token_endpoint import ClientAuthentication, GrantContext, Prover, TokenRequest
from .token_storage import Tokens, TokenStorage, default_storage

if TYPE_CHECKING:
    import httpx2

logger = logging.getLogger("mcpkit.client")

_REFRESH_AHEAD: Final = 30.0
"""Seconds before its expiry at which a token is renewed; less if it is valid for less than five minutes."""
_REFRESH_AHEAD_PART: Final = 0.1
_MAX_STEP_UPS: Final = 2
"""The most step-ups for the same operation and the same scopes."""
_MAX_CHALLENGES: Final = 3
"""The most step-ups for one request."""
_MAX_ATTEMPTS: Final = 6
"""The most attempts of one request, whatever challenges the server sends."""
_SCHEMES: Final = frozenset({"bearer", "dpop"})


class Authorization(ABC):
    """Base class of the ways to obtain tokens for protected servers, one subclass for each kind of grant.

    One object may serve several clients, servers and event loops. Clients of the same server share its tokens.

    Args:
        scopes: The scopes to request. None takes those that the server names. Scopes of a challenge are added.
        storage: The storage of the tokens. None takes the system keyring if there is one, and memory otherwise.
        issuer: The only authorization server that may issue tokens. None takes the one that the server names.
        dpop: Whether tokens are bound to a key of the client (DPoP, RFC 9449).
        accept_plain_http: Whether servers and authorization servers on other machines may have URLs with `http`, as in
            a cluster. Everything in between can then read the tokens.

    Attributes:
        scopes: The scopes to request, or None.
        storage: The storage of the tokens.
        issuer: The only authorization server that may issue tokens, or None.
        accepts_http: Whether URLs with `http` are accepted for other machines.

    Raises:
        TypeError: `scopes` is a string.
        ValueError: `issuer` is not a URL with `https`.
    """

    is_interactive: ClassVar[bool] = False
    """Whether a user takes part. The client starts no login before the server has responded with a challenge."""

    def __init__(
        self,
        *,
        scopes: Iterable[str] | None = None,
        storage: TokenStorage | None = None,
        issuer: str | None = None,
        dpop: bool = False,
        accept_plain_http: bool = False,
    ) -> None:
        if isinstance(scopes, str):
            raise TypeError(f"scopes= must be a list of scopes, not a string. Write {scopes.split()!r}")
        self.scopes = None if scopes is None else tuple(scopes)
        self.storage = default_storage() if storage is None else storage
        self.accepts_http = accept_plain_http
        self.issuer = None if issuer is None else check_url(issuer, "issuer=", accepts_http=accept_plain_http)
        warn_insecure_options(
            type(self).__name__, issuer or "servers", {"accept_plain_http": accept_plain_http}
        )
        self._dpop = dpop
        self._authorizers: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, ResourceAuthorizer]] = (
            WeakKeyDictionary()
        )

    @property
    def client(self) -> str:
        """The key that separates its tokens from those of other clients in the same storage."""
        return ""

    def authorizer(self, url: str) -> ResourceAuthorizer:
        """Return the object that adds tokens to requests to a server, for the running event loop.

        Args:
            url: The URL of the protected server.

        Raises:
            ValueError: The URL is not encrypted, so that no token may be sent to it.
        """
        try:
            what = "the URL of the protected server"
            server = canonical(check_url(url, what, accepts_http=self.accepts_http))
        except MetadataError as error:
            raise ValueError(str(error)) from None
        authorizers = self._authorizers.setdefault(asyncio.get_running_loop(), {})
        if server not in authorizers:
            authorizers[server] = ResourceAuthorizer(self, server)
        return authorizers[server]

    def prover(self, key: Json | None) -> Prover | None:
        """Return the DPoP prover for the tokens; None for bearer tokens.

        Args:
            key: The private key, as a JWK, that tokens are bound to already. None makes a new one.
        """
        return None if key is None and not self._dpop else Prover(key)

    @abstractmethod
    async def obtain(self, context: GrantContext) -> Tokens:
        """Obtain tokens. For each server it is called once at a time.

        Args:
            context: The server, its authorization server and the scopes to request.

        Returns:
            The tokens.

        Raises:
            AuthorizationFailedError: No token could be obtained.
            MetadataError: The metadata of the authorization server cannot be used.
        """

    async def authentication(self, context: GrantContext, tokens: Tokens) -> ClientAuthentication | None:
        """Return the client authentication for refreshing tokens; None if tokens are obtained anew instead.

        Args:
            context: The server and its authorization server.
            tokens: The tokens to refresh.
        """
        return None


async def revoke(authorization: Authorization, http: AuthorizationServerClient, tokens: Tokens) -> bool:
    """Revoke tokens at the authorization server that issued them (RFC 7009).

    Args:
        authorization: The authorization that obtained them; it authenticates the client.
        http: Sends requests.
        tokens: The tokens.

    Returns:
        Whether they are revoked; False if the authorization server does not support revocation.

    Raises:
        AuthorizationFailedError: The authorization server cannot be reached, or refused.
        MetadataError: Its metadata cannot be used.
    """
    found = await discover(http, tokens.resource, issuer=tokens.issuer)
    server = found.server
    if not server.has("revocation_endpoint"):
        return False
    context = GrantContext(tokens.resource, found.resource, server, None, http)
    authentication = await authorization.authentication(context, tokens)
    if authentication is None or authentication.client_id != tokens.client_id:
        return False  # only the client that has obtained the tokens may revoke them
    what = f"the revocation endpoint of {shortened(server.issuer)}"
    # Authorization servers usually revoke the access tokens with the refresh token.
    for kind, token in (("refresh_token", tokens.refresh_token), ("access_token", tokens.access_token)):
        if token is None:
            continue
        form = {"token": token, "token_type_hint": kind}
        request = TokenRequest(server.endpoint("revocation_endpoint"), form)
        await authentication.sign(request, server)
        response = await http.post(request.url, what, form=request.form, headers=request.headers)
        if response.status != 200 and response.members.get("error") != "unsupported_token_type":
            raise AuthorizationFailedError(f"{what} responded with HTTP {response.status}")
    return True


class ResourceAuthorizer:
    """Holds the tokens for one server, shared by all clients in one event loop.

    Args:
        authorization: Obtains and stores the tokens.
        url: The URL of the server, in canonical form.

    Attributes:
        renewed: Called each time when requests carry another token from now on.
        tokens: The tokens; None if there are none.
        url: The URL of the server.
    """

    def __init__(self, authorization: Authorization, url: str) -> None:
        self.renewed: Listeners[[]] = Listeners()
        self.tokens: Tokens | None = None
        self.url = url
        self._authorization = authorization
        self._is_loaded = False
        self._server: DiscoveredServer | None = None
        self._metadata_url: str | None = None
        self._refused_refresh_token: str | None = None
        self._prover: Prover | None = None
        self._requested_scopes: tuple[str, ...] = ()
        self._refresh_ahead = _REFRESH_AHEAD
        self._step_ups: Counter[tuple[str, frozenset[str]]] = Counter()
        self._renewal: asyncio.Task[None] | None = None
        self._is_silent = False  # whether the renewal takes place without the user
        self._waiting = 0

    @property
    def secrets(self) -> tuple[str, ...]:
        """The current tokens."""
        tokens = self.tokens
        return () if tokens is None else (tokens.access_token, tokens.refresh_token or "")

    @property
    def is_busy(self) -> bool:
        """True while tokens are being obtained."""
        return self._renewal is not None

    @property
    def origin(self) -> str:
        """The origin of the server."""
        return origin(self.url)

    # Requests

    async def send(
        self,
        http: HttpSender,
        send: Callable[[Pairs], Awaitable[httpx2.Response]],
        method: str,
        url: str,
        content: bytes,
        *,
        may_ask: bool,
    ) -> httpx2.Response:
        """Send a request with its token, and again after handling a challenge; see `Authorizer.send`."""
        attempt = TokenAttempt(self, http, _operation(method, content), may_ask)
        for number in range(1, _MAX_ATTEMPTS + 1):
            try:
                tokens = await self.current(http)
            except AuthorizationFailedError as error:
                raise _public_error(error, self.origin, 401, "") from error
            response = await send([] if tokens is None else self._headers(tokens, method, url))
            nonce = response.headers.get("dpop-nonce")
            if nonce is not None and self._prover is not None:
                self._prover.set_nonce(url, nonce)
            if response.status_code not in {401, 403} or number == _MAX_ATTEMPTS:
                return response
            try:
                if not await attempt.handle_challenge(response, tokens, has_nonce=nonce is not None):
                    return response
            except BaseException:
                await response.aclose()
                raise
            await response.aclose()
        raise AssertionError("the last attempt returns its response")

    async def current(self, http: HttpSender) -> Tokens | None:
        """Return the tokens, after refreshing them if they expire soon and no user is needed."""
        if not self._is_loaded:
            stored = await self._load()
            if not self._is_loaded:
                self._is_loaded = True
                self._set(stored)
        tokens, is_interactive = self.tokens, self._authorization.is_interactive
        if tokens is None or tokens.expires is None or tokens.expires - time.time() >= self._refresh_ahead:
            return tokens
        if tokens.refresh_token is None and is_interactive:
            return tokens  # the server sends a challenge once it does not accept them any more
        try:
            await self.renew(http, tokens)
        except AuthorizationFailedError as error:
            if _has_expired(tokens) and (error.may_pass or not is_interactive):
                raise
            return tokens  # the server refuses them if they are not valid, and then the user can log in
        return self.tokens

    def _headers(self, tokens: Tokens, method: str, url: str) -> Pairs:
        """Return the headers that carry a token."""
        token = tokens.access_token
        pairs: Pairs = [(b"Authorization", f"{tokens.token_type} {token}".encode("latin-1"))]
        if tokens.token_type == "DPoP" and self._prover is not None:
            pairs.append((b"DPoP", self._prover.proof(method, url, token).encode("ascii")))
        return pairs

    # Renewal

    def begin_step_up(self, operation: str, scopes: frozenset[str]) -> bool:
        """Count a request for more scopes, and return whether it is allowed."""
        self._step_ups[operation, scopes] += 1
        return self._step_ups[operation, scopes] <= _MAX_STEP_UPS

    async def renew(
        self,
        http: HttpSender,
        insufficient: Tokens | None,
        challenge: Challenge | None = None,
        scopes: Iterable[str] = (),
        begins: Callable[[], object] | None = None,
    ) -> None:
        """Obtain other tokens. One task does so at a time; others wait for it and check its tokens.

        Args:
            http: The client that provides the HTTP settings.
            insufficient: The tokens that are not sufficient.
            challenge: The challenge of the server. None if it sent none; then no user is involved.
            scopes: The scopes that are required and not granted.
            begins: Called before this task obtains tokens itself. It may raise an error.

        Raises:
            AuthorizationFailedError: No token could be obtained.
        """
        needed = frozenset(scopes)
        while True:
            task, is_own = self._renewal, self._renewal is None
            is_silent = self._is_silent
            if task is None:
                if begins is not None:
                    begins()
                task = self._renewal = asyncio.get_running_loop().create_task(
                    self._renew(http, insufficient, challenge, needed), name="mcpkit-authorization"
                )
                self._is_silent = challenge is None
                task.add_done_callback(self._renewal_done)
            try:
                await self._wait_for(task)
            except AuthorizationFailedError:
                if is_own or not is_silent or challenge is None:
                    raise
                continue  # it took place without the user, who is involved now
            tokens = self.tokens
            if is_own or (tokens is not None and tokens != insufficient and tokens.scopes >= needed):
                return

    async def _wait_for(self, task: asyncio.Task[None]) -> None:
        self._waiting += 1
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():
                message = "the client that was getting the token was closed. Try again"
                raise AuthorizationFailedError(message, may_pass=True) from None
            raise
        finally:
            self._waiting -= 1
            if not self._waiting:
                task.cancel()  # all callers have been cancelled

    def _renewal_done(self, task: asyncio.Task[None]) -> None:
        self._renewal = None
        if not task.cancelled():
            task.exception()  # the waiting callers raise it

    async def _renew(
        self,
        http: HttpSender,
        insufficient: Tokens | None,
        challenge: Challenge | None,
        needed: frozenset[str],
    ) -> None:
        authorization = self._authorization
        server_client = AuthorizationServerClient(
            http.for_others(), self.url, http.own_headers, accepts_http=authorization.accepts_http
        )
        try:
            async with authorization.storage.refresh_lock(self.url, authorization.client):
                stored = await self._load() or self.tokens
                is_other = stored is not None and stored != insufficient and not _has_expired(stored)
                if stored is not None and is_other and stored.scopes >= needed:
                    self._set(stored)  # another process has renewed them
                    return
                tokens = await self._request(server_client, stored, challenge, needed)
                try:
                    await authorization.storage.set_tokens(tokens, authorization.client)
                except OSError as error:
                    logger.warning(
                        "cannot store the tokens for %s, so they are lost when this process ends: %s",
                        self.origin,
                        error,
                    )
        except (MetadataError, OSError) as error:  # the latter of the storage
            raise AuthorizationFailedError(str(error)) from error
        self._set(tokens)
        if tokens.expires is not None:
            lifetime = tokens.expires - time.time()
            self._refresh_ahead = min(_REFRESH_AHEAD, _REFRESH_AHEAD_PART * lifetime)

    async def _request(
        self,
        http: AuthorizationServerClient,
        stored: Tokens | None,
        challenge: Challenge | None,
        needed: frozenset[str],
    ) -> Tokens:
        """Refresh the stored tokens, or obtain others."""
        authorization, server = self._authorization, self._server
        if challenge is not None:
            self._metadata_url = challenge.parameters.get("resource_metadata", self._metadata_url)
        if challenge is not None or server is None:
            issuer = None if stored is None else stored.issuer
            server = await discover(http, self.url, self._metadata_url, authorization.issuer, issuer)
        if stored is not None and stored.issuer != server.server.issuer:
            stored = None  # the server does not name their issuer any more
        tokens = None if stored is None or needed else await self._refresh(http, stored, server)
        if tokens is None:
            if challenge is None and (authorization.is_interactive or stored is None):
                raise AuthorizationFailedError("the token could not be refreshed. Log in again")
            scope = None if challenge is None else challenge.parameters.get("scope")
            scopes = select_scopes(
                server.server,
                chosen=authorization.scopes,
                challenged=(*parse_scopes(scope), *sorted(needed)),
                published=server.scopes,
                earlier=(*self._requested_scopes, *(() if stored is None else sorted(stored.scopes))),
                wants_refresh=authorization.is_interactive,
            )
            tokens = await authorization.obtain(self._context(http, server, scopes, stored))
            self._requested_scopes = scopes or ()
        self._server = server
        return tokens

    async def _refresh(
        self, http: AuthorizationServerClient, stored: Tokens, server: DiscoveredServer
    ) -> Tokens | None:
        """Return new tokens for the refresh token; None if there is no valid one."""
        if stored.refresh_token is None or stored.refresh_token == self._refused_refresh_token:
            return None
        context = self._context(http, server, None, stored)
        authentication = await self._authorization.authentication(context, stored)
        if authentication is None or authentication.client_id != stored.client_id:
            return None
        form = {"grant_type": "refresh_token", "refresh_token": stored.refresh_token, "scope": ""}
        try:
            tokens = await context.tokens(form, authentication)
        except TokenRefusedError as error:
            if error.may_pass:
                raise
            self._refused_refresh_token = stored.refresh_token
            logger.debug(
                "the tokens for %s could not be refreshed, so the client needs a new authorization: %s",
                self.origin,
                error,
            )
            return None
        refresh_token, scopes = tokens.refresh_token or stored.refresh_token, tokens.scopes or stored.scopes
        return replace(tokens, refresh_token=refresh_token, scopes=scopes)

    def _context(
        self,
        http: AuthorizationServerClient,
        server: DiscoveredServer,
        scopes: tuple[str, ...] | None,
        stored: Tokens | None,
    ) -> GrantContext:
        if self._prover is None:
            self._prover = self._authorization.prover(None if stored is None else stored.proof_key)
        published = server.scopes or ()
        return GrantContext(self.url, server.resource, server.server, scopes, http, published, self._prover)

    def _set(self, tokens: Tokens | None) -> None:
        """Use tokens for the following requests."""
        previous, self.tokens = self.tokens, tokens
        if tokens is None:
            return
        if tokens.proof_key is not None and (self._prover is None or self._prover.key != tokens.proof_key):
            self._prover = self._authorization.prover(tokens.proof_key)
        if previous is None or previous.access_token != tokens.access_token:
            self.renewed.notify()

    async def _load(self) -> Tokens | None:
        try:
            return await self._authorization.storage.get_tokens(self.url, self._authorization.client)
        except OSError as error:
            raise AuthorizationFailedError(str(error)) from error


@dataclass(eq=False)
class TokenAttempt:
    """The authorization of one request, which may be sent several times.

    Args:
        authorizer: Holds the tokens.
        http: The client that sends the request.
        operation: The operation of the request: its method, and the name of its tool or prompt.
        may_ask: Whether a user may be involved.
    """

    authorizer: ResourceAuthorizer
    http: HttpSender
    operation: str
    may_ask: bool
    _has_renewed: bool = False
    _has_used_nonce: bool = False
    _step_ups: list[frozenset[str]] = field(default_factory=list[frozenset[str]])

    async def handle_challenge(
        self, response: httpx2.Response, sent: Tokens | None, *, has_nonce: bool
    ) -> bool:
        """Handle a response with the status 401 or 403, and return whether to send the request again.

        Args:
            response: The response.
            sent: The tokens of the request.
            has_nonce: Whether the response has a nonce for further DPoP proofs.

        Raises:
            AuthorizationError: No sufficient token could be obtained.
            TransportError: The authorization server could not be reached.
        """
        values = [
            without_credentials(text, response) for text in response.headers.get_list("www-authenticate")
        ]
        found = next((each for each in read_challenges(values) if each.scheme.lower() in _SCHEMES), None)
        error = None if found is None else found.parameters.get("error")
        if has_nonce and error == "use_dpop_nonce" and not self._has_used_nonce:
            self._has_used_nonce = True
            return True
        try:
            if response.status_code == 401:
                await self._renew(found or Challenge("Bearer", {}), sent)
                return True
            if found is None or error != "insufficient_scope" or not self.may_ask:
                return False
            needed = frozenset(parse_scopes(found.parameters.get("scope")))
            if needed:
                await self._step_up(found, sent, needed)
            return bool(needed)
        except AuthorizationFailedError as failure:
            text, status = ", ".join(values), response.status_code
            raise _public_error(failure, self.authorizer.origin, status, text) from failure

    async def _renew(self, challenge: Challenge, sent: Tokens | None) -> None:
        authorizer = self.authorizer
        if sent != authorizer.tokens:
            return  # another request has renewed them
        if self._has_renewed:
            issuer = "" if sent is None else f" by {shortened(sent.issuer)}"
            raise AuthorizationFailedError(
                f"{authorizer.origin} rejected the access token that was just issued{issuer}"
                f"{_description(challenge)}. Check the audience that the server expects, and its clock"
            )
        self._has_renewed = True
        await authorizer.renew(self.http, sent, challenge if self.may_ask else None)

    async def _step_up(self, challenge: Challenge, sent: Tokens | None, needed: frozenset[str]) -> None:
        """Obtain tokens with more scopes. A function may need more of them while it runs than when it begins."""
        authorizer, current = self.authorizer, self.authorizer.tokens
        if current is not None and current != sent and current.scopes >= needed:
            return  # another request has obtained them
        granted = frozenset[str]() if sent is None else sent.scopes
        was_requested = needed <= granted or needed <= frozenset[str]().union(*self._step_ups)
        is_over = was_requested or len(self._step_ups) == _MAX_CHALLENGES

        def begins() -> None:
            if is_over or not authorizer.begin_step_up(self.operation, needed):
                raise AuthorizationFailedError(
                    f"{authorizer.origin} requires the scopes {_listed(needed)} for this operation"
                    f"{_description(challenge)}. The token has {_listed(granted)}, and the authorization server did not"
                    " grant more. Allow them there, and log in again"
                )

        await authorizer.renew(self.http, sent, challenge, needed, begins)
        self._step_ups.append(needed)


def _operation(http_method: str, content: bytes) -> str:
    """Return the operation of a request, for counting step-ups."""
    try:
        message = jsonrpc.decode(content) if content else None
    except ProtocolError:
        return http_method
    if not is_object(message) or not isinstance(method := message.get("method"), str):
        return http_method
    params = message.get("params")
    name = params.get(NAMED_BY.get(method, "")) if is_object(params) else None
    return f"{method} {name}" if isinstance(name, str) else method


def _description(challenge: Challenge) -> str:
    """Return the error description of a challenge in parentheses, or an empty string."""
    description = challenge.parameters.get("error_description")
    return f" ({shortened(description)})" if description else ""


def _listed(scopes: Iterable[str]) -> str:
    return ", ".join(map(shortened, sorted(scopes))) or "nothing"


def _has_expired(tokens: Tokens) -> bool:
    return tokens.expires is not None and tokens.expires <= time.time()


def _public_error(
    error: AuthorizationFailedError, server: str, status: int, challenge: str
) -> TransportError:
    """Return the error for the caller of the request."""
    message = f"cannot get an access token for {server}: {error}"
    if error.may_pass:
        return TransportError(message, may_have_begun=False)
    return AuthorizationError(message, status, challenge)
