"""Conversations are written down, and played again without their servers."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from mcpkit import Client, Context, ProtocolError, Replay, Server, SyncClient, TransportError

pytestmark = pytest.mark.anyio
REVISIONS = ["2025-06-18", "2026-07-28"]


def make_server() -> Server:
    server, numbers = Server("bakery", version="3"), count(1)

    @server.tool
    async def bake(bread: str, ctx: Context) -> str:
        await ctx.progress(1, 2, "in the oven")
        return f"{bread} {next(numbers)}"

    @server.tool
    async def ask(ctx: Context) -> str:
        return f"{await ctx.elicit('How many?', int)}"

    @server.resource("bread://rye")
    def rye() -> str:
        return "rye"

    return server


async def talk(client: Client) -> list[Any]:
    """Ask all kinds of things."""
    steps: list[Any] = []
    told = [
        client.revision,
        client.server_info,
        await client.list_tools(),
        (await client.call("bake", {"bread": "rye"}, progress=lambda *step: steps.append(step))).text,
        (await client.call("bake", {"bread": "rye"})).text,
        (await client.call("bake", {"bread": "wheat"})).text,
        (await client.call("ask")).text,
        await client.read("bread://rye"),
    ]
    with pytest.raises(ProtocolError) as caught:
        await client.read("bread://none")
    return [*told, steps, str(caught.value)]


@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_recording_answers_as_the_server_did(tmp_path: Path, revision: str) -> None:
    path = tmp_path / "bakery.jsonl"
    async with Client(
        make_server(), revision=revision, record=path, elicit=lambda form: {"value": 3}
    ) as client:
        told = await talk(client)
    assert told[3:6] == ["rye 1", "rye 2", "wheat 3"]
    async with Client(Replay(path), revision=revision, elicit=lambda form: {"value": 3}) as client:
        assert await talk(client) == told
        assert (await client.call("bake", {"bread": "rye"})).text == "rye 2"  # the last one from then on


async def test_what_was_not_recorded_is_said(tmp_path: Path) -> None:
    path = tmp_path / "bakery.jsonl"
    async with Client(make_server(), record=path) as client:
        await client.call("bake", {"bread": "rye"})
    async with Client(Replay(path)) as client:
        with pytest.raises(TransportError, match=r'has no tools/call .*"wheat".*: record it anew'):
            await client.call("bake", {"bread": "wheat"})
        assert (await client.call("bake", {"bread": "rye"})).text == "rye 1"


async def test_secrets_are_in_no_recording(tmp_path: Path) -> None:
    path, server = tmp_path / "vault.jsonl", Server("vault")

    @server.tool
    def unlock(password: str) -> str:
        return "open"

    async with Client(server, record=path) as client:
        await client.call("unlock", {"password": "open sesame"})
    assert "open sesame" not in path.read_text()
    async with Client(Replay(path)) as client:
        assert (await client.call("unlock", {"password": "another"})).text == "open"


def test_without_an_event_loop(tmp_path: Path) -> None:
    path = tmp_path / "bakery.jsonl"
    with SyncClient(make_server(), record=path) as client:
        client.call("bake", {"bread": "rye"})
    with SyncClient(Replay(path)) as client:
        assert client.call("bake", {"bread": "rye"}).text == "rye 1"


async def test_each_line_is_a_message(tmp_path: Path) -> None:
    path = tmp_path / "bakery.jsonl"
    async with Client(make_server(), record=path) as client:
        await client.call("bake", {"bread": "rye"})
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [next(iter(line)) for line in lines] == ["sent", "came"] * (len(lines) // 2)
    methods = [line["sent"]["method"] for line in lines if "sent" in line]
    assert methods == [
        "server/discover",
        "tools/call",
        "tools/list",
    ]  # which says what the result is held against


@pytest.mark.parametrize(
    "text", ["nothing", "{}", "[]", '{"sent": 1}\n{"a": 1, "b": 2}', '{"came": {}}\nnull']
)
def test_what_is_no_recording_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"line \d: this is no recording"):
        Replay(path)


def test_there_must_be_a_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Replay(tmp_path / "none.jsonl")


async def test_a_recording_that_cannot_be_written_does_no_harm(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with Client(make_server(), record=tmp_path) as client:
        assert (await client.call("bake", {"bread": "rye"})).text == "rye 1"
    assert "What looks at the messages has failed" in caplog.text
