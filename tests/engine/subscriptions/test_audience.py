"""Updates, list entries and watches for some clients only: `to=`, `list_entries=` and `watch=` with a principal."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated, Any, Optional

import pytest

from mcpkit import Access, Limits, Principal, RegistrationError, Server
from mcpkit.storage import Memory
from mcpkit.testing import TestClient, connect
from tests.helpers.pipe import settle
from tests.helpers.raw_client import serving
from tests.helpers.tables import each_row
from tests.helpers.watched import listen, subscribed

INBOX, NEWS = "mail://inbox", "mail://news"
ADA, BOB, ROOT = Principal("ada", {"mail"}), Principal("bob", {"mail"}), Principal("root", {"mail", "admin"})


def read() -> str:
    return ""


def mail_server(broker: Memory | None = None) -> Server:
    server = Server("mail", storage=broker)
    for uri in (INBOX, NEWS):
        server.resource(uri)(read)
    return server


async def updates(client: TestClient) -> list[str]:
    """Return the URIs of all updates up to the news, which are for all clients."""
    uris: list[str] = []
    while NEWS not in uris:
        uris.append((await client.notification("notifications/resources/updated"))["uri"])
    return uris


async def test_subscription_over_http_of_an_open_server_needs_no_login(schema_dir: Path) -> None:
    server = Server("mail")
    server.resource(INBOX, access=Access(visible=lambda who: True))(read)
    async with serving(server, schema_dir) as client:
        session = await client.initialize()
        assert (await session.ask("resources/subscribe", {"uri": INBOX}).response())["result"] == {}


@pytest.mark.parametrize("is_elsewhere", [False, True])
@each_row(("to", "names"), [
    (Principal("ada"), ["ada"]), (Principal("ada", {"other", "scopes"}), ["ada"]),
    (lambda who: "admin" in who.scopes, ["root"]), (lambda who: who.id in {"ada", "bob"}, ["ada", "bob"]),
    (lambda who: False, []), (None, ["ada", "bob", "root"]),
])  # fmt: skip
async def test_update_is_sent_to_its_audience(revision, is_elsewhere, to, names) -> None:
    broker = Memory() if is_elsewhere else None
    server = mail_server(broker)
    publisher = mail_server(broker) if is_elsewhere else server
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(publisher.running())
        clients = {
            who.id: await stack.enter_async_context(subscribed(server, revision, who, INBOX, NEWS))
            for who in (ADA, BOB, ROOT)
        }
        publisher.notify_resource_updated(INBOX, to=to)
        await settle()
        publisher.notify_resource_updated(NEWS)
        assert [name for name, client in clients.items() if INBOX in await updates(client)] == names


async def test_update_with_failing_audience_function_is_not_sent(caplog: pytest.LogCaptureFixture) -> None:
    def broken(who: Principal) -> bool:
        raise LookupError("no such user")

    server = mail_server()
    listener = listen(server, INBOX)
    for audience in (broken, lambda who: "yes"):
        server.notify_resource_updated(INBOX, to=audience)  # type: ignore[arg-type]  # on purpose
        await settle()
    assert listener.heard == []
    assert "LookupError: no such user" in caplog.text
    assert "returned 'yes' instead of True or False" in caplog.text


def test_update_for_an_async_function_or_a_principal_without_id_is_refused() -> None:
    async def check(who: Principal) -> bool:
        return True

    with pytest.raises(TypeError, match="not async"):
        mail_server().notify_resource_updated(INBOX, to=check)  # type: ignore[arg-type]  # on purpose
    with pytest.raises(ValueError, match="matches no client"):
        mail_server().notify_resource_updated(INBOX, to=Principal())


# Entries of a template

NOTES = {"ada": ["one", "two"], "bob": ["three"], None: []}


def note(owner: str, name: str) -> str:
    return f"{name} of {owner}"


def of(who: Principal) -> list[dict[str, str]]:
    return [{"uri": f"notes://{who.id}/{name}", "name": name} for name in NOTES[who.id]]


def untyped(who):  # type: ignore[no-untyped-def]
    return of(who)


def optional(limit: int = 9, *, who: Optional[Principal] = None) -> list[dict[str, str]]:  # noqa: UP045 - as written
    assert who is not None
    return of(who)[:limit]


def annotated(principal: Annotated[Principal, "the user"]) -> list[dict[str, str]]:
    return of(principal)


def number(limit: int) -> list[dict[str, str]]:
    return []


async def later(who: Principal) -> list[dict[str, str]]:
    return []


@each_row("entries", [of, untyped, optional, annotated])
async def test_entries_are_those_of_the_principal(revision: str, entries: Callable[..., Any]) -> None:
    server = Server("s", limits=Limits(page_size=1))
    server.resource("notes://{owner}/{name}", list_entries=entries)(note)
    for who, names in ((ADA, ["one", "two"]), (BOB, ["three"]), (Principal(), []), (ADA, ["one", "two"])):
        async with connect(server, protocol_version=revision, principal=who) as client:
            uris = [entry["uri"] for entry in await client.list_resources()]
            assert uris == [f"notes://{who.id}/{name}" for name in names]
            if revision == "2026-07-28":
                assert (await client.request("resources/list"))["cacheScope"] == "private"


@each_row(("entries", "problem"), [
    (number, "no value for the parameter 'limit' of list_entries="),
    (later, "list_entries= must be a function that is not async"),
    ([], "list_entries= must be a function"),
])  # fmt: skip
def test_entries_with_other_parameters_are_refused(entries: Any, problem: str) -> None:
    with pytest.raises(RegistrationError, match=problem):
        Server("s").resource("notes://{owner}/{name}", list_entries=entries)(note)


# Watches


class Watches:
    """Running watches, by owner and user."""

    def __init__(self) -> None:
        self.running: dict[tuple[str, str | None], asyncio.Queue[None]] = {}

    async def watch(self, who: Principal, owner: str = "") -> AsyncIterator[None]:
        queue = self.running[owner, who.id] = asyncio.Queue()
        try:
            while True:
                yield await queue.get()
        finally:
            del self.running[owner, who.id]


async def test_watch_with_principal_runs_for_each_user_and_uri(revision: str) -> None:
    watches, server = Watches(), Server("s")
    server.resource("mail://{owner}", name="mail", watch=watches.watch)(lambda owner: owner)
    x, y = "mail://x", "mail://y"
    users = [(ADA, [x, y]), (Principal(), [x]), (ADA, [x]), (BOB, [x])]
    async with AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(subscribed(server, revision, who, *uris)) for who, uris in users
        ]
        await settle()
        assert watches.running.keys() == {("x", "ada"), ("y", "ada"), ("x", None), ("x", "bob")}
        for owner, user, updated in (
            ("x", "bob", [3]),
            ("x", "ada", [0, 2]),
            ("x", None, [1]),
            ("y", "ada", [0]),
        ):
            watches.running[owner, user].put_nowait(None)
            await settle()
            received = [[each["params"]["uri"] for each in client.notifications] for client in clients]
            assert received == [[f"mail://{owner}"] if index in updated else [] for index in range(4)]
            for client in clients:
                client.notifications.clear()
    await settle()
    assert watches.running == {}


async def test_watch_does_not_run_for_clients_without_access() -> None:
    watches, server = Watches(), Server("s")
    access = Access(visible=lambda who: who.id == "ada")
    server.resource(INBOX, watch=watches.watch, access=access)(read)
    async with AsyncExitStack() as stack:
        for who in (BOB, ADA, Principal("eve")):
            await stack.enter_async_context(subscribed(server, "2025-11-25", who, INBOX))
        await settle()
        assert watches.running.keys() == {("", "ada")}
