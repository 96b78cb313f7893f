"""Tokens that the author gives out."""

from __future__ import annotations

import logging
import re
import shlex
import subprocess
import sys
from typing import Any

import httpx2
import pytest

from mcpkit import Principal, Server
from mcpkit.auth import InvalidTokenError, StaticTokens
from tests.helpers.serving import in_thread

pytestmark = pytest.mark.anyio

TOKEN, HASH = StaticTokens.make()
AUDIENCE = "https://mcp.example.com/mcp"
_PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
COMMAND = re.compile(r"python (-c .*)")


@pytest.mark.parametrize("given", [TOKEN, HASH], ids=["token", "digest"])
@pytest.mark.parametrize(
    ("whose", "principal"),
    [
        ("backup", Principal("backup")),
        (("backup", ["notes:read"]), Principal("backup", {"notes:read"})),
        (Principal("backup", {"a"}, client_id="c"), Principal("backup", {"a"}, client_id="c")),
    ],
)
async def test_a_token_is_of_whom_the_author_says(given: str, whose: Any, principal: Principal) -> None:
    tokens = StaticTokens({StaticTokens.make()[0]: "other", given: whose})

    grant = await tokens.verify(TOKEN, AUDIENCE)

    assert grant == (principal, None, None, None)
    assert tokens.issuers == ()
    assert TOKEN not in repr(vars(tokens))


@pytest.mark.parametrize(
    "sent",
    ["", "x", TOKEN[:-1], TOKEN + "A", TOKEN.swapcase(), HASH, "\ud800", "x" * 100_000],
    ids=["nothing", "x", "shorter", "longer", "other case", "its digest", "half a character", "too long"],
)
async def test_others_are_refused(sent: str) -> None:
    with pytest.raises(InvalidTokenError, match="none that this server has given out"):
        await StaticTokens({TOKEN: "backup"}).verify(sent, AUDIENCE)


@pytest.mark.parametrize(
    ("tokens", "error", "problem"),
    [
        ({}, ValueError, "takes no token at all"),
        ({"secret": "a"}, ValueError, "shorter than 128 random bits"),
        ({"a" * 64: "a"}, ValueError, "shorter than 128 random bits"),
        ({"0123456789abcdef0123456789abcde": "a"}, ValueError, "shorter than 128 random bits"),
        ({"01234567890123456789012345678901234567": "a"}, ValueError, "shorter than 128 random bits"),
        ({TOKEN[:21]: "a"}, ValueError, "shorter than 128 random bits"),
        ({"": "a"}, ValueError, "no header can carry"),
        ({TOKEN + "\n": "a"}, ValueError, "no header can carry"),
        ({TOKEN + " x": "a"}, ValueError, "no header can carry"),
        ({HASH.upper(): "a"}, ValueError, "no header can carry"),
        ({HASH[:-1]: "a"}, ValueError, "64 digits"),
        ({TOKEN: "a", HASH: "b"}, ValueError, "there twice"),
        ({TOKEN: Principal(None)}, ValueError, "is of nobody"),
        ({TOKEN: ""}, ValueError, "must not be empty"),
        ({TOKEN: 7}, TypeError, "of a Principal, of an id"),
        ({TOKEN: ("a", "b")}, TypeError, "must be a list of texts"),
        ({7: "a"}, TypeError, "is a text"),
        ([TOKEN], TypeError, "takes a mapping"),
    ],
)
def test_what_could_be_guessed_or_means_nothing_is_refused(
    tokens: Any, error: type[Exception], problem: str
) -> None:
    with pytest.raises(error, match=problem) as caught:
        StaticTokens(tokens)

    assert TOKEN not in str(caught.value)


@pytest.mark.slow
async def test_the_command_in_the_message_makes_a_token_and_its_hash() -> None:
    with pytest.raises(ValueError, match="make one with") as caught:
        StaticTokens({"secret": "a"})
    command = COMMAND.search(str(caught.value))
    assert command is not None

    made = subprocess.run(
        [sys.executable, *shlex.split(command[1])], capture_output=True, text=True, check=True
    )

    token, hashed = made.stdout.split()
    assert (await StaticTokens({hashed: "backup"}).verify(token, AUDIENCE)).principal.id == "backup"
    assert StaticTokens({token: "backup"})


def test_at_the_start_it_says_that_nobody_can_log_in(caplog: pytest.LogCaptureFixture) -> None:
    server = Server("notes", auth=StaticTokens({TOKEN: "backup"}))
    headers = {"Authorization": f"Bearer {TOKEN}", "Accept": "application/json, text/event-stream"}
    with caplog.at_level(logging.WARNING, "mcpkit"), in_thread(server.asgi(public_url=AUDIENCE)) as url:
        known = httpx2.post(f"{url}/mcp", json=_PING, headers=headers)
        unknown = httpx2.post(f"{url}/mcp", json=_PING, headers={**headers, "Authorization": "Bearer x"})

    assert (known.status_code, unknown.status_code) == (400, 401)  # a ping outside of a session, and nobody's
    assert "resource_metadata" not in unknown.headers["www-authenticate"]
    assert (
        "notes takes 1 static token at https://mcp.example.com/mcp: no client can log in there by itself"
        in caplog.messages
    )
