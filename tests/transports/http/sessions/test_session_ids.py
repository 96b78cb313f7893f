"""Session ids: signed tokens, short ids, and replaced secrets."""

from __future__ import annotations

import base64
import re
import string
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mcpkit import Context, Server
from mcpkit.protocol.eras import Client
from mcpkit.state.keys import Keys
from mcpkit.state.shared import Storage
from mcpkit.storage import Memory, Sqlite
from mcpkit.transports.http.sessions.record import TOKEN, key_of
from mcpkit.transports.http.sessions.token import SessionToken, issue, read
from tests.helpers.raw_client import Serve, Session

pytestmark = pytest.mark.anyio

SECRET = "the secret of the weather station"


KEYS = Keys(SECRET, "weather")


NOW = 1_800_000_000.0


ALPHABET = string.ascii_letters + string.digits + "-_"


STANDARD: dict[str, Any] = {
    "roots": {"listChanged": True},
    "sampling": {"context": {}, "tools": {}},
    "elicitation": {"form": {}, "url": {}},
    "tasks": {
        "list": {},
        "cancel": {},
        "requests": {"sampling": {"createMessage": {}}, "elicitation": {"create": {}}},
    },
}


def token(
    info: dict[str, Any] | None = None, capabilities: dict[str, Any] | None = None, **changes: Any
) -> SessionToken:
    return SessionToken(
        id="q83vEjRWeJCrze8SNFZ4kA",
        home=Memory().store_id,
        revision="2025-11-25",
        client=Client(info or {"name": "test", "version": "1"}, capabilities or {}),
        lists=frozenset({"tools", "resources"}),
        expires=NOW + 86400,
    )._replace(**changes)


def fields_of(token: SessionToken | None) -> tuple[Any, ...] | None:
    return token and (*token._replace(client=None), token.client.info, token.client.capabilities)


@pytest.mark.parametrize("lists", [["tools", "prompts", "resources"]])
@pytest.mark.parametrize("principal", [None, "Åsa\\\n"])
def test_token_round_trip(lists, principal):
    original = token(
        {"name": "inspector", "version": "0.17", "title": "Der Prüfer", "websiteUrl": "https://example.com"},
        STANDARD | {"experimental": {"x": {"y": [1, 2.5, None]}}, "extensions": {"com.example/ui": {}}},
        lists=frozenset(lists),
        principal=principal,
    )
    text = issue(KEYS, original)
    assert fields_of(read(Keys(SECRET, "weather"), text, NOW)) == fields_of(original)


def test_token_expires_exactly():
    text = issue(KEYS, token(expires=NOW + 0.5))
    assert read(KEYS, text, NOW + 0.499) is not None
    assert read(KEYS, text, NOW + 0.5) is None
    assert read(KEYS, text, NOW + 1e9) is None


@pytest.mark.parametrize(
    "keys",
    [
        Keys("another secret of the station", "weather"),
        Keys(["another secret of the station", SECRET + "!"], "weather"),
        Keys(SECRET, "Weather"),
        Keys(SECRET, ""),
    ],
    ids=["secret", "secrets", "name", "no name"],
)
def test_token_of_other_secret_or_server_is_refused(keys):
    assert read(keys, issue(KEYS, token()), NOW) is None


def test_token_of_replaced_secret_is_read():
    rotated = Keys(["the new secret of the station", SECRET], "weather")
    original = token()
    assert fields_of(read(rotated, issue(KEYS, original), NOW)) == fields_of(original)
    assert read(KEYS, issue(rotated, original), NOW) is None


def test_token_for_other_purpose_is_refused():
    payload = base64.urlsafe_b64decode(issue(KEYS, token()))[32:]
    for purpose in ["", "session id", "session id 2", "requestState"]:
        assert (
            read(KEYS, base64.urlsafe_b64encode(KEYS.sign(purpose, payload) + payload).decode(), NOW) is None
        )


@given(st.data())
def test_token_with_changed_character_is_refused(data):
    text = issue(KEYS, token({"name": data.draw(st.sampled_from(["a", "ab", "abc"])), "version": "1"}))
    place = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.sampled_from(ALPHABET + "+/=. \n\0\x7f\xa0é\u0661") | st.characters())
    assume(other != text[place])
    assert read(KEYS, text[:place] + other + text[place + 1 :], NOW) is None


