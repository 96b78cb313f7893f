"""The look at real servers with a real authorization server behind them: who will fail to log in there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from mcpkit import Scope, Server, check_authorization
from mcpkit.auth import InvalidTokenError, TokenVerifier
from tests.helpers.identity_provider import IdentityProvider, providing
from tests.helpers.serving import in_thread_at
from tests.interop.authorization.guarded import official

pytestmark = pytest.mark.anyio


class NoToken(TokenVerifier):
    """Knows no token of an issuer."""

    def __init__(self, issuer: str) -> None:
        self.issuers = (issuer,)

    async def verify(self, token: str, audience: str) -> Any:
        raise InvalidTokenError("nobody has issued it")


@contextmanager
def ours(issuer: str) -> Iterator[str]:
    """Run a server of mcpkit that wants tokens of an issuer, at all its endpoints."""
    scopes = {"notes:read": Scope("Read notes", default=True)}
    server = Server("notes", auth=NoToken(issuer), scopes=scopes)
    with in_thread_at(lambda origin: server.asgi(public_url=f"{origin}/mcp")) as origin:
        yield f"{origin}/mcp"


async def codes(url: str) -> dict[str, str]:
    return {each.code: each.severity for each in await check_authorization(url)}


async def test_every_client_of_today_logs_in_at_a_server_of_mcpkit(
    identity_provider: IdentityProvider,
) -> None:
    with ours(identity_provider.issuer) as url:
        found = await check_authorization(url)
    assert [each.code for each in found if each.severity == "error"] == []
    assert {each.code for each in found} <= {"march-foreign-issuer", "cors"}
    # Of web pages it is the provider alone that keeps them out: pages register nowhere there.
    assert [each.why.partition("read: ")[2] for each in found if each.code == "cors"] == [
        "the registration_endpoint."
    ]


async def test_a_server_of_the_official_sdk_challenges_without_a_scope_and_with_an_error(
    identity_provider: IdentityProvider,
) -> None:
    with official(identity_provider.issuer) as server:
        assert await codes(server.url) == {
            "cors": "warning",
            "march-foreign-issuer": "warning",
            "challenge-without-scope": "note",
            "challenge-with-error": "note",
        }


async def test_a_provider_without_registration_lets_in_nobody_whom_it_does_not_know() -> None:
    with providing(registers=False, reads_documents=False) as provider, ours(provider.issuer) as url:
        found = await codes(url)
    assert found["no-registration"] == "error"


async def test_a_provider_that_is_down_is_told_apart_from_one_without_metadata() -> None:
    with providing() as provider:
        with ours(provider.issuer) as url, provider.down("refusing"):
            assert (await codes(url))["issuer-unreachable"] == "error"
        with ours(f"{provider.issuer}/nobody") as url:
            assert (await codes(url))["issuer-metadata"] == "error"
