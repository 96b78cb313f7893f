"""Sessions whose ids were signed under a secret that is being replaced."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mcpkit import Context, Memory, Server, Sqlite
from mcpkit.state.shared import Shared
from tests.helpers.asgi_client import Serve, Session

pytestmark = pytest.mark.anyio

OLD, NEW, NEWER = (f"{name} secret of the weather station" for name in ("the old", "the new", "a newer"))


class Lasting(Memory):
    """An engine that outlives what would be processes."""

    is_lasting = True


@pytest.fixture(params=["lasting", "sqlite"])
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shared]:
    if request.param == "lasting":
        yield Lasting()
    else:
        with closing(Sqlite(tmp_path / "shared.db")) as made:
            yield made


def server(shared: Shared, *secrets: str) -> Server:
    """What would be started again with other secrets."""
    made = Server("weather", version="1", secret=secrets, shared=shared)

    @made.tool
    async def who(ctx: Context) -> str:
        return str(ctx.client.name)

    return made


async def is_there(session: Session) -> bool:
    answer = await session.call("who").whole()
    assert answer.status in {200, 404}
    return answer.status == 200


async def test_a_session_outlives_each_secret_that_it_has_been_used_under(
    shared: Shared, serve: Serve
) -> None:
    async with serve(server(shared, OLD)) as client:
        session = await client.initialize()
        assert await session.text("who") == "test"
    for secrets in ((NEW, OLD), (NEW,), (NEWER, NEW), (NEWER,)):
        for _ in range(2):  # also where nothing has happened in between
            async with serve(server(shared, *secrets)) as client:
                assert await session.at(client).text("who") == "test"
    async with serve(server(shared, NEWER)) as client:
        assert (await session.at(client).delete()).status == 204
        assert not await is_there(session.at(client))
    async with serve(server(shared, NEWER, NEW, OLD)) as client:
        assert not await is_there(session.at(client))


async def test_one_that_was_not_used_meanwhile_ends_with_its_secret(shared: Shared, serve: Serve) -> None:
    async with serve(server(shared, OLD)) as client:
        session = await client.initialize()
    async with serve(server(shared, NEW)) as client:
        assert not await is_there(session.at(client))
    async with serve(server(shared, NEW, OLD)) as client:
        assert await is_there(session.at(client)), "it can be made good"
    async with serve(server(shared, NEW)) as client:
        assert await is_there(session.at(client))


async def test_a_forged_id_is_none(shared: Shared, serve: Serve) -> None:
    async with serve(server(shared, OLD)) as client:
        session = await client.initialize()
    async with serve(server(shared, NEW, OLD)) as client:
        assert await is_there(session.at(client))
    assert session.id is not None
    async with serve(server(shared, NEW)) as client:
        for forged in (session.id[:-4] + "AAAA", "A" * 44 + session.id[44:], session.id + "AAAA", "", "{}"):
            answer = await client.post(
                {"jsonrpc": "2.0", "id": 1, "method": "ping"}, {"mcp-session-id": forged}
            ).whole()
            assert answer.status in {400, 404}
        assert await is_there(session.at(client))


async def test_what_says_so_in_the_store_is_believed_where_it_is_signed_alone(
    tmp_path: Path, serve: Serve
) -> None:
    shared = Lasting()
    async with serve(server(shared, OLD)) as client:
        session = await client.initialize()
    async with serve(server(shared, NEW, OLD)) as client:
        assert await is_there(session.at(client))
    (key,) = (key for key in shared._records._entries if "/session-id/" in key)
    mac = (await shared.read(key))["mac"]
    for other in ("", "00" * 32, mac[:-2] + ("00" if mac[-2:] != "00" else "01")):
        await shared.write(key, {"mac": other}, 60)
        async with serve(server(shared, NEW)) as client:
            assert not await is_there(session.at(client))


async def test_a_store_that_ends_with_the_process_is_not_asked(serve: Serve) -> None:
    shared = Memory()
    async with serve(server(shared, OLD)) as client:
        session = await client.initialize()
    async with serve(server(shared, NEW, OLD)) as client:
        assert await is_there(session.at(client))
    async with serve(server(shared, NEW)) as client:
        assert not await is_there(session.at(client))
