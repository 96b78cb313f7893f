"""Verification of opaque access tokens by introspection at their issuer (RFC 7662)."""

from __future__ import annotations

import hashlib
import logging
import re
import time
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Final

from .._utils.option_checks import check_seconds
from ..identity.audit_and_revocation import fetching
from .issuer_documents import IssuerMetadata
from .jws import MAX_TOKEN
from .jwt import LEEWAY, IssuerVerifier, check_issuer, check_required, check_times
from .oauth_http_client import (
    DEFAULT_TIMEOUT,
    Authentication,
    ClientSecret,
    FetchError,
    HttpClient,
    SingleFlight,
    check_authentication,
    check_text,
)
from .urls_and_discovery import MetadataError, check_url
from .verifier import AccessToken, InvalidTokenError, VerifierUnavailableError, auth_library, check_unbound

if TYPE_CHECKING:
    import httpx2

FRESH = 30.0
"""Default seconds for which an introspection response is cached."""

_TOKEN: Final = re.compile(r"[\x21-\x7E]+")
_INACTIVE: Final = "the token is not active"

logger = logging.getLogger(__name__)


class Introspection(IssuerVerifier):
    """Verifier that introspects tokens at their issuer: `auth=Introspection("https://id.example.com", client_id=...)`.

    A response is cached for 30 seconds by default, so a revoked token stays valid no longer than that. The response is
    checked like a JWT: `active`, `aud`, `iss`, `exp`, `nbf`. The token must be a bearer token, and not be
    bound to a key of its client (`cnf`).

    Args:
        issuer: URL of the issuer, exactly as in its metadata.
        client_id: Client ID of this server at the issuer.
        client_secret: Client secret of this server.
        endpoint: URL of the introspection endpoint; None takes `introspection_endpoint` from the metadata.
        authentication: How this server authenticates: `"basic"` with the header `Authorization`, or `"post"` in the
            form.
        audience: Accepted audience, or a list of alternatives. None takes the URL of the endpoint, as the specification
            requires.
        scope_claims: Names of the members with scopes, each a space-separated string or a list.
        client_claims: Names of members with the client ID. The first one present is used.
        required: Additional members that the response must have: names, or a mapping of names to the required value or
            a list of alternatives.
        claims: Names of members that `Principal.claims` includes at any size. Other members are included up to 1,024
            characters.
        cache_ttl: Seconds for which the response for a token is cached.
        leeway: Tolerance for clock differences between issuer and server, in seconds.
        timeout: Seconds in which the issuer must respond.
        http_client: Client for requests to the issuer, with your TLS and proxy settings. It is not closed. None makes
            one.
        accept_tokens_for_any_audience: Do not check `aud`, which introspection responses may omit. Then every other API
            that trusts the issuer can use tokens that clients send here, and the tokens of those APIs are valid here.
        accept_plain_http: Allow `http` URLs of issuer and endpoint on other machines, as in a cluster. Then any machine
            between can read the secret and the tokens, and forge responses.
        clock: Returns the Unix time in seconds.

    Attributes:
        issuer: The issuer.
        connections: HTTP connections to the issuer.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The issuer is not an https URL, or another argument is not valid. The message contains the fix.
        ImportError: The extra is not installed: `pip install "mcpkit[auth]"`.
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
        cache_ttl: float = FRESH,
        leeway: float = LEEWAY,
        timeout: float = DEFAULT_TIMEOUT,
        http_client: httpx2.AsyncClient | None = None,
        accept_tokens_for_any_audience: bool = False,
        accept_plain_http: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        auth_library("httpx2")
        claim_options = (audience, scope_claims, client_claims, required, claims)
        super().__init__(
            issuer,
            *claim_options,
            leeway,
            timeout,
            clock,
            accept_tokens_for_any_audience=accept_tokens_for_any_audience,
            accept_plain_http=accept_plain_http,
        )
        check_seconds("cache_ttl", cache_ttl)
        check_authentication(authentication)
        check_text("client_secret", client_secret)
        self._metadata = IssuerMetadata(
            issuer, timeout=timeout, http_client=http_client, clock=clock, accepts_http=accept_plain_http
        )
        self._endpoint = endpoint
        if endpoint is not None:
            check_url(endpoint, "endpoint", accepts_http=accept_plain_http)
        self._client = ClientSecret(client_id, client_secret)
        self._authentication: Authentication = authentication
        self._cache_ttl = cache_ttl
        self._requests = SingleFlight[dict[str, object]](self._metadata.max_seconds + 2 * timeout)
        self.connections = HttpClient(http_client, timeout)
        self._failure: str | None = None

    async def verify(self, token: str, audience: str) -> AccessToken:
        """Introspect an access token, and return its principal and validity.

        Raises:
            InvalidTokenError: The token is not a valid token of this issuer for this audience.
            VerifierUnavailableError: The issuer does not respond, or refuses this server as a client.
        """
        if len(token) > MAX_TOKEN or not _TOKEN.fullmatch(token):
            raise InvalidTokenError(_INACTIVE)
        now = self._clock()
        digest = hashlib.sha256(token.encode("ascii")).digest()
        claims = await self._requests.run(digest, lambda: self._introspect(token))
        if claims.get("active") is not True:
            raise InvalidTokenError(_INACTIVE)
        check_issuer(claims.get("iss", self.issuer), self.issuer)
        token_type = claims.get("token_type")
        if token_type is not None and str(token_type).lower() != "bearer":
            raise InvalidTokenError("the token is not a bearer token (token_type)")
        expires, issued = check_times(claims, self._clock(), self._leeway)
        self._check_audience(claims, audience)
        check_unbound(claims)
        check_required(claims, self._required)
        return AccessToken(self.principal(claims), expires, issued, now + self._cache_ttl)

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        await self._requests.aclose()
        await self._metadata.aclose()
        await self.connections.aclose()

    async def _introspect(self, token: str) -> dict[str, object]:
        """Send an introspection request, and return the members of the response.

        Raises:
            VerifierUnavailableError: The endpoint sent no response, or one without a result.
        """
        name = f"introspection at {self.issuer}"
        try:
            url = self._endpoint or await self._metadata.endpoint("introspection_endpoint")
            with fetching("introspection"):
                form, headers = self._client.authenticate(self._authentication)
                form = {"token": token, "token_type_hint": "access_token", **form}
                response = await self.connections.request("POST", url, name, headers, form)
                if (status := response.status) != 200:
                    hint = (
                        ". Check client_id, client_secret and authentication, and whether the issuer allows"
                        " introspection to this client"
                    )
                    text = f"{name}: {url} responded with HTTP {status}{hint if status in {400, 401, 403} else ''}"
                    raise FetchError(text, status=status)
                claims = response.members()
        except (FetchError, MetadataError) as error:
            if not (isinstance(error, FetchError) and error.may_pass):
                self._metadata.forget()
            message = str(error)
            if message != self._failure:
                logger.warning(
                    "Token introspection failed, so requests with a new token are answered with HTTP 503. "
                    "mcpkit tries again at each of them: %s",
                    message,
                )
            self._failure = message
            raise VerifierUnavailableError(message) from None
        if self._failure is not None:
            logger.info("introspection at %s works again", self.issuer)
            self._failure = None
        return claims
