"""Adds the tokens for one server to requests, and renews them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from ..._utils.concurrency import Listeners
from ..._utils.exceptions import AuthorizationError, TokenStorageError, TransportError
from ...auth.urls import MetadataError, origin, shortened
from ..http.request_authorization import Challenge, ChallengeResponse, HttpSender, Pairs
from .errors import AuthorizationFailedError, TokenRefusedError
from .grant_context import GrantContext
from .metadata import Found, find
from .roles import Prover
from .scopes import scopes_of, wanted_scopes
from .source import Source
from .tokens import Tokens
from .web import Web

logger = logging.getLogger("mcpkit.client")

_MARGIN: Final = 30.0
"""Seconds before its expiry at which a token is renewed; less if it is valid for less than five minutes."""
_PART: Final = 0.1
_MOST_STEP_UPS: Final = 2
"""The most step-ups for the same operation and the same scopes."""
_MOST_CHALLENGES: Final = 3
"""The most step-ups for one request."""
_SCHEMES: Final = frozenset({"bearer", "dpop"})


class ResourceAuthorizer:
    """Holds the tokens for one server, shared by all clients in one event loop.

    Args:
        source: Obtains and stores the tokens.
        url: The URL of the server, in canonical form.

    Attributes:
        renewed: Called each time when requests carry another token from now on.
        tokens: The tokens; None if there are none.
        url: The URL of the server.
    """

    def __init__(self, source: Source, url: str) -> None:
        self.renewed: Listeners[[]] = Listeners()
        self.tokens: Tokens | None = None
        self.url = url
        self._source = source
        self._is_loaded = False
        self._found: Found | None = None
        self._named: str | None = None
        self._spent: str | None = None  # the refresh token that was refused
        self._prover: Prover | None = None
        self._asked: tuple[str, ...] = ()
        self._margin = _MARGIN
        self._step_ups: Counter[tuple[str, frozenset[str]]] = Counter()
        self._renewal: asyncio.Task[None] | None = None
        self._is_silent = False
        self._waiting = 0

    @property
    def secrets(self) -> tuple[str, ...]:
        """The current tokens."""
        tokens = self.tokens
        return () if tokens is None else (tokens.access_token, tokens.refresh_token or "")

    @property
    def is_busy(self) -> bool:
        """Whether tokens are being obtained."""
        return self._renewal is not None

    @property
    def origin(self) -> str:
        """The origin of the server."""
        return origin(self.url)

    def attempt(self, http: HttpSender, *, may_ask: bool = True) -> TokenAttempt:
        """Return the authorization of one request."""
        return TokenAttempt(self, http, may_ask=may_ask)

    # What goes along

    async def current(self, http: HttpSender) -> Tokens | None:
        """Return the tokens, after refreshing them if they expire soon and no user is needed."""
        if not self._is_loaded:
            kept = await self._kept()
            if not self._is_loaded:
                self._is_loaded = True
                self._take(kept)
        tokens = self.tokens
        if tokens is None or not self._ends_soon(tokens):
            return tokens
        if tokens.refresh_token is None and self._source.is_interactive:
            return tokens  # the server says when it is good no more
        try:
            await self.renew(http, tokens)
        except AuthorizationFailedError as error:
            if _has_ended(tokens) and (error.may_pass or not self._source.is_interactive):
                raise
            return tokens  # which the server refuses, where it is good no more, and then the user is asked
        return self.tokens

    def headers(self, tokens: Tokens, method: str, url: str) -> Pairs:
        """Return the headers that carry a token."""
        token = tokens.access_token
        pairs: Pairs = [(b"Authorization", f"{tokens.token_type} {token}".encode("latin-1"))]
        if tokens.token_type == "DPoP" and self._prover is not None:
            pairs.append((b"DPoP", self._prover.proof(method, url, token).encode("ascii")))
        return pairs

    def set_nonce(self, url: str, nonce: str) -> None:
        """Store a nonce for further DPoP proofs."""
        if self._prover is not None:
            self._prover.set_nonce(url, nonce)

    def _ends_soon(self, tokens: Tokens) -> bool:
        return tokens.expires is not None and tokens.expires - time.time() < self._margin

    # How there come to be others

    def begin_step_up(self, operation: str, scopes: frozenset[str]) -> bool:
        """Count a request for more scopes, and return whether it is allowed."""
        self._step_ups[operation, scopes] += 1
        return self._step_ups[operation, scopes] <= _MOST_STEP_UPS

    async def renew(
        self,
        http: HttpSender,
        seen: Tokens | None,
        challenge: Challenge | None = None,
        scopes: Iterable[str] = (),
        begins: Callable[[], object] | None = None,
    ) -> None:
        """Obtain other tokens. One task does so at a time; others wait for it and check its tokens.

        Args:
            http: The client whose HTTP settings are used.
            seen: The tokens that are not sufficient.
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
                renewing = self._renew(http, seen, challenge, needed)
                task = self._renewal = asyncio.get_running_loop().create_task(
                    renewing, name="mcpkit-authorization"
                )
                self._is_silent = challenge is None
                task.add_done_callback(self._renewal_has_ended)
            try:
                await self._end_of(task)
            except AuthorizationFailedError:
                if is_own or not is_silent or challenge is None:
                    raise
                continue  # that was without the user, who is asked now
            tokens = self.tokens
            if is_own or (tokens is not None and tokens != seen and tokens.scopes >= needed):
                return

    async def _end_of(self, task: asyncio.Task[None]) -> None:
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
                task.cancel()  # nobody wants it any more

    def _renewal_has_ended(self, task: asyncio.Task[None]) -> None:
        self._renewal = None
        if not task.cancelled():
            task.exception()  # raised by those who wait

    async def _renew(
        self, http: HttpSender, seen: Tokens | None, challenge: Challenge | None, needed: frozenset[str]
    ) -> None:
        try:
            await self._renew_alone(http, seen, challenge, needed)
        except (MetadataError, TokenStorageError) as error:
            raise AuthorizationFailedError(str(error)) from None

    async def _renew_alone(
        self, http: HttpSender, seen: Tokens | None, challenge: Challenge | None, needed: frozenset[str]
    ) -> None:
        source = self._source
        web = Web(http.for_others(), self.url, http.own_headers, accepts_http=self._source.accepts_http)
        async with source.storage.refresh_lock(self.url, source.client):
            kept = await self._kept() or self.tokens
            if kept is not None and kept != seen and not _has_ended(kept) and kept.scopes >= needed:
                self._take(kept)  # another process has been quicker
                return
            found = self._found
            if challenge is not None or found is None:
                if challenge is not None:
                    self._named = challenge.parameters.get("resource_metadata", self._named)
                named = self._named
                found = await find(web, self.url, named, source.issuer, None if kept is None else kept.issuer)
            if kept is not None and kept.issuer != found.server.issuer:
                kept = None  # who has issued them is not asked any more
            tokens = None if kept is None or needed else await self._refreshed(kept, found, web)
            if tokens is None:
                if challenge is None and (source.is_interactive or kept is None):
                    raise AuthorizationFailedError("the token could not be refreshed. Log in again")
                tokens = await self._obtained(kept, found, web, challenge, needed)
            self._found = found
            await self._keep(tokens)
        self._take(tokens)
        if tokens.expires is not None:
            self._margin = min(_MARGIN, _PART * (tokens.expires - time.time()))

    async def _refreshed(self, kept: Tokens, found: Found, web: Web) -> Tokens | None:
        """Return new tokens for the refresh token; None if there is no valid one."""
        if kept.refresh_token is None or kept.refresh_token == self._spent:
            return None
        context = self._grant_context(found, web, None, self._prover_for(kept))
        authentication = await self._source.authentication(context, kept)
        if authentication is None or authentication.client_id != kept.client_id:
            return None
        form = {"grant_type": "refresh_token", "refresh_token": kept.refresh_token, "scope": ""}
        try:
            tokens = await context.tokens(form, authentication)
        except TokenRefusedError as error:
            if error.may_pass:
                raise
            self._spent = kept.refresh_token
            logger.debug(
                "the tokens for %s could not be refreshed, so the client needs a new authorization: %s",
                self.origin,
                error,
            )
            return None
        return replace(
            tokens,
            refresh_token=tokens.refresh_token or kept.refresh_token,
            scopes=tokens.scopes or kept.scopes,
        )

    async def _obtained(
        self, kept: Tokens | None, found: Found, web: Web, challenge: Challenge | None, needed: frozenset[str]
    ) -> Tokens:
        source = self._source
        asked = scopes_of(None if challenge is None else challenge.parameters.get("scope"))
        before = () if kept is None else sorted(kept.scopes)
        chosen = wanted_scopes(
            found.server,
            chosen=source.scopes,
            challenged=(*asked, *sorted(needed)),
            published=found.scopes,
            before=(*self._asked, *before),
            wants_refresh=source.is_interactive,
        )
        tokens = await source.obtain(self._grant_context(found, web, chosen, self._prover_for(kept)))
        self._asked = chosen or ()
        return tokens

    def _grant_context(
        self, found: Found, web: Web, scopes: tuple[str, ...] | None, prover: Prover | None
    ) -> GrantContext:
        return GrantContext(self.url, found.resource, found.server, scopes, web, found.scopes or (), prover)

    def _prover_for(self, tokens: Tokens | None) -> Prover | None:
        if self._prover is None:
            self._prover = self._source.prover(None if tokens is None else tokens.proof_key)
        return self._prover

    def _take(self, tokens: Tokens | None) -> None:
        before, self.tokens = self.tokens, tokens
        if tokens is not None and tokens.proof_key is not None:
            if self._prover is None or self._prover.key != tokens.proof_key:
                self._prover = None
            self._prover_for(tokens)
        if tokens is not None and (before is None or before.access_token != tokens.access_token):
            self.renewed.notify()

    # What is kept

    async def _kept(self) -> Tokens | None:
        try:
            return await self._source.storage.get_tokens(self.url, self._source.client)
        except OSError as error:
            raise AuthorizationFailedError(str(error)) from error

    async def _keep(self, tokens: Tokens) -> None:
        try:
            await self._source.storage.set_tokens(tokens, self._source.client)
        except OSError as error:
            logger.warning(
                "cannot store the tokens for %s, so they are lost when this process ends: %s",
                self.origin,
                error,
            )


