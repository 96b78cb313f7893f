"""Verification of JWT access tokens of one issuer (RFC 9068)."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, TypeAlias, TypedDict

from .._utils.option_checks import check_seconds
from ..identity.principal import Principal
from .accepted import accepted, warn_of
from .audiences import AudienceCheck, audiences_of
from .claims import (
    ID_TOKEN,
    ISSUER,
    ISSUER_ADVICE,
    OF_ID_TOKENS,
    TIMES,
    check_required,
    check_unbound,
    checked_requirements,
    kept_claims,
    name_in,
    principal_of,
    scopes_of,
    times_of,
)
from .discovery import authorization_server_urls
from .fetching import DEFAULT_TIMEOUT
from .jws import Jws, read_token
from .key_set import ALGORITHMS, KeySet, check_algorithms, given_keys
from .libraries import check_jose, http_library
from .published_keys import PublishedKeys
from .texts import texts_in
from .verifier import AccessToken, InvalidTokenError, ProtectedResource, TokenVerifier

if TYPE_CHECKING:
    import httpx2

    from ..protocol.jsonrpc import Json

LEEWAY = 5.0
"""Default tolerance for clock differences, in seconds."""
COOLDOWN = 10.0
"""Default minimum interval in seconds between key fetches that tokens with an unknown key cause."""

_ALGORITHM = "the signature algorithm of the token is not accepted (alg)"
_SIGNATURE = "no key of the issuer verifies the signature of the token"
_TYPE = "the type of the token is not accepted (typ)"


Audience: TypeAlias = "str | Collection[str] | None"
"""Accepted audience or audiences; None for the URL of the endpoint."""


class JwtOptions(TypedDict, total=False):
    """Keyword options of `Jwt`, which its subclasses accept as well."""

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
    """Verifier of JWT access tokens of one issuer: `Server("notes", auth=Jwt("https://id.example.com"))`.

    A token is valid under these conditions:

    - A published key of the issuer verifies its signature, with an asymmetric algorithm.
    - `aud` contains this endpoint, and `iss` equals the issuer byte for byte.
    - `exp` is present, and the token is valid now (`exp`, `nbf`, `iat`).
    - It is an access token: its type is `at+jwt` or `JWT`, and it is not an ID token. An ID token is recognized by
      `nonce`, `at_hash`, `c_hash` or `s_hash`, or by having its own client as its only audience.
    - It is a bearer token, and not bound to a key of its client by DPoP or mTLS (`cnf`).

    Keys are found by the metadata of the issuer (RFC 8414, OpenID Connect Discovery 1.0). They are cached as their HTTP
    headers allow, for at least 5 minutes and at most a day, and renewed before that ends. If the issuer does not
    respond, cached keys stay in use for another day. After that, or without cached keys, tokens cannot be verified.

    Args:
        issuer: URL of the issuer, exactly as in tokens and metadata.
        audience: Accepted audience, or a list of alternatives. None takes the URL of the endpoint, as the specification
            requires.
        algorithms: Accepted signature algorithms.
        types: Accepted token types (`typ`). An empty string accepts tokens without a type.
        scope_claims: Names of the claims with scopes, each a space-separated string or a list.
        client_claims: Names of claims with the client ID. The first one present is used.
        required: Additional claims that a token must have: names, or a mapping of names to the required value or a list
            of alternatives.
        claims: Names of claims that `Principal.claims` includes at any size. Other claims are included up to 1,024
            characters.
        leeway: Tolerance for clock differences between issuer and server, in seconds.
        keys: Public keys of the issuer, so that none are fetched: a JWK Set, a JWK, a PEM, or a list of these.
        jwks_uri: URL of the JWK Set of the issuer; None takes it from the metadata.
        cooldown: Minimum interval in seconds between key fetches that tokens with an unknown key cause.
        timeout: Seconds in which each document of the issuer must be received.
        http_client: Client for fetches, with your TLS and proxy settings. It is not closed. None makes one.
        accept_tokens_for_any_audience: Do not check `aud`. Then every other API that trusts the issuer can use tokens
            that clients send here, and the tokens of those APIs are valid here.
        accept_plain_http: Allow `http` URLs of issuer and keys on other machines, as in a cluster. Then any machine
            between can replace the keys and forge tokens.
        accept_id_tokens: Accept ID tokens of the type `JWT`, for issuers without verifiable access tokens. Then any
            client that a user logs in to can call this server as that user.
        clock: Returns the Unix time in seconds.

    Attributes:
        issuer: The issuer.
        published_keys: The published keys of the issuer; None if `keys` is given.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The issuer is not an https URL, or another argument is not valid. The message contains the fix.
        ImportError: The extra is not installed: `pip install "mcpkit[auth]"`.
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
        timeout: float = DEFAULT_TIMEOUT,
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
        self._claims = frozenset(texts_in("claims", claims))
        self._leeway = leeway
        self._clock = clock
        self._given: KeySet | None = None
        self.published_keys: PublishedKeys | None = None
        if keys is not None:
            if jwks_uri is not None:
                raise ValueError("keys= and jwks_uri= exclude each other. Pass one of them")
            self._given = given_keys(keys)
        else:
            http_library()
            self.published_keys = PublishedKeys(
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

    def bind(self, resource: ProtectedResource) -> None:
        """Log a warning for each `accept_...` option that is on."""
        warn_of(resource.name, self.issuer, self._accepted)

    async def verify(self, token: str, audience: str) -> AccessToken:
        """Verify an access token, and return its principal and validity.

        Raises:
            InvalidTokenError: The token is not a valid token of this issuer for this audience.
            VerifierUnavailableError: The keys of the issuer are not available.
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
        check_unbound(claims)
        self.check(claims)
        if not await self._is_signed(read):
            raise InvalidTokenError(_SIGNATURE)
        return AccessToken(self.principal(claims), expires, issued)

    def check_audience(self, claims: Mapping[str, object], audience: str) -> None:
        """Check the audience of a token.

        Args:
            claims: Claims of the token. Its signature is not verified yet.
            audience: URL of the endpoint.

        Raises:
            InvalidTokenError: The token has another audience, or none.
        """
        self._audience.check(claims, audience)

    def check(self, claims: Mapping[str, object]) -> None:
        """Check additional conditions. A subclass can extend it, and must call this method as well.

        Args:
            claims: Claims of the token. Its signature is not verified yet, so use them only to refuse the token.

        Raises:
            InvalidTokenError: The token is refused.
        """
        check_required(claims, self._required)

    def principal(self, claims: Mapping[str, object]) -> Principal:
        """Return the principal of a token. A subclass can override it for the claims of its issuer.

        Args:
            claims: Claims of the token. Its signature is verified.

        Raises:
            InvalidTokenError: The token has neither a subject nor a client ID, or its scopes are malformed.
        """
        return principal_of(
            self.issuer,
            name_in(claims, "sub"),
            name_in(claims, *self._client_claims),
            scopes_of(claims, self._scope_claims),
            kept_claims(claims, self._claims),
        )

    def is_id_token(self, claims: Mapping[str, object]) -> bool:
        """Return True if a token of the type `JWT` is an ID token, which identifies a user and grants no access.

        Args:
            claims: Claims of the token.
        """
        if not OF_ID_TOKENS.isdisjoint(claims):
            return True
        named = audiences_of(claims.get("aud"))
        return named is not None and named == [name_in(claims, *self._client_claims)]

    async def aclose(self) -> None:
        """Cancel fetches of the running event loop."""
        if self.published_keys is not None:
            await self.published_keys.aclose()

    def _check_type(self, token: Jws) -> None:
        if (token.type or "") not in self._types:
            raise InvalidTokenError(_TYPE)
        if token.type != "at+jwt" and not self._accepts_id_tokens and self.is_id_token(token.claims):
            raise InvalidTokenError(ID_TOKEN)

    async def _is_signed(self, token: Jws) -> bool:
        if self._given is not None:
            return self._given.has_signed(token)
        return self.published_keys is not None and await self.published_keys.has_signed(token)
