"""Access tokens that only their issuer can read: it is asked what they are (RFC 7662)."""

from __future__ import annotations

import hashlib
import logging
import re
import time
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Final

from ..common.numbers import check_seconds
from ..state.meter import fetching
from ..state.principal import Principal
from .accepted import accepted, warn_of
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
from .client_secret import Authentication, ClientSecret, check_authentication, check_text
from .connections import Connections
from .fetching import PATIENCE, FetchError
from .issuer_metadata import IssuerMetadata
from .jws import MAX_TOKEN
from .jwt import LEEWAY
from .libraries import http_library
from .one_at_a_time import OneAtATime
from .urls import MetadataError, check_url
from .verifier import (
    AccessToken,
    InvalidTokenError,
    ProtectedResource,
    TokenVerifier,
    VerifierUnavailableError,
)

if TYPE_CHECKING:
    import httpx2

FRESH = 30.0
"""Seconds after which the issuer is asked again about a token."""

_TOKEN = re.compile(r"[\x21-\x7E]+")
_INACTIVE: Final = "the token is not active"
_KIND: Final = "the token is not a bearer token (token_type)"

logger = logging.getLogger(__name__)


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
        accept_plain_http: Whether issuer and endpoint may be at URLs of http on other machines, as in a cluster: then
            everything between can read the secret and the tokens, and answer in the place of the issuer.
        clock: The time in Unix seconds.

    Attributes:
        issuer: The issuer.
        connections: The connections to it.

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
        authentication: Authentication = "basic",
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
        accept_plain_http: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        http_library()
        check_seconds("fresh", fresh)
        check_seconds("leeway", leeway, may_be_zero=True)
        check_seconds("timeout", timeout)
        check_authentication(authentication)
        check_text("client_secret", client_secret)
        self._audience = AudienceCheck(audience, accept_tokens_for_any_audience)
        self.issuer = issuer
        self.issuers = (issuer,)
        self._metadata = IssuerMetadata(
            issuer, timeout=timeout, http_client=http_client, clock=clock, accepts_http=accept_plain_http
        )
        self._given_endpoint = (
            None if endpoint is None else check_url(endpoint, "endpoint", accepts_http=accept_plain_http)
        )
        self._accepted = accepted(
            accept_tokens_for_any_audience=accept_tokens_for_any_audience, accept_plain_http=accept_plain_http
        )
        self._client = ClientSecret(client_id, client_secret)
        self._authentication: Authentication = authentication
        self._scope_claims = tuple(scope_claims)
        self._client_claims = tuple(client_claims)
        self._required = checked_requirements(required)
        self._claims = frozenset(claims)
        self._fresh = fresh
        self._leeway = leeway
        self._clock = clock
        self._questions: OneAtATime[dict[str, object]] = OneAtATime(timeout * (self._metadata.places + 3))
        self.connections = Connections(http_client, timeout)
        self._failure: str | None = None

    def enter(self, site: ProtectedResource) -> None:
        """Warn of what is accepted that is refused otherwise."""
        warn_of(site.name, self.issuer, self._accepted)

    async def verify(self, token: str, audience: str) -> AccessToken:
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
        return AccessToken(self.principal(claims), expires, issued, asked + self._fresh)

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
        await self._metadata.aclose()
        await self.connections.aclose()

    async def _asked(self, token: str) -> dict[str, object]:
        try:
            url = self._given_endpoint or await self._metadata.endpoint("introspection_endpoint")
            with fetching("introspection"):
                claims = await self._answer(url, token)
        except (FetchError, MetadataError) as error:
            if not (isinstance(error, FetchError) and error.may_pass):
                self._metadata.forget()
            raise self._failed(str(error)) from None
        if self._failure is not None:
            logger.info("introspection at %s works again", self.issuer)
            self._failure = None
        return claims

    def _failed(self, message: str) -> VerifierUnavailableError:
        if message != self._failure:
            logger.warning("Token introspection failed, so no token can be verified: %s", message)
        self._failure = message
        return VerifierUnavailableError(message)

    async def _answer(self, url: str, token: str) -> dict[str, object]:
        """Ask.

        Raises:
            FetchError: There is no answer, or none that says anything of a token.
        """
        form = {
            "token": token,
            "token_type_hint": "access_token",
            **self._client.in_form(self._authentication),
        }
        what = f"introspection at {self.issuer}"
        answer = await self.connections.post(url, what, form, self._client.in_headers(self._authentication))
        if answer.status in {400, 401, 403}:
            raise FetchError(
                f"{what}: {url} responded with HTTP {answer.status}. Check client_id, client_secret and authentication,"
                " and whether the issuer allows introspection to this client",
                status=answer.status,
            )
        if answer.status != 200:
            raise FetchError(f"{what}: {url} responded with HTTP {answer.status}", status=answer.status)
        return answer.members()