class TokenAttempt:
    """The authorization of one request, which may be sent several times.

    Args:
        authorizer: Holds the tokens.
        http: The client that sends the request.
        may_ask: Whether a user may be involved.
    """

    def __init__(self, authorizer: ResourceAuthorizer, http: HttpSender, *, may_ask: bool) -> None:
        self._authorizer = authorizer
        self._http = http
        self._may_ask = may_ask
        self._sent: Tokens | None = None
        self._has_renewed = False
        self._asked_for: list[frozenset[str]] = []
        self._has_taken_nonce = False

    async def headers(self, method: str, url: str) -> Pairs:
        """Return the authorization headers."""
        try:
            self._sent = await self._authorizer.current(self._http)
        except AuthorizationFailedError as error:
            raise _as_error(error, self._authorizer.origin, 401, "") from error
        return [] if self._sent is None else self._authorizer.headers(self._sent, method, url)

    def set_nonce(self, url: str, nonce: str) -> None:
        """Store a nonce for further DPoP proofs."""
        self._authorizer.set_nonce(url, nonce)

    async def challenged(self, challenge: ChallengeResponse) -> bool:
        """Handle a challenge, and return whether to send the request again."""
        try:
            return await self._answered(challenge)
        except AuthorizationFailedError as error:
            raise _as_error(error, self._authorizer.origin, challenge.status, challenge.text) from error

    async def _answered(self, challenge: ChallengeResponse) -> bool:
        authorizer, sent = self._authorizer, self._sent
        asked = next((each for each in challenge.challenges if each.scheme.lower() in _SCHEMES), None)
        error = None if asked is None else asked.parameters.get("error")
        if challenge.nonce is not None:
            authorizer.set_nonce(authorizer.url, challenge.nonce)
            if error == "use_dpop_nonce" and not self._has_taken_nonce:
                self._has_taken_nonce = True
                return True
        if challenge.status == 401:
            return await self._renewed(sent, asked or Challenge("Bearer", {}))
        if asked is None or error != "insufficient_scope" or not self._may_ask:
            return False
        needed = frozenset(scopes_of(asked.parameters.get("scope")))
        return bool(needed) and await self._stepped_up(sent, asked, needed, challenge.operation)

    async def _renewed(self, sent: Tokens | None, asked: Challenge) -> bool:
        authorizer = self._authorizer
        if sent != authorizer.tokens:
            return True  # others have been quicker
        if self._has_renewed:
            issuer = "" if sent is None else f" by {shortened(sent.issuer)}"
            raise AuthorizationFailedError(
                f"{authorizer.origin} rejected the access token that was just issued{issuer}"
                f"{_said(asked)}. Check the audience that the server expects, and its clock"
            )
        self._has_renewed = True
        await authorizer.renew(self._http, sent, asked if self._may_ask else None)
        return True

    async def _stepped_up(
        self, sent: Tokens | None, asked: Challenge, needed: frozenset[str], operation: str
    ) -> bool:
        authorizer = self._authorizer
        current = authorizer.tokens
        if current != sent and current is not None and current.scopes >= needed:
            return True  # others have been quicker
        has_all = sent is not None and sent.scopes >= needed
        # A function may need more in its midst than to begin; what has been asked for already is in vain.
        before = self._asked_for
        is_in_vain = has_all or needed <= frozenset().union(*before) or len(before) == _MOST_CHALLENGES

        def begins() -> None:
            if is_in_vain or not authorizer.begin_step_up(operation, needed):
                granted = () if sent is None else sent.scopes
                raise AuthorizationFailedError(
                    f"{authorizer.origin} requires the scopes {_listed(needed)} for this operation{_said(asked)}. The "
                    f"token has {_listed(granted)}, and the authorization server did not grant more. Allow them there, "
                    "and log in again"
                )

        await authorizer.renew(self._http, sent, asked, needed, begins)
        self._asked_for.append(needed)
        return True


def _said(challenge: Challenge) -> str:
    """Return the error description of a challenge in parentheses, or an empty string."""
    description = challenge.parameters.get("error_description")
    return f" ({shortened(description)})" if description else ""


def _listed(scopes: Iterable[str]) -> str:
    return ", ".join(map(shortened, sorted(scopes))) or "nothing"


def _has_ended(tokens: Tokens) -> bool:
    return tokens.expires is not None and tokens.expires <= time.time()


def _as_error(error: AuthorizationFailedError, server: str, status: int, challenge: str) -> TransportError:
    """Return the error for the caller of the request."""
    message = f"cannot get an access token for {server}: {error}"
    if error.may_pass:
        return TransportError(message, may_have_begun=False)
    return AuthorizationError(message, status, challenge)
