"""Tokens that are none, by the thousand, over HTTP: each has the right status and header, and leaves nothing behind."""

from __future__ import annotations

import logging
import re
from collections import Counter
from typing import Any

import pytest

from mcpkit import Context, Server
from mcpkit.auth import Jwt
from tests.helpers.asgi_client import Serve, initialize
from tests.helpers.clock import Clock
from tests.helpers.signed_tokens import CANARY, ISSUER, NOW, HostileTokens, Signer

pytestmark = pytest.mark.anyio

SIGNERS = [Signer("RS256", "one"), Signer("ES256", "two")]
TOKEN = re.compile(r"[A-Za-z0-9\-._~+/]+=*")
SEED = 20_261_122
WHERE = 'resource_metadata="https://mcp.example.com/.well-known/oauth-protected-resource/mcp"'


@pytest.fixture
def server() -> Server:
    keys = {"keys": [each.public() for each in SIGNERS]}
    server = Server("notes", secret="a secret of some length", auth=Jwt(ISSUER, keys=keys, clock=Clock(NOW)))

    @server.tool
    def whoami(ctx: Context) -> str:
        """Say who asks."""
        return str(ctx.principal.subject)

    return server


def authorization(*tokens: str) -> dict[str, bytes]:
    """Return one header for each token."""
    names = ("authorization", "Authorization")
    return {
        name: f"Bearer {token}".encode("utf-8", "surrogatepass")
        for name, token in zip(names, tokens, strict=False)
    }


@pytest.mark.slow
async def test_each_is_refused(server: Server, serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    statuses: Counter[int] = Counter()
    async with serve(server) as client:
        with caplog.at_level(logging.DEBUG):
            for number, (way, token) in enumerate(HostileTokens(SIGNERS).tokens(SEED, 1050)):
                if token != token.strip():
                    continue  # white space around a header is none of it
                request: Any = initialize() if number % 2 else b"{"
                answer = await client.post(request, authorization(token)).whole()
                told = answer.headers.get("www-authenticate", "")
                is_token = TOKEN.fullmatch(token) is not None and len(token) < 16 * 1024 - len("Bearer ")
                expected = (401, "invalid_token") if is_token else (400, "invalid_request")
                assert (answer.status, WHERE in told) == (expected[0], is_token), f"{way}: {token}"
                assert f'error="{expected[1]}"' in told
                for piece in (CANARY, *(each for each in token.split(".") if len(each) > 20)):
                    assert piece not in told
                    assert piece.encode("utf-8", "surrogatepass") not in answer.body
                    assert piece not in caplog.text
                statuses[answer.status] += 1
                caplog.clear()

        good = SIGNERS[0].token(HostileTokens(SIGNERS).claims())
        assert (await client.post(initialize(), authorization(good)).whole()).status == 200
    assert set(statuses) == {400, 401}


async def test_two_headers_are_none(server: Server, serve: Serve) -> None:
    hostile = HostileTokens(SIGNERS)
    good = SIGNERS[0].token(hostile.claims())
    async with serve(server) as client:
        for _, token in hostile.tokens(SEED, 42):
            for first, second in ((good, token), (token, good), (good, good)):
                sent = authorization(first, second)
                answer = await client.post(initialize(), sent).whole()
                assert (answer.status, 'error="invalid_request"' in answer.headers["www-authenticate"]) == (
                    400,
                    True,
                )
