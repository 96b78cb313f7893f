"""Several token verifiers as one: each token goes to the verifier of its issuer."""

from __future__ import annotations

from base64 import urlsafe_b64decode
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from pydantic_core import from_json

from .claims import ISSUER_ADVICE
from .jwt import Jwt
from .strict_json import members_in
from .urls import origin
from .verifier import AccessToken, InvalidTokenError, ProtectedResource, TokenVerifier, VerifierContext

if TYPE_CHECKING:
    from starlette.routing import Route

    from ..identity.principal import Principal


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
        self._sort()

    def _sort(self) -> None:
        """Map issuers and providers to verifiers. Authorization servers know their issuer only after `bind`."""
        self.issuers = tuple(chain.from_iterable(each.issuers for each in self._verifiers))
        if len(set(self.issuers)) < len(self.issuers):
            twice = next(each for each in self.issuers if self.issuers.count(each) > 1)
            raise ValueError(
                f"auth: two verifiers have the same issuer {twice}. Two OAuthProxy at one origin each need an issuer= "
                f'with a path, such as "{origin(twice)}/github"'
            )
        self._by_provider = {name: each for each in self._verifiers for name in each.providers}
        self.providers = tuple(chain.from_iterable(each.providers for each in self._verifiers))
        if len(self._by_provider) < len(self.providers):
            twice = next(each for each in self.providers if self.providers.count(each) > 1)
            raise ValueError(f"auth: two providers have the name {twice!r}. Give one of them another name=")
        self._by_issuer = {issuer: (each,) for each in self._verifiers for issuer in each.issuers}
        self._without_issuer = tuple(each for each in self._verifiers if not each.issuers)
        asking = (each for each in self._verifiers if each.issuers and not isinstance(each, Jwt))
        self._of_opaque = (*self._without_issuer, *asking)

    async def verify(self, token: str, audience: str) -> AccessToken:
        """Verify a token with the verifier of its issuer."""
        named = _issuer_of(token)
        asked = self._of_opaque if named is None else self._by_issuer.get(named, self._without_issuer)
        advice = ISSUER_ADVICE % " or ".join(self.issuers) if self.issuers else None
        refusal = InvalidTokenError("the issuer of the token is not trusted by this server", advice=advice)
        for verifier in asked:
            try:
                return await verifier.verify(token, audience)
            except InvalidTokenError as error:
                if named is None or named in self._by_issuer:
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
        self._sort()

    def routes(self) -> Sequence[Route]:
        """Return the routes of all verifiers."""
        return [*chain.from_iterable(each.routes() for each in self._verifiers)]

    def refusal(self, headers: Mapping[bytes, bytes]) -> str | None:
        """Return the first reason of a verifier to refuse a request."""
        return next((why for each in self._verifiers if (why := each.refusal(headers)) is not None), None)

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


def _issuer_of(token: str) -> str | None:
    """Return the unverified issuer of a token; None if the token is not a JWT or has none."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        payload = from_json(urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except ValueError:
        return None
    issuer = (members_in(payload) or {}).get("iss")
    return issuer if isinstance(issuer, str) else None
