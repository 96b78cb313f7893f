"""Verification of JWT access tokens of one issuer (RFC 9068), and checks of claims (RFC 7519)."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias, TypedDict

from .._utils.option_checks import check_seconds
from ..identity.principals_and_scopes import Principal, client, user
from ..protocol.jsonrpc import is_array
from .issuer_documents import IssuerMetadata, PublishedKeys
from .jws import ALGORITHMS, KeySet, as_list, check_algorithms, configured_keys, parse_jws
from .oauth_http_client import DEFAULT_TIMEOUT
from .urls_and_discovery import audience_matches, authorization_server_urls
from .verifier import (
    ISSUER_ADVICE,
    MAX_SCOPES,
    AccessToken,
    InvalidTokenError,
    ProtectedResource,
    TokenVerifier,
    auth_library,
    check_unbound,
    string_list,
    warn_insecure_options,
)

if TYPE_CHECKING:
    import httpx2

    from ..protocol.jsonrpc import Json

LEEWAY = 5.0
"""Default tolerance for clock differences, in seconds."""
COOLDOWN = 10.0
"""Default minimum interval in seconds between key fetches that tokens with an unknown key cause."""
MAX_NAME = 1_000
"""Maximum characters of a subject or client ID in a token."""
MAX_CLAIM = 1_024
"""Maximum characters of a claim, as JSON, that is kept without being listed in `claims`."""
MAX_AUDIENCES = 100
"""Maximum number of audiences of a token."""

ID_TOKEN_CLAIMS: Final = frozenset({"at_hash", "c_hash", "s_hash", "nonce"})
"""Claims that only ID tokens have (OpenID Connect Core 1.0, 2, 3.3.2.11; FAPI 1.0 part 2)."""
_TOKEN_CLAIMS: Final = frozenset({"iss", "aud", "exp", "nbf", "iat", "cnf"})
"""Claims about the token, which are attributes of `AccessToken` or checked here."""

_CLAIM_NAME: Final = re.compile(r"[\x21\x23-\x5B\x5D-\x7E]+")
"""A claim name that an error description can contain (RFC 6750, section 3)."""
_MAX_TIME: Final = 253_402_300_799.0  # the last second of the year 9999

EXPIRED: Final = "the token has expired"
NOT_YET_VALID: Final = "the token is not valid yet"
INVALID_TIMES: Final = "exp, nbf or iat of the token is missing or not a valid time"
NO_SUBJECT: Final = "the token has neither sub nor client_id"

Audience: TypeAlias = "str | Collection[str] | None"
"""Accepted audience or audiences; None for the URL of the endpoint."""


# Checks of claims


def check_issuer(issuer: object, expected: str) -> None:
    """Check the issuer of a token.

    Raises:
        InvalidTokenError: The token has another issuer.
    """
    if issuer != expected:
        raise InvalidTokenError("the token has another issuer (iss)", advice=ISSUER_ADVICE % expected)


def check_times(claims: Mapping[str, object], now: float, leeway: float) -> tuple[float | None, float | None]:
    """Check the period of validity of a token, and return its expiry and time of issue in Unix seconds.

    The expiry includes the leeway.

    Args:
        claims: Claims of the token.
        now: Current Unix time in seconds.
        leeway: Tolerance for clock differences, in seconds.

    Raises:
        InvalidTokenError: The token has expired, or is not valid yet.
    """
    times: list[float | None] = []
    for name in ("exp", "nbf", "iat"):
        value = claims.get(name)
        if name not in claims:
            times.append(None)
        elif isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _MAX_TIME:
            times.append(float(value))
        else:
            raise InvalidTokenError(INVALID_TIMES)
    expires, not_before, issued = times
    if expires is not None:
        expires += leeway
        if now >= expires:
            raise InvalidTokenError(EXPIRED)
    if any(begin is not None and now < begin - leeway for begin in (not_before, issued)):
        advice = (
            f"the clocks of this machine and the issuer differ by more than {leeway:g} s."
            " Correct them, or raise leeway="
        )
        raise InvalidTokenError(NOT_YET_VALID, advice=advice)
    return expires, issued


def read_audiences(claim: object) -> list[str] | None:
    """Return the audiences in an `aud` claim; None if the claim is malformed (RFC 7519, 4.1.3)."""
    items = as_list(claim)
    audiences = [each for each in items if isinstance(each, str) and each]
    return audiences if audiences and len(audiences) == len(items) <= MAX_AUDIENCES else None


def read_requirements(required: object) -> Mapping[str, object]:
    """Check the option `required`, and return it as a mapping of claim names to required values.

    Raises:
        TypeError: The option is neither a mapping nor a list of strings.
        ValueError: A claim name contains characters that an error description cannot have.
    """
    requirements: dict[str, object] = {}
    for name in string_list("required", required, or_else="a mapping of claims to values, or "):
        if not _CLAIM_NAME.fullmatch(name):
            raise ValueError(
                f"required: claim names must be visible ASCII without quotes and backslashes, got {name!r}"
            )
        requirements[name] = required[name] if isinstance(required, Mapping) else None
    return requirements


def check_required(claims: Mapping[str, object], required: Mapping[str, object]) -> None:
    """Check that a token has the required claims.

    Args:
        claims: Claims of the token.
        required: Required value by claim name, or a list of alternatives; None accepts any value. A claim that is a
            list needs one matching item.

    Raises:
        InvalidTokenError: A required claim is missing or has another value.
    """
    for name, alternatives in required.items():
        value = claims.get(name)
        matches = alternatives is None or any(
            type(one) is type(other) and one == other
            for one in as_list(value)
            for other in as_list(alternatives)
        )
        if value is None or not matches:
            raise InvalidTokenError(f"the claim {name} is missing or lacks a value that this server requires")


# The principal of a token


def string_claim(claims: Mapping[str, object], *names: str) -> str | None:
    """Return the first of some claims that is present; None if none is.

    Raises:
        InvalidTokenError: The claim is not a string, is empty, or is too long.
    """
    for name in names:
        value = claims.get(name)
        if isinstance(value, str) and 0 < len(value) <= MAX_NAME:
            return value
        if value is not None:
            raise InvalidTokenError(NO_SUBJECT)
    return None


def read_scopes(claims: Mapping[str, object], names: Collection[str]) -> frozenset[str]:
    """Return the scopes in some claims, each a space-separated string or a list of strings.

    Raises:
        InvalidTokenError: A claim has another form.
    """
    scopes: set[str] = set()
    for name in names:
        value = claims.get(name)
        if value is None:
            continue
        items = value.split(" ") if isinstance(value, str) else value
        if not is_array(items) or len(items) > MAX_SCOPES or not all(isinstance(each, str) for each in items):
            raise InvalidTokenError("the scopes of the token are malformed")
        scopes.update(filter(None, items))
    return frozenset(scopes)


def select_claims(claims: Mapping[str, object], names: Collection[str]) -> dict[str, object]:
    """Return the claims to keep with a principal: the listed ones, and others that are small."""

    def is_small(value: object) -> bool:
        if isinstance(value, str):
            return len(value) <= MAX_CLAIM
        return not isinstance(value, list | dict) or len(json.dumps(value)) <= MAX_CLAIM

    return {
        name: value
        for name, value in claims.items()
        if name in names or (name not in _TOKEN_CLAIMS and len(name) <= MAX_NAME and is_small(value))
    }


def token_principal(
    issuer: str,
    subject: str | None,
    client_id: str | None,
    scopes: Collection[str],
    claims: Mapping[str, object],
) -> Principal:
    """Return the principal of a token: the user, or the client if the subject is missing or equal to it (RFC 9068, 5).

    Raises:
        InvalidTokenError: The token has neither a subject nor a client ID.
    """
    if subject is not None and subject != client_id:
        return user(issuer, subject, scopes, client_id=client_id, claims=claims)
    if client_id is None:
        raise InvalidTokenError(NO_SUBJECT)
    return client(issuer, client_id, scopes, claims=claims)


# Verification


class IssuerVerifier(TokenVerifier):
    """Base class of the verifiers of one issuer: checks of the audience and other claims, and the principal.

    Args:
        issuer: URL of the issuer.
        audience: Accepted audience, or a list of alternatives; None for the URL of the endpoint.
        scope_claims: Names of the claims with scopes.
        client_claims: Names of claims with the client ID. The first one present is used.
        required: Additional claims that a token must have.
        claims: Names of claims that `Principal.claims` includes at any size.
        leeway: Tolerance for clock differences, in seconds.
        timeout: Seconds in which the issuer must respond.
        clock: Returns the Unix time in seconds.
        insecure_options: The `accept_...` options.

    Attributes:
        issuer: The issuer.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: An argument is not valid. The message contains the fix.
    """

    def __init__(
        self,
        issuer: str,
        audience: Audience,
        scope_claims: Collection[str],
        client_claims: Collection[str],
        required: Collection[str] | Mapping[str, object],
        claims: Collection[str],
        leeway: float,
        timeout: float,
        clock: Callable[[], float],
        **insecure_options: bool,
    ) -> None:
        check_seconds("leeway", leeway, may_be_zero=True)
        check_seconds("timeout", timeout)
        self._audiences: tuple[str, ...] | None = None
        self._accepts_any_audience = insecure_options["accept_tokens_for_any_audience"]
        if audience is not None:
            if self._accepts_any_audience:
                raise ValueError(
                    "audience= and accept_tokens_for_any_audience=True exclude each other. Pass one of them"
                )
            alternatives = [audience] if isinstance(audience, str) else audience
            self._audiences = string_list("audience", alternatives, or_else="a string, or ")
            if not self._audiences or "" in self._audiences:
                raise ValueError("audience must not be empty. Pass None for the URL of the endpoint")
        self.issuer = issuer
        self.issuers = (issuer,)
        self._scope_claims = string_list("scope_claims", scope_claims)
        self._client_claims = string_list("client_claims", client_claims)
        self._required = read_requirements(required)
        self._claims = frozenset(string_list("claims", claims))
        self._leeway = leeway
        self._clock = clock
        self._insecure_options = insecure_options

    def bind(self, resource: ProtectedResource) -> None:
        """Log a warning for each `accept_...` option that is on."""
        warn_insecure_options(resource.name, self.issuer, self._insecure_options)

    def principal(self, claims: Mapping[str, object]) -> Principal:
        """Return the principal of a token. A subclass can override it for the claims of its issuer.

        Args:
            claims: Verified claims of the token, or members of its introspection response.

        Raises:
            InvalidTokenError: The token has neither a subject nor a client ID, or its scopes are malformed.
        """
        return token_principal(
            self.issuer,
            string_claim(claims, "sub"),
            string_claim(claims, *self._client_claims),
            read_scopes(claims, self._scope_claims),
            select_claims(claims, self._claims),
        )

    def _check_audience(self, claims: Mapping[str, object], audience: str) -> None:
        """Check the audience of a token.

        Args:
            claims: Claims of the token.
            audience: URL of the endpoint.

        Raises:
            InvalidTokenError: The token has another audience, or none.
        """
        accepted = self._audiences or (audience,)
        audiences = read_audiences(claims.get("aud"))
        if self._accepts_any_audience or (audiences is not None and audience_matches(audiences, accepted)):
            return
        advice = (
            f"its `aud` must contain {' or '.join(accepted)}. Check that public_url= is the URL that clients call. If"
            " the issuer ignores `resource`, set audience= to the value that it sends"
        )
        raise InvalidTokenError("the token has another audience (aud)", advice=advice)


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


class Jwt(IssuerVerifier):
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
        auth_library("joserfc.jwk")
        claim_options = (audience, scope_claims, client_claims, required, claims)
        super().__init__(
            issuer,
            *claim_options,
            leeway,
            timeout,
            clock,
            accept_tokens_for_any_audience=accept_tokens_for_any_audience,
            accept_plain_http=accept_plain_http,
            accept_id_tokens=accept_id_tokens,
        )
        check_seconds("cooldown", cooldown)
        self._algorithms = check_algorithms(algorithms)
        self._types = frozenset(each.lower() for each in string_list("types", types))
        self._accepts_id_tokens = accept_id_tokens
        self._keys: KeySet | None = None
        self.published_keys: PublishedKeys | None = None
        if keys is not None:
            if jwks_uri is not None:
                raise ValueError("keys= and jwks_uri= exclude each other. Pass one of them")
            self._keys = configured_keys(keys)
        else:
            auth_library("httpx2")
            metadata = IssuerMetadata(
                issuer, timeout=timeout, http_client=http_client, clock=clock, accepts_http=accept_plain_http
            )
            self.published_keys = PublishedKeys(metadata, jwks_uri, cooldown=cooldown)

    async def verify(self, token: str, audience: str) -> AccessToken:
        """Verify an access token, and return its principal and validity.

        Raises:
            InvalidTokenError: The token is not a valid token of this issuer for this audience.
            VerifierUnavailableError: The keys of the issuer are not available.
        """
        jws = parse_jws(token)
        claims = jws.claims
        # Everything that needs no key is checked first, so that an invalid token causes no fetch of keys.
        if jws.algorithm not in self._algorithms:
            raise InvalidTokenError("the signature algorithm of the token is not accepted (alg)")
        expires, issued = check_times(claims, self._clock(), self._leeway)
        if expires is None:
            raise InvalidTokenError(INVALID_TIMES)
        check_issuer(claims.get("iss"), self.issuer)
        self.check_audience(claims, audience)
        if (jws.type or "") not in self._types:
            raise InvalidTokenError("the type of the token is not accepted (typ)")
        if jws.type != "at+jwt" and not self._accepts_id_tokens and self.is_id_token(claims):
            raise InvalidTokenError("the token is an ID token, not an access token")
        check_unbound(claims)
        self.check(claims)
        is_verified = self._keys is not None and self._keys.verifies(jws)
        if not is_verified and not (self.published_keys and await self.published_keys.verifies(jws)):
            raise InvalidTokenError("no key of the issuer verifies the signature of the token")
        return AccessToken(self.principal(claims), expires, issued)

    def check_audience(self, claims: Mapping[str, object], audience: str) -> None:
        """Check the audience of a token.

        Args:
            claims: Claims of the token. Its signature is not verified yet.
            audience: URL of the endpoint.

        Raises:
            InvalidTokenError: The token has another audience, or none.
        """
        self._check_audience(claims, audience)

    def check(self, claims: Mapping[str, object]) -> None:
        """Check additional conditions. A subclass can extend it, and must call this method as well.

        Args:
            claims: Claims of the token. Its signature is not verified yet, so use them only to refuse the token.

        Raises:
            InvalidTokenError: The token is refused.
        """
        check_required(claims, self._required)

    def is_id_token(self, claims: Mapping[str, object]) -> bool:
        """Return True if a token of the type `JWT` is an ID token, which identifies a user and grants no access.

        Args:
            claims: Claims of the token.
        """
        if not ID_TOKEN_CLAIMS.isdisjoint(claims):
            return True
        audiences = read_audiences(claims.get("aud"))
        return audiences is not None and audiences == [string_claim(claims, *self._client_claims)]

    async def aclose(self) -> None:
        """Cancel fetches of the running event loop."""
        if self.published_keys is not None:
            await self.published_keys.aclose()
