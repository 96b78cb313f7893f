"""Access tokens that are signed JWTs, of one issuer (RFC 9068)."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, TypeAlias, TypedDict

from ..common.numbers import check_seconds
from ..state.principal import Principal
from .accepted import accepted, warn_of
from .audiences import AudienceCheck, audiences_of
from .claims import (
    ID_TOKEN,
    ISSUER,
    ISSUER_ADVICE,
    OF_ID_TOKENS,
    TIMES,
    check_required,
    checked_requirements,
    kept_claims,
    name_in,
    principal_of,
    scopes_of,
    times_of,
)
from .discovery import authorization_server_urls
from .fetching import PATIENCE
from .jws import Jws, read_token
from .key_set import ALGORITHMS, KeySet, check_algorithms, given_keys
from .libraries import check_jose, http_library
from .published_keys import PublishedKeys
from .texts import texts_in
from .verifier import AccessToken, InvalidTokenError, ProtectedResource, TokenVerifier

if TYPE_CHECKING:
    import httpx2

    from ..protocol.types import Json

LEEWAY = 5.0
"""Seconds by which the clocks of issuer and server may differ."""
COOLDOWN = 10.0
"""Seconds in which keys are fetched at most once for tokens that name an unknown one."""

_ALGORITHM = "the signature algorithm of the token is not accepted (alg)"
_SIGNATURE = "no key of the issuer verifies the signature of the token"
_TYPE = "the type of the token is not accepted (typ)"


Audience: TypeAlias = "str | Collection[str] | None"
"""What tokens must be for; None for the URL of the endpoint."""


class JwtOptions(TypedDict, total=False):
    """What may be said of tokens beside the issuer and the audience; see `Jwt`."""

    algorithms: Collection[str]
    types: Collection[str]
    scope_claims: Collection[str]
    client_claims: Collection[str]
    required: Collection[str] | Mapping[str, object]
    claims: Collection[str]
    leeway: float
    keys: Json | str | bytes | list[Json | str | bytes] | None
    jwks_uri: str | None
    cooldown: float
    timeout: float
    http_client: httpx2.AsyncClient | None
    accept_plain_http: bool
    accept_id_tokens: bool
    clock: Callable[[], float]


class Jwt(TokenVerifier):
    """Verifies access tokens that are JWTs, signed by one issuer: `Server("notes", auth=Jwt("https://id.example.com"))`.

    A token is taken where the issuer has signed it with one of its published keys, by an algorithm of which the key
    that verifies cannot sign; where it is for this endpoint (`aud`), of this issuer (`iss`, to the byte), now (`exp`,
    which must be there, `nbf`, `iat`), and an access token: of the type `at+jwt` or `JWT`, and not an ID token, which
    is known by `nonce`, `at_hash`, `c_hash` or `s_hash`, or by being for the very client that has it.

    Keys are found by the issuer's metadata (RFC 8414, OpenID Connect Discovery 1.0), kept as their headers say, though
    for 5 minutes at least and a day at most, and renewed ahead of that. While the issuer does not answer they stay in
    use for another day; only then, or where there are none, tokens cannot be verified.

    Args:
        issuer: The issuer's URL, as tokens and metadata have it.
        audience: What tokens must be for; a list where each of several will do. None for the URL of the endpoint that
            is asked, as the specification wants it.
        algorithms: How tokens may be signed.
        types: Of which types (`typ`) tokens may be; an empty text among them for those that do not say.
        scope_claims: The claims that hold scopes, as one text or as a list.
        client_claims: The claims of which the first one names the client.
        required: What else a token must say: names of claims that must be there, or a mapping of them to the value, or
            a list of values, of which one it must be.
        claims: Names of claims that `Principal.claims` has whatever their size; others it has up to 1,024 characters.
        leeway: Seconds by which the clocks of issuer and server may differ.
        keys: The issuer's public keys, where they are not fetched: a JWK Set, a JWK, a PEM, or a list of those.
        jwks_uri: Where its keys are; None for what its metadata says.
        cooldown: Seconds in which keys are fetched at most once for tokens that name an unknown one.
        timeout: Seconds in which each document of the issuer must have come.
        http_client: A client of your own to fetch with, which says all about TLS and proxies, and is not closed.
        accept_tokens_for_any_audience: Whether `aud` is not looked at: then every API that trusts the issuer can use
            the tokens that it gets here, and be used with those that it gives away.
        accept_plain_http: Whether issuer and keys may be at URLs of http on other machines, as in a cluster: then
            everything between can replace the keys, and issue tokens that are taken here.
        accept_id_tokens: Whether ID tokens of the type `JWT` are taken, of an issuer that has no other tokens that can
            be verified: then a client that a user has only logged in to can use this server in the user's name.
        clock: The time in Unix seconds.

    Attributes:
        issuer: The issuer.
        published: The keys that it publishes; None where keys are given.
        kept: Names of claims that principals have whatever their size.

    Raises:
        TypeError: An argument is of another type.
        ValueError: The issuer is no URL of https, or an argument cannot be used; the message says what to change.
        ImportError: What authorization needs is not installed: `pip install "mcpkit[auth]"`.
    """

    def __init__(
        self,
        issuer: str,
        *,
        audience: Audience = None,
        algorithms: Collection[str] = ALGORITHMS,
        types: Collection[str] = ("at+jwt", "JWT"),
        scope_claims: Collection[str] = ("scope", "scp"),
        client_claims: Collection[str] = ("client_id", "azp", "cid"),
        required: Collection[str] | Mapping[str, object] = (),
        claims: Collection[str] = (),
        leeway: float = LEEWAY,
        keys: Json | str | bytes | list[Json | str | bytes] | None = None,
        jwks_uri: str | None = None,
        cooldown: float = COOLDOWN,
        timeout: float = PATIENCE,
        http_client: httpx2.AsyncClient | None = None,
        accept_tokens_for_any_audience: bool = False,
        accept_plain_http: bool = False,
        accept_id_tokens: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        authorization_server_urls(issuer, accepts_http=accept_plain_http)  # for its errors
        check_jose()
        check_seconds("leeway", leeway, may_be_zero=True)
        check_seconds("cooldown", cooldown)
        check_seconds("timeout", timeout)
        self.issuer = issuer
        self.issuers = (issuer,)
        self._audience = AudienceCheck(audience, accept_tokens_for_any_audience)
        self._algorithms = check_algorithms(algorithms)
        self._types = frozenset(each.lower() for each in texts_in("types", types))
        self._scope_claims = texts_in("scope_claims", scope_claims)
        self._client_claims = texts_in("client_claims", client_claims)
        self._required = checked_requirements(required)
        self.kept = frozenset(texts_in("claims", claims))
        self._leeway = leeway
        self._clock = clock
        self._given: KeySet | None = None
        self.published: PublishedKeys | None = None
        if keys is not None:
            if jwks_uri is not None:
                raise ValueError("keys= and jwks_uri= exclude each other. Pass one of them")
            self._given = given_keys(keys)
        else:
            http_library()
            self.published = PublishedKeys(
                issuer,
                jwks_uri,
                cooldown=cooldown,
                timeout=timeout,
                http_client=http_client,
                clock=clock,
                accepts_http=accept_plain_http,
            )
        self._accepts_id_tokens = accept_id_tokens
        self._accepted = accepted(
            accept_tokens_for_any_audience=accept_tokens_for_any_audience,
            accept_plain_http=accept_plain_http,
            accept_id_tokens=accept_id_tokens,
        )

    def enter(self, site: ProtectedResource) -> None:
        """Warn of what is accepted that is refused otherwise."""
        warn_of(site.name, self.issuer, self._accepted)

    async def verify(self, token: str, audience: str) -> AccessToken:
        """Return what a token grants.

        Raises:
            InvalidTokenError: It is none of this issuer's for this audience, now.
            VerifierUnavailableError: There are no keys to go by.
        """
        read = read_token(token)
        if read.algorithm not in self._algorithms:
            raise InvalidTokenError(_ALGORITHM)
        claims = read.claims
        # All that can be said without a key comes first: for a token that is none, nobody is asked for keys.
        expires, issued = times_of(claims, self._clock(), self._leeway)
        if expires is None:
            raise InvalidTokenError(TIMES)
        if claims.get("iss") != self.issuer:
            raise InvalidTokenError(ISSUER, advice=ISSUER_ADVICE % self.issuer)
        self.check_audience(claims, audience)
        self._check_type(read)
        self.check(claims)
        if not await self._is_signed(read):
            raise InvalidTokenError(_SIGNATURE)
        return AccessToken(self.principal(claims), expires, issued)

    def check_audience(self, claims: Mapping[str, object], audience: str) -> None:
        """Refuse a token that is for somebody else.

        Args:
            claims: What the token says; its signature has not been verified yet.
            audience: The URL of the endpoint that is asked.

        Raises:
            InvalidTokenError: It is for somebody else, or does not say for whom.
        """
        self._audience.check(claims, audience)

    def check(self, claims: Mapping[str, object]) -> None:
        """Refuse tokens by rules of one's own; a subclass may have some, and calls this for those that all have.

        Args:
            claims: What the token says. Its signature has not been verified yet: nothing may come of it but a refusal.

        Raises:
            InvalidTokenError: It is not taken.
        """
        check_required(claims, self._required)

    def principal(self, claims: Mapping[str, object]) -> Principal:
        """Return whom a token is of; a subclass may know the ways of its issuer better.

        Args:
            claims: What the token says; its signature has been verified.

        Raises:
            InvalidTokenError: It does not say.
        """
        return principal_of(
            self.issuer,
            name_in(claims, "sub"),
            name_in(claims, *self._client_claims),
            scopes_of(claims, self._scope_claims),
            kept_claims(claims, self.kept),
        )

    def is_id_token(self, claims: Mapping[str, object]) -> bool:
        """Say whether a token of the type `JWT` is an ID token, which says who has logged in, and grants nothing.

        Args:
            claims: What it says.
        """
        if not OF_ID_TOKENS.isdisjoint(claims):
            return True
        named = audiences_of(claims.get("aud"))
        return named is not None and named == [name_in(claims, *self._client_claims)]

    async def aclose(self) -> None:
        """End what is being fetched in the running event loop."""
        if self.published is not None:
            await self.published.aclose()

    def _check_type(self, token: Jws) -> None:
        if (token.type or "") not in self._types:
            raise InvalidTokenError(_TYPE)
        if token.type != "at+jwt" and not self._accepts_id_tokens and self.is_id_token(token.claims):
            raise InvalidTokenError(ID_TOKEN)

    async def _is_signed(self, token: Jws) -> bool:
        if self._given is not None:
            return self._given.has_signed(token)
        return self.published is not None and await self.published.has_signed(token)
