"""Several verifiers as one: each token goes to the one whose issuer it names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from pydantic_core import from_json

from .verifier import Grant, InvalidTokenError, Site, TokenVerifier

if TYPE_CHECKING:
    from starlette.routing import Route


class Issuers(TokenVerifier):
    """Chooses who verifies a token: by the issuer that it names, unverified; what names none, whoever has no issuer.

    Args:
        verifiers: The verifiers.

    Raises:
        ValueError: There is none, or two have one issuer, or two have none.
    """

    def __init__(self, verifiers: Sequence[TokenVerifier]) -> None:
        if not verifiers:
            raise ValueError("auth=[] verifies nothing: leave auth out to serve everybody")
        self._verifiers = tuple(verifiers)
        self.issuers = tuple(chain.from_iterable(each.issuers for each in verifiers))
        if len(set(self.issuers)) < len(self.issuers):
            raise ValueError("auth: two verifiers are for one issuer, so that nobody knows which holds")
        self._by_issuer = {issuer: each for each in verifiers for issuer in each.issuers}

    async def verify(self, token: str, audience: str) -> Grant:
        """Have the right one verify a token."""
        named = _issuer_of(token)
        if named is not None:
            verifier = self._by_issuer.get(named)
            if verifier is None:
                raise InvalidTokenError("The access token is of another issuer")
            return await verifier.verify(token, audience)
        for verifier in self._verifiers:
            try:
                return await verifier.verify(token, audience)
            except InvalidTokenError:
                continue
        raise InvalidTokenError("The access token is none of this server's")

    def enter(self, site: Site) -> None:
        """Tell each where the tokens are taken."""
        for each in self._verifiers:
            each.enter(site)

    def routes(self) -> Sequence[Route]:
        """Return what they serve."""
        return [*chain.from_iterable(each.routes() for each in self._verifiers)]

    def refusal(self, headers: Mapping[bytes, bytes]) -> str | None:
        """Return why one of them refuses a request."""
        return next((why for each in self._verifiers if (why := each.refusal(headers)) is not None), None)

    async def aclose(self) -> None:
        """Close what they keep open."""
        for each in self._verifiers:
            await each.aclose()


def _issuer_of(token: str) -> str | None:
    """Return the issuer that a token names; None where it is no JWT, or names none. Nothing of it is believed."""
    from base64 import urlsafe_b64decode

    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        payload = from_json(urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except ValueError:
        return None
    issuer = payload.get("iss") if isinstance(payload, dict) else None
    return issuer if isinstance(issuer, str) else None
