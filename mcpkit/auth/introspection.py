"""Access tokens that only their issuer can read: it is asked what they are (RFC 7662)."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import logging
import math
import re
import time
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import quote_plus, urlencode
from weakref import WeakKeyDictionary

from ..common.numbers import check_seconds
from ..state.meter import fetching
from ..state.principal import Principal
from .audiences import AudienceCheck
from .claims import (
    ISSUER,
    ISSUER_ADVICE,
    check_required,
    checked_requirements,
    kept_claims,
    name_in,
    principal_of,
    scopes_of,
    times_of,
)
from .fetching import PATIENCE, FetchError, body_of, failure, members_of, own_client
from .issuer_metadata import IssuerMetadata
from .jws import MAX_TOKEN
from .jwt import LEEWAY
from .libraries import http_library
from .one_at_a_time import OneAtATime
from .published_keys import RETRY
from .urls import MetadataError, check_url
from .verifier import Grant, InvalidTokenError, TokenVerifier, VerifierUnavailableError

if TYPE_CHECKING:
    import httpx2

FRESH = 30.0
"""Seconds after which the issuer is asked again about a token."""

_TOKEN = re.compile(r"[\x21-\x7E]+")
_INACTIVE: Final = "the token is not active"
_KIND: Final = "the token is no bearer token (token_type)"

logger = logging.getLogger("mcpkit")


class Introspection(TokenVerifier):
    """Verifies tokens by asking their issuer: `auth=Introspection("https://id.example.com", client_id=...)`.

    It is asked again about a token after 30 seconds, so that one that is revoked does not hold for longer.
    What it answers is held to what a JWT is held to: `active`, `aud`, `iss`, `exp`, `nbf`, and the token is a bearer
    token.

    Args:
        issuer: The issuer's URL, as its metadata has it.
        client_id: This server's own client at the issuer.
        client_secret: Its secret.
        endpoint: Where to ask; None for what the metadata says (`introspection_endpoint`).
        authentication: How this server says who it is: by the header `Authorization`, or in the form that it posts.
        audience: What tokens must be for; a list where each of several will do. None for the URL of the endpoint that
            is asked, as the specification wants it.
        scope_claims: The members that hold scopes, as one text or as a list.
        client_claims: The members of which the first one names the client.
        required: What else must be answered: names that must be there, or a mapping of them to the value, or a list of
            values, of which one it must be.
        claims: Names of members that `Principal.claims` has whatever their size; others it has up to 1,024 characters.
        fresh: Seconds after which the issuer is asked again about a token.
        leeway: Seconds by which the clocks of issuer and server may differ.
        timeout: Seconds in which the issuer must have answered.
        http_client: A client of your own to ask with, which says all about TLS and proxies, and is not closed.
        accept_tokens_for_any_audience: Whether `aud` is not looked at, which an issuer need not answer: then every API
            that trusts the issuer can use the tokens that it gets here, and be used with those that it gives away.
        clock: The time in Unix seconds.

    Attributes:
        issuer: The issuer.
        open_clients: The connections of each event loop.

    Raises:
        TypeError: An argument is of another type.
        ValueError: The issuer is no URL of https, or an argument cannot be used; the message says what to change.
        ImportError: What authorization needs is not installed: `pip install "mcpkit[auth]"`.
    """

    def __init__(
        self,
        issuer: str,
        *,
        client_id: str,
        client_secret: str,
        endpoint: str | None = None,
        authentication: Literal["basic", "post"] = "basic",
        audience: str | Collection[str] | None = None,
        scope_claims: Collection[str] = ("scope", "scp"),
        client_claims: Collection[str] = ("client_id", "azp", "cid"),
        required: Collection[str] | Mapping[str, object] = (),
        claims: Collection[str] = (),
        fresh: float = FRESH,
        leeway: float = LEEWAY,
        timeout: float = PATIENCE,
        http_client: httpx2.AsyncClient | None = None,
        accept_tokens_for_any_audience: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        http_library()
        check_seconds("fresh", fresh)
        check_seconds("leeway", leeway, may_be_zero=True)
        check_seconds("timeout", timeout)
        for name, value in (("client_id", client_id), ("client_secret", client_secret)):
            _check_text(name, value)
        if authentication not in {"basic", "post"}:
            raise ValueError(f'authentication must be "basic" or "post", got {authentication!r}')
        self._audience = AudienceCheck(audience, accept_tokens_for_any_audience)
        self.issuer = issuer
        self.issuers = (issuer,)
        self._metadata = IssuerMetadata(issuer, timeout=timeout, http_client=http_client, clock=clock)
        self._given_endpoint = None if endpoint is None else check_url(endpoint, "endpoint")
        self._client = (client_id, client_secret)
        self._is_basic = authentication == "basic"
        self._scope_claims = tuple(scope_claims)
        self._client_claims = tuple(client_claims)
        self._required = checked_requirements(required)
        self._claims = frozenset(claims)
        self._fresh = fresh
        self._leeway = leeway
        self._timeout = timeout
        self._http_client = http_client
        self._clock = clock
        self._questions: OneAtATime[dict[str, object]] = OneAtATime(timeout * (self._metadata.places + 3))
        self._searches: OneAtATime[str] = OneAtATime(timeout * (self._metadata.places + 1))
        self._next_search = -math.inf
        self.open_clients: WeakKeyDictionary[asyncio.AbstractEventLoop, httpx2.AsyncClient] = (
            WeakKeyDictionary()
        )
        self._failure: str | None = None

    async def verify(self, token: str, audience: str) -> Grant:
        """Return what a token grants, as its issuer says now.

        Raises:
            InvalidTokenError: It is none of this issuer's for this audience, now.
            VerifierUnavailableError: The issuer does not answer, or does not answer this server.
        """
        if len(token) > MAX_TOKEN or not _TOKEN.fullmatch(token):
            raise InvalidTokenError(_INACTIVE)
        asked = self._clock()
        digest = hashlib.sha256(token.encode("ascii")).digest()
        claims = await self._questions.wait(digest, lambda: self._asked(token))
        if claims.get("active") is not True:
            raise InvalidTokenError(_INACTIVE)
        if claims.get("iss", self.issuer) != self.issuer:
            raise InvalidTokenError(ISSUER, advice=ISSUER_ADVICE % self.issuer)
        kind = claims.get("token_type")
        if kind is not None and not (isinstance(kind, str) and kind.lower() == "bearer"):
            raise InvalidTokenError(_KIND)
        expires, issued = times_of(claims, self._clock(), self._leeway)
        self._audience.check(claims, audience)
        check_required(claims, self._required)
        return Grant(self.principal(claims), expires, issued, asked + self._fresh)

    def principal(self, claims: Mapping[str, object]) -> Principal:
        """Return whom a token is of; a subclass may know the ways of its issuer better.

        Args:
            claims: What the issuer has answered.

        Raises:
            InvalidTokenError: It does not say.
        """
        return principal_of(
            self.issuer,
            name_in(claims, "sub"),
            name_in(claims, *self._client_claims),
            scopes_of(claims, self._scope_claims),
            kept_claims(claims, self._claims),
        )

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        await self._questions.aclose()
        await self._searches.aclose()
        client = self.open_clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.aclose()

    async def _asked(self, token: str) -> dict[str, object]:
        try:
            url = self._given_endpoint or await self._searches.wait(None, self._found)
            with fetching("introspection"):
                claims = await asyncio.wait_for(self._answer(url, token), self._timeout)
        except asyncio.TimeoutError:
            raise self._failed(f"{self.issuer} has not answered within {self._timeout:g} s") from None
        except (FetchError, MetadataError) as error:
            if not (isinstance(error, FetchError) and error.may_pass):
                self._metadata.forget()
            raise self._failed(str(error)) from None
        if self._failure is not None:
            logger.info("%s answers again", self.issuer)
            self._failure = None
        return claims

    async def _found(self) -> str:
        """Return where to ask; an issuer that has not said so is left alone for a moment, however many tokens come.

        Raises:
            FetchError: It does not say so, or did not a moment ago.
            MetadataError: What it says cannot be used.
        """
        if self._clock() < self._next_search and self._failure is not None:
            raise FetchError(self._failure)
        self._next_search = self._clock() + RETRY
        url = await self._metadata.endpoint("introspection_endpoint")
        self._next_search = -math.inf
        return url

    def _failed(self, message: str) -> VerifierUnavailableError:
        if message != self._failure:
            logger.warning("Cannot ask about tokens, and none can be verified: %s", message)
        self._failure = message
        return VerifierUnavailableError(message)

    async def _answer(self, url: str, token: str) -> dict[str, object]:
        """Ask; where a connection has broken that was kept too long, once more.

        Raises:
            FetchError: There is no answer, or none that says anything of a token.
        """
        import httpx2

        what = f"introspection at {self.issuer}"
        client = self._http_client or self._own_client(url)
        if client.is_closed:
            raise FetchError(f"{what}: the http_client that was given has been closed")
        for is_last in (False, True):
            try:
                return await self._posted(client, url, token, what)
            except (httpx2.RemoteProtocolError, httpx2.ReadError, httpx2.WriteError) as error:
                if is_last:
                    raise FetchError(f"{what}: {failure(error, url)}") from None
            except (httpx2.HTTPError, OSError) as error:
                raise FetchError(f"{what}: {failure(error, url)}") from None
        raise AssertionError

    async def _posted(self, client: httpx2.AsyncClient, url: str, token: str, what: str) -> dict[str, object]:
        form = {"token": token, "token_type_hint": "access_token"}
        headers = {
            "Accept": "application/json",
            "Accept-Encoding": "gzip, deflate",
            "Content-Type": "application/x-www-form-urlencoded",
        }
        if self._is_basic:  # each in the encoding of forms first (RFC 6749, 2.3.1)
            pair = ":".join(map(quote_plus, self._client)).encode()
            headers["Authorization"] = f"Basic {base64.b64encode(pair).decode()}"
        else:
            form["client_id"], form["client_secret"] = self._client
        async with client.stream(
            "POST", url, content=urlencode(form).encode(), headers=headers, follow_redirects=False
        ) as response:
            status = response.status_code
            if status in {400, 401, 403}:
                raise FetchError(
                    f"{what}: {url} has answered {status}: look at client_id, client_secret and authentication, and "
                    "whether the issuer lets this client ask",
                    status=status,
                )
            if status != 200:
                raise FetchError(f"{what}: {url} has answered {status}", status=status)
            return members_of(response, await body_of(response, url, what), url, what)

    def _own_client(self, url: str) -> httpx2.AsyncClient:
        loop = asyncio.get_running_loop()
        client = self.open_clients.get(loop)
        if client is None:
            client = self.open_clients[loop] = own_client(url)
        return client


def _check_text(name: str, value: object) -> None:
    if not isinstance(value, str) or not value:
        raise TypeError(f"{name} must be a text, as the issuer has registered this server")
