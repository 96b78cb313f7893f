"""Session ids: signed tokens, short ids, and replaced secrets."""

import base64
import re
import string
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mcpkit import Context, Server
from mcpkit.protocol.revisions import Client
from mcpkit.storage import Memory, Sqlite
from mcpkit.storage.base import Storage
from mcpkit.storage.encryption_keys import Keys
from mcpkit.transports.http.sessions.session_store import RecordField, SessionToken, read_token, sign_token
from tests.helpers.raw_client import Serve

SECRET = "the secret of the weather station"
OLD, NEW, NEWER = (f"{name} secret of the weather station" for name in ("the old", "the new", "a newer"))
KEYS = Keys(SECRET, "weather")
NOW = 1_800_000_000.0


def token(client: Client | None = None, **changes: Any) -> SessionToken:
    return SessionToken(
        id="q83vEjRWeJCrze8SNFZ4kA",
        home=Memory().store_id,
        revision="2025-11-25",
        client=client or Client({"name": "test", "version": "1"}, {}),
        lists=frozenset({"tools", "resources"}),
        expires=NOW + 86400,
    )._replace(**changes)


@pytest.mark.parametrize("principal", [None, "Åsa\\\n"])
def test_token_round_trip(principal: str | None) -> None:
    info = {"name": "inspector", "version": "0.17", "title": "Der Prüfer"}
    capabilities = {"elicitation": {"form": {}, "url": {}}, "experimental": {"x": {"y": [1, 2.5, None]}}}
    original = token(Client(info, capabilities), principal=principal)
    found = read_token(Keys(SECRET, "weather"), sign_token(KEYS, original), NOW)
    assert found is not None
    assert (found.client.info, found.client.capabilities) == (info, capabilities)
    assert found._replace(client=original.client) == original


def test_token_expires_exactly():
    text = sign_token(KEYS, token(expires=NOW + 0.5))
    assert [read_token(KEYS, text, NOW + later) is None for later in (0.499, 0.5, 1e9)] == [False, True, True]


def test_token_of_other_secret_server_or_purpose_is_refused():
    text = sign_token(KEYS, token())
    for secret, name in (
        ("another secret of the station", "weather"),
        (["another secret of the station", SECRET + "!"], "weather"),
        (SECRET, "Weather"),
        (SECRET, ""),
    ):
        assert read_token(Keys(secret, name), text, NOW) is None, (secret, name)
    payload = base64.urlsafe_b64decode(text)[32:]
    for purpose in ("", "session id", "session id 2", "requestState"):
        signed = base64.urlsafe_b64encode(KEYS.sign(purpose, payload) + payload).decode()
        assert read_token(KEYS, signed, NOW) is None, purpose


@given(st.data())
def test_token_with_changed_character_is_refused(data):
    name = data.draw(st.sampled_from(["a", "ab", "abc"]))
    text = sign_token(KEYS, token(Client({"name": name, "version": "1"}, {})))
    place = data.draw(st.integers(0, len(text) - 1))
    alphabet = string.ascii_letters + string.digits + "-_+/=. \n\0\x7f\xa0é\u0661"
    other = data.draw(st.sampled_from(alphabet) | st.characters())
    assume(other != text[place])
    assert read_token(KEYS, text[:place] + other + text[place + 1 :], NOW) is None


def make_server(storage: Storage | None, *secrets: str) -> Server:
    server = Server("weather", version="1", secret_key=secrets or SECRET, storage=storage)

    @server.tool
    async def who(ctx: Context) -> str:
        return f"{ctx.client.name} {'sampling' in ctx.client.capabilities}"

    return server


async def test_session_id_is_short_with_lasting_store(tmp_path: Path, serve: Serve) -> None:
    with closing(Sqlite(tmp_path / "shared.db")) as shared:
        for store, form in ((shared, r"[A-Za-z0-9-]{1,64}"), (None, r"[!-~]{65,1024}")):
            async with serve(make_server(store)) as client:
                info = {"name": "é😀" * 300, "version": "1"}
                session = await client.initialize(clientInfo=info, capabilities={"sampling": {}})
                text = await session.text("who")
            assert re.fullmatch(form, session.id or "")
            async with serve(make_server(store)) as restarted:
                there = session.at(restarted)
                assert await there.text("who") == text
                assert text.endswith("True")
                assert (await there.delete()).status == 204
                assert (await there.call_tool("who").whole()).status == 404


def record_key(session_id: str) -> str:
    return f"weather/session/{session_id}"


class Lasting(Memory):
    is_persistent = True


async def test_record_without_signed_token_is_no_session(serve: Serve) -> None:
    store = Lasting()
    async with serve(make_server(store)) as client:
        session, other = await client.initialize(), await client.initialize()
        assert session.id is not None
        assert other.id is not None
    signed = (await store.read(record_key(other.id)))[RecordField.TOKEN]
    for written in (signed, f"{'A' * 44}{signed[44:]}", None):  # another session's, not signed, none
        await store.write(record_key(session.id), {RecordField.TOKEN: written}, 60)
        async with serve(make_server(store)) as client:
            assert (await session.at(client).call_tool("who").whole()).status == 404, written
            assert (await other.at(client).call_tool("who").whole()).status == 200


async def test_session_outlives_replaced_secrets(serve: Serve) -> None:
    store = Lasting()
    async with serve(make_server(store, OLD)) as client:
        session = await client.initialize()
    for secrets in ((NEW, OLD), (NEW,), (NEWER, NEW), (NEWER,)):
        for _ in range(2):  # also after a process in which nothing has happened
            async with serve(make_server(store, *secrets)) as client:
                assert await session.at(client).text("who") == "test False"
    async with serve(make_server(store, NEWER)) as client:
        assert (await session.at(client).delete()).status == 204
        assert (await session.at(client).call_tool("who").whole()).status == 404
    async with serve(make_server(store, NEWER, NEW, OLD)) as client:
        assert (await session.at(client).call_tool("who").whole()).status == 404


async def test_token_signed_again_must_be_valid(serve: Serve) -> None:
    store = Lasting()
    async with serve(make_server(store, OLD)) as client:
        session = await client.initialize()
    assert session.id is not None
    async with serve(make_server(store, NEW, OLD)) as client:
        assert await session.at(client).text("who") == "test False"
    signed = (await store.read(record_key(session.id)))[RecordField.TOKEN]
    other = ("A" if signed[0] != "A" else "B") + signed[1:]
    for written, status in (("", 404), ("A" * 44 + signed[44:], 404), (other, 404), (signed, 200)):
        await store.write(record_key(session.id), {RecordField.TOKEN: written}, 60)
        async with serve(make_server(store, NEW)) as client:
            assert (await session.at(client).call_tool("who").whole()).status == status