ID_SECRET = "the secret of the weather station"


@pytest.fixture
def shared_file(tmp_path: Path) -> Iterator[Storage]:
    with closing(Sqlite(tmp_path / "shared.db")) as made:
        yield made


def make_named_server(shared_file: Storage | None) -> Server:
    made = Server("weather", version="1", secret_key=ID_SECRET, storage=shared_file)

    @made.tool
    async def who(ctx: Context) -> str:
        return f"{ctx.client.name} {'sampling' in ctx.client.capabilities}"

    return made


async def test_session_id_is_short_with_lasting_store(shared_file: Storage, serve: Serve) -> None:
    for store, form in ((shared_file, r"[A-Za-z0-9-]{1,64}"), (None, r"[!-~]{65,1024}")):
        async with serve(make_named_server(store)) as client:
            session = await client.initialize(
                clientInfo={"name": "é😀" * 300, "version": "1"}, capabilities={"sampling": {}}
            )
            text = await session.text("who")
        assert re.fullmatch(form, session.id or "")
        async with serve(make_named_server(store)) as restarted:
            assert await session.at(restarted).text("who") == text
            assert text.endswith("True")
            assert (await session.at(restarted).delete()).status == 204
            assert (await session.at(restarted).call_tool("who").whole()).status == 404


@pytest.mark.parametrize("written", ["another session's", "not signed", "nothing"])
async def test_record_without_signed_token_is_no_session(
    written: str, shared_file: Storage, serve: Serve
) -> None:
    async with serve(make_named_server(shared_file)) as client:
        session, other = await client.initialize(), await client.initialize()
    assert session.id is not None
    assert other.id is not None
    token = (await shared_file.read(key_of("weather", other.id)))[TOKEN]
    texts = {"another session's": token, "not signed": f"{'A' * 44}{token[44:]}", "nothing": None}
    await shared_file.write(key_of("weather", session.id), {TOKEN: texts[written]}, 60)
    async with serve(make_named_server(shared_file)) as client:
        assert (await session.at(client).call_tool("who").whole()).status == 404
        assert (await other.at(client).call_tool("who").whole()).status == 200


OLD, NEW, NEWER = (f"{name} secret of the weather station" for name in ("the old", "the new", "a newer"))


class Lasting(Memory):
    is_persistent = True


@pytest.fixture
def lasting_store() -> Lasting:
    return Lasting()


def make_successor(lasting_store: Lasting, *secrets: str) -> Server:
    made = Server("weather", version="1", secret_key=secrets, storage=lasting_store)

    @made.tool
    async def who(ctx: Context) -> str:
        return str(ctx.client.name)

    return made


async def is_alive(session: Session) -> bool:
    answer = await session.call_tool("who").whole()
    assert answer.status in {200, 404}
    return answer.status == 200


async def test_session_outlives_replaced_secrets(lasting_store: Lasting, serve: Serve) -> None:
    async with serve(make_successor(lasting_store, OLD)) as client:
        session = await client.initialize()
        assert await session.text("who") == "test"
    for secrets in ((NEW, OLD), (NEW,), (NEWER, NEW), (NEWER,)):
        for _ in range(2):  # also where nothing has happened in between
            async with serve(make_successor(lasting_store, *secrets)) as client:
                assert await session.at(client).text("who") == "test"
    async with serve(make_successor(lasting_store, NEWER)) as client:
        assert (await session.at(client).delete()).status == 204
        assert not await is_alive(session.at(client))
    async with serve(make_successor(lasting_store, NEWER, NEW, OLD)) as client:
        assert not await is_alive(session.at(client))


async def test_successor_record_must_be_signed(tmp_path: Path, serve: Serve) -> None:
    lasting_store = Lasting()
    async with serve(make_successor(lasting_store, OLD)) as client:
        session = await client.initialize()
    async with serve(make_successor(lasting_store, NEW, OLD)) as client:
        assert await is_alive(session.at(client))
    (key,) = (key for key in lasting_store._records._entries if "/session-id/" in key)
    mac = (await lasting_store.read(key))["mac"]
    for other in ("", "00" * 32, mac[:-2] + ("00" if mac[-2:] != "00" else "01")):
        await lasting_store.write(key, {"mac": other}, 60)
        async with serve(make_successor(lasting_store, NEW)) as client:
            assert not await is_alive(session.at(client))
