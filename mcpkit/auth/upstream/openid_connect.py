"""Login at OpenID Connect providers: identity from a signed ID token and from userinfo."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
from collections.abc import Collection, Mapping
from typing import Final

from ..http_client import FetchError
from ..issuer_documents import IssuerMetadata, PublishedKeys
from ..jws import ALGORITHMS, Jws, base64url_encode, parse_jws
from ..jwt import EXPIRED, INVALID_TIMES, NOT_YET_VALID, check_times, read_audiences
from ..token_requests import Authentication
from ..urls import MetadataError
from ..verifier import InvalidTokenError, VerifierUnavailableError
from .upstream_client import (
    Endpoints,
    Identity,
    UpstreamClient,
    UpstreamRefusedError,
    UpstreamSettings,
    UpstreamTokens,
    UpstreamUnavailableError,
)

logger = logging.getLogger(__name__)

REFRESH_TIMEOUT = 5.0
"""Seconds for the verification of the ID token of a refresh. After that the new tokens are stored without it."""

_OFFLINE_ACCESS = "offline_access"
_COOLDOWN = 10.0  # seconds in which keys are fetched at most once for ID tokens that name an unknown one
_HASHES: Final = {"256": hashlib.sha256, "384": hashlib.sha384, "512": hashlib.sha512}
"""Hash for `at_hash` by the last digits of the algorithm. Others are Ed25519, which uses SHA-512 (RFC 8032, 5.1)."""


class OpenIdClient(UpstreamClient):
    """OAuth client at an OpenID provider, found by its metadata.

    Args:
        settings: Settings of the provider.
        uses_userinfo: Request userinfo in addition to the ID token.
        seeks_offline_access: Request `offline_access` if the metadata lists it and the scopes are the default ones. The
            provider then shows a consent page (OpenID Connect Core 1.0, section 11).
    """

    def __init__(
        self, settings: UpstreamSettings, *, uses_userinfo: bool = True, seeks_offline_access: bool = False
    ) -> None:
        super().__init__(settings)
        self._metadata = IssuerMetadata(
            settings.issuer,
            timeout=settings.timeout,
            http_client=settings.http_client,
            clock=settings.clock,
            is_openid=True,
        )
        self._keys = PublishedKeys(self._metadata, None, cooldown=_COOLDOWN)
        self._uses_userinfo = uses_userinfo
        self._seeks_offline_access = seeks_offline_access and settings.has_default_scopes

    async def endpoints(self) -> Endpoints:
        """Return the endpoints in the metadata, without userinfo if it is not to be requested."""
        try:
            metadata = await self._metadata.read("authorization_endpoint", "token_endpoint")
            # Without the member, the method is client_secret_basic (RFC 8414, section 2).
            methods = metadata.strings("token_endpoint_auth_methods_supported") or ("client_secret_basic",)
            has_basic = "client_secret_basic" in methods or "client_secret_post" not in methods
            default: Authentication = "basic" if has_basic else "post"
            userinfo, revocation = (
                metadata.endpoint(name) if metadata.has(name) else None
                for name in ("userinfo_endpoint", "revocation_endpoint")
            )
            return Endpoints(
                metadata.endpoint("authorization_endpoint"),
                metadata.endpoint("token_endpoint"),
                userinfo if self._uses_userinfo else None,
                revocation,
                metadata.is_true("authorization_response_iss_parameter_supported"),
                self._seeks_offline_access
                and _OFFLINE_ACCESS in (metadata.strings("scopes_supported") or ()),
                self.settings.authentication or default,
            )
        except (FetchError, MetadataError) as error:
            raise UpstreamUnavailableError(str(error)) from None

    def request_parameters(self, endpoints: Endpoints, nonce: str) -> Mapping[str, str]:
        """Return additional parameters of an authorization request."""
        return {"nonce": nonce, "prompt": "consent"} if endpoints.needs_offline_access else {"nonce": nonce}

    def requested_scopes(self, endpoints: Endpoints) -> Collection[str]:
        """Return the scopes to request."""
        return (
            (*self.settings.scopes, _OFFLINE_ACCESS)
            if endpoints.needs_offline_access
            else self.settings.scopes
        )

    async def identify(self, tokens: UpstreamTokens) -> Identity:
        """Return the identity of a user: claims of the last ID token, updated by userinfo."""
        endpoints = await self.endpoints()
        subject = tokens.id_token_claims.get("sub")
        claims: Mapping[str, object] = {}
        if endpoints.userinfo is not None:
            claims = await self.userinfo(endpoints.userinfo, tokens)
            if claims.get("sub") != subject:  # OpenID Connect Core 1.0, 5.3.2
                raise UpstreamUnavailableError(
                    f"the userinfo response of {self.settings.title} is for another user (sub)"
                )
        return self.identity(subject, {**tokens.id_token_claims, **claims})

    async def id_token_claims(
        self,
        tokens: UpstreamTokens,
        response: Mapping[str, object],
        previous: Mapping[str, object],
        nonce: str | None = None,
    ) -> Mapping[str, object]:
        """Return the claims of the ID token; of a refresh, for the same user (OpenID Connect Core 1.0, 12.2)."""
        id_token = response.get("id_token")
        if nonce is not None:
            return await self._verified_claims(id_token, tokens.access_token, nonce)
        if id_token is None:
            return previous
        try:
            claims = await asyncio.wait_for(
                self._verified_claims(id_token, tokens.access_token), REFRESH_TIMEOUT
            )
        except (UpstreamUnavailableError, asyncio.TimeoutError) as error:
            why = str(error) or "the keys of the provider could not be fetched in time"
            logger.warning(
                "The ID token of a refresh was ignored, and the known claims of the user stay in use: %s", why
            )
            return previous
        if claims["sub"] != previous.get("sub"):
            raise UpstreamRefusedError(
                "invalid_grant", "the provider returned tokens of another user at a refresh"
            )
        return claims

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        await self._keys.aclose()
        await super().aclose()

    async def _verified_claims(
        self, id_token: object, access_token: str, nonce: str | None = None
    ) -> Mapping[str, object]:
        """Verify an ID token (OpenID Connect Core 1.0, 3.1.3.7), and return its subject and the claims about the user.

        Args:
            id_token: The `id_token` of the token response.
            access_token: The access token of the same response.
            nonce: The nonce of the login; None for a refresh, whose ID token need not have one.

        Raises:
            UpstreamUnavailableError: The token is not valid for this login, or no keys are available.
        """
        try:
            if not isinstance(id_token, str):
                raise InvalidTokenError("the response has no id_token string")
            token = parse_jws(id_token)
            self._check_id_token(token, access_token, nonce)
            if not await self._keys.verifies(token):
                raise InvalidTokenError("no key of the provider verifies its signature")
        except InvalidTokenError as error:
            is_late = str(error) in {EXPIRED, NOT_YET_VALID}
            hint = ", although it was just issued. Check the clock of this machine" if is_late else ""
            raise UpstreamUnavailableError(
                f"the ID token of {self.settings.issuer} is invalid: {error}{hint}"
            ) from None
        except VerifierUnavailableError as error:
            raise UpstreamUnavailableError(str(error)) from None
        identity = self.identity(token.claims.get("sub"), token.claims)
        return {"sub": identity.subject, **identity.claims}

    def _check_id_token(self, token: Jws, access_token: str, nonce: str | None) -> None:
        """Check everything that needs no key: algorithm, type, issuer, audience, times, nonce and `at_hash`."""
        claims, client_id = token.claims, self.settings.client.id
        if token.algorithm not in ALGORITHMS:
            raise InvalidTokenError(
                "its signature algorithm is not accepted (alg). Use RS256 at the provider"
            )
        if token.type not in {None, "jwt"}:
            raise InvalidTokenError("it has another type than JWT (typ)")
        if claims.get("iss") != self.settings.issuer:
            raise InvalidTokenError("it has another issuer (iss)")
        audiences = read_audiences(claims.get("aud")) or []
        party = claims.get("azp")
        if client_id not in audiences or (len(audiences) > 1 and party is None):
            raise InvalidTokenError("it was issued to another client (aud)")
        if party is not None and party != client_id:
            raise InvalidTokenError("it was issued to another client (azp)")
        expires, issued = check_times(claims, self.settings.clock(), self.settings.leeway)
        if expires is None or issued is None:
            raise InvalidTokenError(INVALID_TIMES)
        if nonce is not None and not _is_same(claims.get("nonce"), nonce):
            raise InvalidTokenError("it belongs to another login (nonce)")
        if "at_hash" in claims:  # the left half of the hash of the access token (3.1.3.6)
            digest = _HASHES.get(token.algorithm[-3:], hashlib.sha512)(access_token.encode("ascii")).digest()
            if not _is_same(claims["at_hash"], base64url_encode(digest[: len(digest) // 2])):
                raise InvalidTokenError("it belongs to another access token (at_hash)")


def _is_same(claim: object, expected: str) -> bool:
    return isinstance(claim, str) and hmac.compare_digest(claim.encode(), expected.encode())
