"""What becomes of tokens at a verifier, with a provider and a time that tests change."""

from __future__ import annotations

from typing import Any

import pytest

from mcpkit.auth import InvalidTokenError, Jwt, VerifierUnavailableError
from tests.helpers.provider import Provider
from tests.helpers.signed_tokens import AUDIENCE, Signer

OLD, NEW, NEWEST = (Signer("ES256", name) for name in ("old", "new", "newest"))
HOUR = 3600.0


def token(provider: Provider, signer: Signer = OLD, **changes: Any) -> str:
    return signer.token(iss=provider.url, exp=4_000_000_000, **changes)


async def is_taken(jwt: Jwt, sent: str) -> bool:
    try:
        await jwt.verify(sent, AUDIENCE)
    except InvalidTokenError as error:
        if "by none of the keys" not in error.description:
            raise
        return False
    return True


async def unavailable(jwt: Jwt, sent: str) -> VerifierUnavailableError:
    with pytest.raises(VerifierUnavailableError) as caught:
        await jwt.verify(sent, AUDIENCE)
    return caught.value
