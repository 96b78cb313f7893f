"""`entries=` is told who asks, `watch=` who is subscribed; what takes nothing goes on as it was."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Annotated, Any, Optional

import pytest

from mcpkit import Access, Limits, Principal, RegistrationError, Server
from mcpkit.testing import TestClient, connect
from tests.helpers.pipe import settle

pytestmark = pytest.mark.anyio

REVISIONS = ["2025-11-25", "2026-07-28"]
ADA, BOB = Principal("ada", {"notes"}), Principal("bob")
NOTES = {"ada": ["one", "two"], "bob": ["three"], None: []}


def note(owner: str, name: str) -> str:
    return f"{name} of {owner}"


def of(who: Principal) -> list[dict[str, str]]:
    return [{"uri": f"notes://{who.id}/{name}", "name": name} for name in NOTES[who.id]]


class Notes:
    def of(self, who: Principal) -> list[dict[str, str]]:
        return of(who)


def untyped(who):  # type: ignore[no-untyped-def]
    return of(who)


def optional(limit: int = 9, *, who: Optional[Principal] = None) -> list[dict[str, str]]:  # noqa: UP045 - as written
    assert who is not None
    return of(who)[:limit]


def by_name(principal=None):  # type: ignore[no-untyped-def]
    return of(principal)


def annotated(who: Annotated[Principal, "who asks"]) -> list[dict[str, str]]:
    return of(who)


async def uris(client: TestClient) -> list[str]:
    return [entry["uri"] for entry in await client.list_resources()]


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize(
    "entries", [of, Notes().of, untyped, optional, by_name, annotated, lambda who: of(who)]
)
async def test_each_finds_their_own_entries(revision: str, entries: Callable[..., Any]) -> None:
    server = Server("s", limits=Limits(page_size=1))
    server.resource("notes://{owner}/{name}", list_entries=entries)(note)
    for _ in range(2):
        for who, names in ((ADA, ["one", "two"]), (BOB, ["three"]), (Principal(), [])):
            async with connect(server, protocol_version=revision, principal=who) as client:
                assert await uris(client) == [f"notes://{who.id}/{name}" for name in names]


async def test_such_a_list_is_private_and_others_are_not() -> None:
    for entries, scope in ((of, "private"), (list, "public")):
        server = Server("s")
        server.resource("notes://{owner}/{name}", list_entries=entries)(note)
        async with connect(server, principal=ADA) as client:
            assert (await client.request("resources/list"))["cacheScope"] == scope
            assert (await client.request("resources/templates/list"))["cacheScope"] == "public"


def two(first: Any, second: Any) -> list[dict[str, str]]:
    return []


def number(limit: int) -> list[dict[str, str]]:
    return []


async def later(who: Principal) -> list[dict[str, str]]:
    return []


@pytest.mark.parametrize(
    ("entries", "problem"),
    [
        (two, "no value for the parameter 'first' of list_entries="),
        (number, "no value for the parameter 'limit' of list_entries="),
        (later, "list_entries= must be a function that is not async"),
        ([], "list_entries= must be a function"),
    ],
)
def test_entries_with_other_parameters_are_refused(entries: Any, problem: str) -> None:
    with pytest.raises(RegistrationError, match=problem):
        Server("s").resource("notes://{owner}/{name}", list_entries=entries)(note)


class Watched:
    """Watches for each who is subscribed; `wake` makes one of the watches yield."""

    def __init__(self) -> None:
        self.running: dict[tuple[Any, ...], asyncio.Queue[Any]] = {}
        self.story: list[str] = []

    async def _watch(self, *key: Any) -> AsyncIterator[Any]:
        queue = self.running[key] = asyncio.Queue()
        try:
            while True:
                yield await queue.get()
        finally:
            del self.running[key]

    async def inbox(self, who: Principal) -> AsyncIterator[Any]:
        async for update in self._watch(who.id):
            yield update

    async def each(self, owner: str, who: Principal) -> AsyncIterator[Any]:
        async for update in self._watch(owner, who.id):
            yield update

    async def wake(self, *key: Any, update: Any = None) -> None:
        await settle()
        self.running[key].put_nowait(update)
        await settle()


def read() -> str:
    return ""


def read_owner(owner: str) -> str:
    return owner


@asynccontextmanager
async def subscribed(
    server: Server, revision: str, principal: Principal, *uris: str
) -> AsyncIterator[TestClient]:
    async with connect(server, protocol_version=revision, principal=principal) as client:
        if revision == "2026-07-28":
            wanted = {"resourceSubscriptions": list(uris), "resourcesListChanged": True}
            task = asyncio.ensure_future(client.request("subscriptions/listen", {"notifications": wanted}))
            await client.notification("notifications/subscriptions/acknowledged")
            yield client
            task.cancel()
        else:
            for uri in uris:
                await client.request("resources/subscribe", {"uri": uri})
            yield client


def told(client: TestClient) -> list[Any]:
    found = [message.get("params", {}).get("uri") for message in client.notifications]
    client.notifications.clear()
    return found


@pytest.mark.parametrize("revision", REVISIONS)
async def test_each_subscriber_has_a_watch_of_their_own(revision: str) -> None:
    source, server = Watched(), Server("s")
    server.resource("mail://inbox", watch=source.inbox)(read)
    async with AsyncExitStack() as stack:
        ada = await stack.enter_async_context(subscribed(server, revision, ADA, "mail://inbox"))
        await settle()
        assert source.running.keys() == {("ada",)}
        async with subscribed(server, revision, BOB, "mail://inbox") as bob:
            nobody = await stack.enter_async_context(
                subscribed(server, revision, Principal(), "mail://inbox")
            )
            again = await stack.enter_async_context(subscribed(server, revision, ADA, "mail://inbox"))
            await settle()
            assert source.running.keys() == {("ada",), ("bob",), (None,)}
            await source.wake("bob")
            assert [told(client) for client in (ada, bob, nobody, again)] == [[], ["mail://inbox"], [], []]
            await source.wake("ada")
            assert [told(client) for client in (ada, bob, nobody, again)] == [
                ["mail://inbox"],
                [],
                [],
                ["mail://inbox"],
            ]
            await source.wake(None)
            assert [told(client) for client in (ada, bob, nobody, again)] == [[], [], ["mail://inbox"], []]
        await settle()
        assert source.running.keys() == {("ada",), (None,)}
    await settle()
    assert source.running == {}


@pytest.mark.parametrize("revision", REVISIONS)
async def test_watch_of_a_template_receives_values_and_principal(revision: str) -> None:
    source, server = Watched(), Server("s")
    server.resource("mail://{owner}", watch=source.each)(read_owner)
    async with (
        subscribed(server, revision, ADA, "mail://x", "mail://y") as ada,
        subscribed(server, revision, BOB, "mail://x") as bob,
    ):
        await settle()
        assert source.running.keys() == {("x", "ada"), ("y", "ada"), ("x", "bob")}
        await source.wake("x", "ada")
        assert [told(ada), told(bob)] == [["mail://x"], []]


async def test_watch_does_not_run_for_clients_without_access() -> None:
    source, server = Watched(), Server("s")
    visible = lambda who: who.id == "ada"  # noqa: E731 - as authors write it
    server.resource("mail://inbox", watch=source.inbox, access=Access(visible=visible))(read)
    async with (
        subscribed(server, "2025-11-25", BOB, "mail://inbox"),
        subscribed(server, "2025-11-25", ADA, "mail://inbox"),
        subscribed(server, "2025-11-25", Principal("eve"), "mail://inbox"),
    ):
        await settle()
        assert source.running.keys() == {("ada",)}
