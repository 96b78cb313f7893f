"""The option `Server(auth=...)`: one token verifier, or several."""

from __future__ import annotations

from base64 import urlsafe_b64decode
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from pydantic_core import from_json

from .urls_and_discovery import origin
from .verifier import (
    ISSUER_ADVICE,
    AccessToken,
    InvalidTokenError,
    ProtectedResource,
    TokenVerifier,
    VerifierContext,
)

if TYPE_CHECKING:
    from starlette.routing import Route

    from ..identity.principals_and_scopes import Principal


def verifier_of(auth: TokenVerifier | Sequence[TokenVerifier]) -> TokenVerifier:
    """Return one verifier for the option `auth`.

    Raises:
        TypeError: A value is not a TokenVerifier.
        ValueError: The list is empty, or two verifiers have the same issuer.
    """
    option: object = auth
    values = list(auth) if isinstance(auth, Sequence) and not isinstance(option, str) else [option]
    verifiers: list[TokenVerifier] = []
    for value in values:
        if not isinstance(value, TokenVerifier):
            raise TypeError(
                f"auth must be a TokenVerifier or a list of them, got {value!r}. Pass for example {_example(value)} of"
                " mcpkit.auth"
            )
        verifiers.append(value)
    return verifiers[0] if len(verifiers) == 1 else Issuers(verifiers)


def _example(value: object) -> str:
    """Return example code for a value that is not a verifier."""
    from .upstream.identity_providers import UpstreamProvider

    if isinstance(value, UpstreamProvider):
        return "OAuthProxy(UpstreamProvider.github(CLIENT_ID, CLIENT_SECRET))"
    return f"Jwt({value!r})" if str(value).startswith("https:") else 'Jwt("https://id.example.com")'


class Issuers(TokenVerifier):
    """Token verifier that delegates to another one, selected by the (unverified) issuer of a token.

    A token without an issuer goes first to the verifiers without issuers, which send it nowhere. So their tokens never
    reach another party. Then it goes to the others except `Jwt`, because a JWT always has an issuer.

    Args:
        verifiers: The verifiers.

    Raises:
        ValueError: `verifiers` is empty, or two have the same issuer or provider.
    """

    def __init__(self, verifiers: Sequence[TokenVerifier]) -> None:
        if not verifiers:
            raise ValueError("auth=[] has no verifier. Omit auth= to serve without authentication")
        self._verifiers = tuple(verifiers)
        self._index()

    def _index(self) -> None:
        """Map issuers and providers to verifiers. Authorization servers know their issuer only after `bind`."""
        from .jwt import Jwt

        self.issuers = tuple(chain.from_iterable(each.issuers for each in self._verifiers))
        self.providers = tuple(chain.from_iterable(each.providers for each in self._verifiers))
        for issuer in self.issuers:
            if self.issuers.count(issuer) > 1:
                raise ValueError(
                    f"auth: two verifiers have the same issuer {issuer}. Two OAuthProxy at one origin each need an "
                    f'issuer= with a path, such as "{origin(issuer)}/github"'
                )
        for name in self.providers:
            if self.providers.count(name) > 1:
                raise ValueError(
                    f"auth: two providers have the name {name!r}. Give one of them another name="
                )
        self._by_provider = {name: each for each in self._verifiers for name in each.providers}
        self._by_issuer = {issuer: (each,) for each in self._verifiers for issuer in each.issuers}
        self._without_issuer = tuple(each for each in self._verifiers if not each.issuers)
        others = (each for each in self._verifiers if each.issuers and not isinstance(each, Jwt))
        self._for_opaque_tokens = (*self._without_issuer, *others)

    async def verify(self, token: str, audience: str) -> AccessToken:
        """Verify a token with the verifier of its issuer."""
        issuer = _unverified_issuer(token)
        verifiers = self._for_opaque_tokens
        if issuer is not None:
            verifiers = self._by_issuer.get(issuer, self._without_issuer)
        advice = ISSUER_ADVICE % " or ".join(self.issuers) if self.issuers else None
        refusal = InvalidTokenError("the issuer of the token is not trusted by this server", advice=advice)
        for verifier in verifiers:
            try:
                return await verifier.verify(token, audience)
            except InvalidTokenError as error:
                if issuer is None or issuer in self._by_issuer:
                    refusal = error
        raise refusal

    def bind(self, resource: ProtectedResource) -> None:
        """Bind each verifier to the protected server.

        Args:
            resource: The protected server.

        Raises:
            ValueError: A verifier cannot be used there, or has the same issuer as another one.
        """
        for each in self._verifiers:
            each.bind(resource)
        self._index()

    def routes(self) -> Sequence[Route]:
        """Return the routes of all verifiers."""
        return [*chain.from_iterable(each.routes() for each in self._verifiers)]

    def refusal(self, headers: Mapping[bytes, bytes]) -> str | None:
        """Return the first reason of a verifier to refuse a request."""
        reasons = (each.refusal(headers) for each in self._verifiers)
        return next((reason for reason in reasons if reason is not None), None)

    def notices(self) -> Sequence[str]:
        """Return the notices of all verifiers."""
        return [*chain.from_iterable(each.notices() for each in self._verifiers)]

    async def token_for(self, principal: Principal, provider: str, context: VerifierContext) -> str:
        """Return the token from the verifier with this provider."""
        return await self._by_provider[provider].token_for(principal, provider, context)

    async def revoke(self, principal: Principal, context: VerifierContext) -> None:
        """Revoke the grants of a principal at all verifiers."""
        for each in self._verifiers:
            await each.revoke(principal, context)

    async def aclose(self) -> None:
        """Close all verifiers."""
        for each in self._verifiers:
            await each.aclose()


def _unverified_issuer(token: str) -> str | None:
    """Return the unverified issuer of a token; None if the token is not a JWT or has none."""
    try:
        _header, payload, _signature = token.split(".")
        issuer = from_json(urlsafe_b64decode(payload + "=" * (-len(payload) % 4))).get("iss")
    except (ValueError, AttributeError):  # the latter for JSON that is not an object
        return None
    return issuer if isinstance(issuer, str) else None
