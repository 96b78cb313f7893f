"""Changes at a server, as its client hears of them: the same in every revision."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from itertools import count

import pytest

from mcpkit import Cache, Change, Client, ProtocolError, Server
from mcpkit.client.changes.changes import MAX_LENGTH, MOST_WAITING, Pending, Wanted, Watch
from tests.helpers.scripted_transport import ScriptedTransport, discovered
from tests.helpers.waiting import PATIENCE, over, until

pytestmark = pytest.mark.anyio
REVISIONS = ["2024-11-05", "2025-11-25", "2026-07-28"]


class Observed:
    """A server with a tool, prompts and resources, and what its clients are subscribed to."""

    def __init__(self) -> None:
        self.server = Server("observed")
        self.watched: set[str] = set()
        self._numbers = count()
        self.server.tool(name="a")(_nothing)
        self.server.prompt(name="a")(_text)
        for name in "abc":
            self.server.resource(f"x://{name}", name=name, watch=self._watched(name))(_text)
        self.server.resource("x://all/{part}", name="parts")(_part)

    def _watched(self, name: str) -> Callable[[], AsyncGenerator[None]]:
        async def watch() -> AsyncGenerator[None]:
            self.watched.add(name)
            try:
                await asyncio.Event().wait()
                yield
            finally:
                self.watched.discard(name)

        return watch

    def add(self, kind: str) -> None:
        """Change a list."""
        added = f"added{next(self._numbers)}"
        if kind == "tools":
            self.server.tool(name=added)(_nothing)
        elif kind == "prompts":
            self.server.prompt(name=added)(_text)
        else:
            self.server.resource(f"x://{added}", name=added)(_text)


def _nothing() -> None:
    """Do nothing."""


def _text() -> str:
    return "text"


def _part(part: str) -> str:
    return part


@pytest.fixture(params=REVISIONS)
def revision(request: pytest.FixtureRequest) -> str:
    return request.param


async def heard(changes: Watch) -> Change:
    return await asyncio.wait_for(anext(changes), PATIENCE)


async def nothing_waits(changes: Watch) -> None:
    """Make sure that whatever was told before has been taken."""
    waiting = asyncio.ensure_future(anext(changes))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not waiting.done()
    await over(waiting)


@asynccontextmanager
async def connected(revision: str) -> AsyncGenerator[tuple[Observed, Client]]:
    observed = Observed()
    async with Client(observed.server, revision=revision) as client:
        yield observed, client
    await until(lambda: not observed.watched)


@pytest.mark.parametrize("kind", ["tools", "prompts", "resources"])
async def test_a_list_that_changes_is_told_once_and_no_other(revision: str, kind: str) -> None:
    async with connected(revision) as (observed, client), client.watch(**{kind: True}) as changes:
        for each in ("tools", "prompts", "resources"):
            observed.add(each)
        assert await heard(changes) == Change(kind)
        await nothing_waits(changes)
        observed.add(kind)
        assert await heard(changes) == Change(kind)


async def test_a_resource_that_was_updated_is_told_by_its_uri_and_no_other(revision: str) -> None:
    async with (
        connected(revision) as (observed, client),
        client.watch(resources=["x://a", "x://b"]) as changes,
    ):
        await until(lambda: observed.watched == {"a", "b"})
        for uri in ("x://c", "x://b", "x://a"):
            observed.server.resource_updated(uri)
            await asyncio.sleep(0)
        observed.add("resources")
        assert {await heard(changes), await heard(changes)} == {
            Change("resource", "x://a"),
            Change("resource", "x://b"),
        }
        await nothing_waits(changes)


async def test_one_uri_may_be_said_without_a_list_and_beside_lists(revision: str) -> None:
    async with (
        connected(revision) as (observed, client),
        client.watch(tools=True, resources="x://a", resource_list=True) as changes,
    ):
        observed.server.resource_updated("x://a")
        assert await heard(changes) == Change("resource", "x://a")
        observed.add("resources")
        assert await heard(changes) == Change("resources")
        observed.add("prompts")
        observed.add("tools")
        assert await heard(changes) == Change("tools")


async def test_whoever_names_nothing_hears_of_each_list(revision: str) -> None:
    async with connected(revision) as (observed, client), client.watch() as changes:
        for kind in ("resources", "tools", "prompts"):
            observed.add(kind)
            assert await heard(changes) == Change(kind)


async def test_who_watches_a_template_hears_of_what_belongs_to_it(revision: str) -> None:
    async with (
        connected(revision) as (observed, client),
        client.watch(resources="x://all/{part}") as all_,
        client.watch(resources="x://all/1") as one,
        client.watch(resources="x://a") as other,
    ):
        for part in ("1", "2"):
            observed.server.resource_updated(f"x://all/{part}")
            assert await heard(all_) == Change("resource", f"x://all/{part}")
        assert await heard(one) == Change("resource", "x://all/1")
        await nothing_waits(one)
        observed.server.resource_updated("x://a")
        assert (await heard(other)).uri == "x://a"


async def test_equal_changes_that_wait_are_one(revision: str) -> None:
    async with (
        connected(revision) as (observed, client),
        client.watch(tools=True, resources="x://a") as changes,
    ):
        for _ in range(3):
            observed.add("tools")
            observed.server.resource_updated("x://a")
            for _ in range(20):
                await asyncio.sleep(0)
        assert {await heard(changes), await heard(changes)} == {Change("tools"), Change("resource", "x://a")}
        await nothing_waits(changes)


async def test_leaving_ends_the_listening_at_the_server(revision: str) -> None:
    async with connected(revision) as (observed, client):
        async with client.watch(resources="x://a"):
            await until(lambda: observed.watched == {"a"})
        await until(lambda: not observed.watched)


async def test_an_error_within_it_ends_the_listening_and_arrives_as_it_is(revision: str) -> None:
    async with connected(revision) as (observed, client):

        async def fail() -> None:
            async with client.watch(resources="x://a"):
                await until(lambda: observed.watched == {"a"})
                raise RuntimeError("of its own")

        with pytest.raises(RuntimeError, match="of its own"):
            await fail()
        await until(lambda: not observed.watched)


@pytest.mark.slow
async def test_break_ends_the_listening_at_the_server(revision: str) -> None:
    async with connected(revision) as (observed, client):

        async def consume() -> Change:
            async for change in client.watch(resources="x://a"):
                break
            return change

        consuming = asyncio.create_task(consume())
        await until(lambda: observed.watched == {"a"})
        observed.server.resource_updated("x://a")
        assert await consuming == Change("resource", "x://a")
        gc.collect()
        await until(lambda: not observed.watched)


@pytest.mark.slow
async def test_cancellation_ends_the_listening_at_the_server(revision: str) -> None:
    async with connected(revision) as (observed, client):

        async def consume() -> None:
            async for _ in client.watch(resources="x://a"):
                pass

        consuming = asyncio.create_task(consume())
        await until(lambda: observed.watched == {"a"})
        await over(consuming)
        assert consuming.cancelled()
        del consuming
        gc.collect()
        await until(lambda: not observed.watched)


async def test_closing_it_ends_whoever_waits(revision: str) -> None:
    async with connected(revision) as (observed, client):
        changes = client.watch(resources="x://a")
        waiting = asyncio.create_task(anext(changes, None))
        await until(lambda: observed.watched == {"a"})
        await changes.aclose()
        assert await waiting is None
        await until(lambda: not observed.watched)
        await changes.aclose()
        assert [change async for change in changes] == []


async def test_what_waits_when_it_is_closed_is_told_to_nobody(revision: str) -> None:
    async with connected(revision) as (observed, client):
        async with client.watch(tools=True) as changes:
            observed.add("tools")
            for _ in range(20):
                await asyncio.sleep(0)
        assert [change async for change in changes] == []


async def test_closing_it_ends_whoever_waits_for_it_to_begin() -> None:
    transport = ScriptedTransport(
        lambda _, message: [discovered(message)] if message["method"] == "server/discover" else None
    )
    async with Client(transport) as client:
        changes = client.watch(tools=True)
        waiting = asyncio.create_task(anext(changes, None))
        await until(lambda: transport.methods()[-1] == "subscriptions/listen")
        await changes.aclose()
        assert await waiting is None


async def test_one_that_was_never_begun_may_be_closed(revision: str) -> None:
    async with connected(revision) as (_, client):
        changes = client.watch(tools=True)
        await changes.aclose()
        assert [change async for change in changes] == []


async def test_many_watch_at_once_and_each_hears_of_its_own(revision: str) -> None:
    async with connected(revision) as (observed, client):
        async with client.watch(resources="x://a") as first:
            async with client.watch(resources="x://a") as second, client.watch(resources=["x://b"]) as third:
                observed.server.resource_updated("x://a")
                assert await heard(first) == await heard(second) == Change("resource", "x://a")
                observed.server.resource_updated("x://b")
                assert await heard(third) == Change("resource", "x://b")
            await until(lambda: observed.watched == {"a"})
            observed.server.resource_updated("x://a")  # which one that has gone has not taken away
            assert await heard(first) == Change("resource", "x://a")
            await nothing_waits(first)
        await until(lambda: not observed.watched)


async def test_watchers_who_come_and_go_leave_no_subscription_and_take_none_away(revision: str) -> None:
    async with connected(revision) as (observed, client):

        async def look(_: int) -> None:
            async with client.watch(resources=["x://a", "x://b"]) as changes:
                observed.server.resource_updated("x://a")
                while (await heard(changes)).uri != "x://a":
                    pass

        for _ in range(5):
            await asyncio.gather(*map(look, range(10)))
        await until(lambda: not observed.watched)


async def test_the_end_of_the_client_is_the_end_without_an_error(revision: str) -> None:
    observed, before = Observed(), asyncio.all_tasks()
    async with Client(observed.server, revision=revision) as client:
        changes = client.watch(resources="x://a")
        waiting = asyncio.create_task(_all(changes))
        await until(lambda: observed.watched == {"a"})
    assert await asyncio.wait_for(waiting, PATIENCE) == []
    await until(lambda: asyncio.all_tasks() == before)
    with pytest.raises(ConnectionError, match="is not open"):
        async with client.watch(tools=True):
            pass


async def _all(changes: Watch) -> list[Change]:
    return [change async for change in changes]


async def test_what_the_server_does_not_tell_of_is_an_error_that_says_what(revision: str) -> None:
    server = Server("without resources")
    server.tool(name="a")(_nothing)
    async with Client(server, revision=revision) as client:
        with pytest.raises(
            ProtocolError, match=r"changes of the list of resources, x://a; ask for what it tells of"
        ):
            async with client.watch(tools=True, resources="x://a", resource_list=True):
                pass
        with pytest.raises(ProtocolError, match="the list of prompts"):
            async for _ in client.watch(prompts=True):
                pass
        async with client.watch() as changes:
            server.tool(name="b")(_nothing)
            assert await heard(changes) == Change("tools")


async def test_whoever_names_nothing_is_told_where_there_is_nothing(revision: str) -> None:
    async with Client(Server("empty"), revision=revision) as client:
        with pytest.raises(ProtocolError, match="any list"):
            async with client.watch():
                pass


async def test_what_makes_no_sense_is_refused_at_once() -> None:
    client = Client(Server("s"))
    with pytest.raises(TypeError, match="takes True, a URI, or URIs"):
        client.watch(resources=[1])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="has no URI"):
        client.watch(resources=[])


async def test_a_change_that_is_heard_is_not_hidden_by_what_is_kept() -> None:
    server = Server("s", cache={"tools/list": Cache(3600), "resources/read": Cache(3600, "private")})
    texts = ["first", "second"]
    server.tool(name="a")(_nothing)

    @server.resource("x://a")
    def read() -> str:
        return texts.pop(0)

    async with Client(server) as client, client.watch(tools=True, resources="x://a") as changes:
        assert len(await client.list_tools()) == 1
        server.tool(name="b")(_nothing)
        await heard(changes)
        assert len(await client.list_tools()) == 2
        assert [(await client.read("x://a"))[0]["text"] for _ in range(2)] == ["first"] * 2
        server.resource_updated("x://a")
        await heard(changes)
        assert (await client.read("x://a"))[0]["text"] == "second"


async def test_what_is_certain_takes_the_place_of_what_may_be() -> None:
    pending = Pending(Wanted(["tools"]))
    pending.add(Change("tools", None, may_have_missed=True))
    pending.add(Change("tools"))
    pending.add(Change("tools", None, may_have_missed=True))
    assert await pending.take() == Change("tools")


@pytest.mark.parametrize(("times", "length"), [(MOST_WAITING + 1, 1), (2, MAX_LENGTH // 2)])
async def test_more_updates_than_there_is_room_for_are_told_as_what_may_have_changed(
    times: int, length: int
) -> None:
    pending = Pending(Wanted(["tools"], ["x://{n}", "x://named"]))
    pending.add(Change("tools"))
    pending.add(Change("resource", "x://named"))
    for n in range(times):
        pending.add(Change("resource", f"x://{n}{length * 'x'}"))
    assert await pending.take() == Change("tools")
    assert await pending.take() == Change("resource", "x://named")
    assert await pending.take() == Change("resource", "x://{n}", may_have_missed=True)
    pending.end()
    with pytest.raises(StopAsyncIteration):
        await pending.take()


@pytest.mark.slow
async def test_what_has_been_read_takes_no_room() -> None:
    pending = Pending(Wanted(["tools"], ["x://{n}"]))
    for n in range(3 * MOST_WAITING):
        pending.add(Change("resource", f"x://{n}{MAX_LENGTH // 4 * 'x'}"))
        assert (await pending.take()).uri != "x://{n}"
