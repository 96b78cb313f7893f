"""Session ids that gateways take, where a store is shared that outlives the processes."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mcpkit import Context, Memory, Server, Sqlite
from mcpkit.state.shared import Shared
from mcpkit.transports.http.sessions.record import TOKEN, key_of
from tests.helpers.asgi_client import Serve

pytestmark = pytest.mark.anyio

EXAMPLES = int(os.environ.get("MCPKIT_TEST_EXAMPLES", "60"))
SECRET = "the secret of the weather station"
LETTERS = "aZ9-_ é😀\u202e'\"\\/:"
CAPABILITIES = {
    "roots": {"listChanged": True},
    "sampling": {"tools": {}, "context": {}},
    "elicitation": {"form": {}, "url": {}},
    "experimental": {f"feature {number}": {"on": True} for number in range(40)},
}


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Shared]:
    with closing(Sqlite(tmp_path / "shared.db")) as made:
        yield made


def server(shared: Shared | None) -> Server:
    made = Server("weather", version="1", secret=SECRET, shared=shared)

    @made.tool
    async def who(ctx: Context) -> str:
        return f"{ctx.client.name} {'sampling' in ctx.client.capabilities}"

    return made


async def test_ids_are_short_with_a_shared_store_and_signed_without_and_last_beyond_a_restart(
    shared: Shared, serve: Serve
) -> None:
    random_ = random.Random(45)
    for number in range(EXAMPLES):
        name = "".join(random_.choices(LETTERS, k=random_.choice([1, 7, 300])))
        chosen = random_.sample(list(CAPABILITIES), random_.randrange(len(CAPABILITIES) + 1))
        client_info = {"name": name, "version": "1" * random_.choice([1, 300])}
        store = shared if number % 4 else None
        async with serve(server(store)) as client:
            session = await client.initialize(
                clientInfo=client_info, capabilities={each: CAPABILITIES[each] for each in chosen}
            )
            said = await session.text("who")
        form = r"[A-Za-z0-9-]{1,64}" if store is not None else r"[!-~]{65,1024}"
        assert re.fullmatch(form, session.id or "")
        async with serve(server(store)) as restarted:
            assert await session.at(restarted).text("who") == said
            assert said.endswith(str("sampling" in chosen))
            if number < 2:
                assert (await session.at(restarted).delete()).status == 204
                assert (await session.at(restarted).call("who").whole()).status == 404


async def test_an_id_of_before_a_store_was_shared_stays_good(shared: Shared, serve: Serve) -> None:
    async with serve(server(Memory())) as client:
        session = await client.initialize()
    async with serve(server(shared)) as client:
        assert (await session.at(client).call("who").whole()).status == 200


@pytest.mark.parametrize("written", ["another session's", "not signed", "nothing"])
async def test_a_record_without_a_token_of_its_own_is_no_session(
    written: str, shared: Shared, serve: Serve
) -> None:
    async with serve(server(shared)) as client:
        session, other = await client.initialize(), await client.initialize()
    assert session.id is not None
    assert other.id is not None
    token = (await shared.read(key_of("weather", other.id)))[TOKEN]
    texts = {"another session's": token, "not signed": f"{'A' * 44}{token[44:]}", "nothing": None}
    await shared.write(key_of("weather", session.id), {TOKEN: texts[written]}, 60)
    async with serve(server(shared)) as client:
        assert (await session.at(client).call("who").whole()).status == 404
        assert (await other.at(client).call("who").whole()).status == 200


async def test_an_id_that_was_never_given_is_none(shared: Shared, serve: Serve) -> None:
    async with serve(server(shared)) as client:
        session = await client.initialize()
        for id_ in ("0" * 32, (session.id or "").upper(), f"{session.id}0", (session.id or "")[:-1]):
            session.id = id_
            assert (await session.call("who").whole()).status == 404
