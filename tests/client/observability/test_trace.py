"""Every message can be seen, and no secret."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcpkit import Client, Context, Server
from mcpkit.client.observability.masking import MASK, Mask
from mcpkit.client.observability.trace import LONGEST

pytestmark = pytest.mark.anyio


def make_server() -> Server:
    server = Server("bakery")

    @server.tool
    async def bake(flour: str, password: str, ctx: Context) -> str:
        await ctx.progress(1, 2)
        return f"bread of {flour}"

    return server


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_each_message_is_shown_in_its_order(revision: str) -> None:
    seen: list[tuple[str, Any]] = []
    async with Client(
        make_server(),
        revision=revision,
        validate=False,
        trace=lambda *told: seen.append((told[0], json.loads(told[1]))),
    ) as client:
        arguments = {"flour": "rye", "password": "open sesame"}
        await client.call("bake", arguments, progress=lambda *step: None)
    ways = [(way, message.get("method", "answer")) for way, message in seen][-3:]
    assert ways == [("sent", "tools/call"), ("came", "notifications/progress"), ("came", "answer")]
    sent = seen[-3][1]["params"]
    assert sent["arguments"] == {"flour": "rye", "password": MASK}
    assert sent["_meta"]["progressToken"] != MASK
    assert "open sesame" not in str(seen)


async def test_standard_error_shows_them(capsys: pytest.CaptureFixture[str]) -> None:
    async with Client(make_server(), trace=True, validate=False) as client:
        await client.call("bake", {"flour": "x" * 2 * LONGEST, "password": "p"})
    lines = capsys.readouterr().err.splitlines()
    assert [line[:4] for line in lines] == ["--> ", "<-- ", "--> ", "<-- "]
    assert '"method": "server/discover"' in lines[0]
    assert lines[2].endswith("characters more")
    assert len(lines[2]) < LONGEST + 100


async def test_what_fails_there_is_logged_and_does_no_harm(caplog: pytest.LogCaptureFixture) -> None:
    def fail(*told: object) -> None:
        raise ZeroDivisionError

    async with Client(make_server(), trace=fail) as client:
        assert (await client.call("bake", {"flour": "rye", "password": "p"})).text == "bread of rye"
    assert "What looks at the messages has failed" in caplog.text


@pytest.mark.parametrize(
    "line",
    [
        '{"access_token": "0123456789"}',
        '{"headers": {"Authorization": "Basic 0123456789"}}',
        '{"a": [{"apiKey": "0123456789"}]}',
        '{"API_KEY": "0123456789"}',
        '{"text": "Bearer 0123456789"}',
        '{"text": "call with eyJ0123456789.eyJ0123456789.0123456789"}',
        '{"text": "ghp_01234567890123456789"}',
        '{"text": "sk-proj-01234567890123456789"}',
        '{"text": "it is the known 0123456789"}',
        '{"the known 0123456789": 1',
    ],
)
def test_secrets_are_masked(line: str) -> None:
    text = Mask(["the known 0123456789"]).masked(line.encode())
    assert "0123456789" not in text.replace(
        "the known 0123456789", "" if line.endswith("}") else "0123456789"
    )
    assert MASK in text


@pytest.mark.parametrize(
    "line",
    [
        '{"progressToken": "abc", "maxTokens": 100, "tokens": 5}',
        '{"secret": null, "password": true}',
        '{"text": "a token is a Bearer of meaning, and passwords are strings"}',
        '{"requestState": "opaque"}',
        "[]",
        "7",
    ],
)
def test_what_is_no_secret_is_shown(line: str) -> None:
    assert json.loads(Mask(["ab"]).masked(line.encode())) == json.loads(line)


@pytest.mark.parametrize("line", [b"\xff", b"{", b"", b"[" * 100_000])
def test_what_is_no_json_is_shown_as_text(line: bytes) -> None:
    assert Mask().masked(line) == line.decode(errors="replace")


def test_what_a_client_was_given_is_known() -> None:
    mask = Mask.of(
        {
            "token": "a-token-of-mine",
            "headers": {
                "X-Api-Key": "a-key-of-mine",
                "Authorization": "Basic in-base-64",
                "Accept-Language": "german",
            },
            "env": {"DB_PASSWORD": "a-password", "HOME": "/home/ada"},
            "cwd": "/srv/bakery",
        }
    )
    line = b'["a-token-of-mine", "a-key-of-mine", "in-base-64", "german", "a-password", "/home/ada", "/srv/bakery"]'
    assert json.loads(mask.masked(line)) == [MASK, MASK, MASK, "german", MASK, "/home/ada", "/srv/bakery"]
