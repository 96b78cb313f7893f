"""An update of a resource for some of those who listen: in both eras, and in other processes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from mcpkit import Principal, Server
from mcpkit.storage import Memory
from mcpkit.testing import TestClient, connect
from tests.helpers.pipe import Ear, settle, updated

REVISIONS = ["2025-11-25", "2026-07-28"]
INBOX, NEWS = "mail://inbox", "mail://news"
ADA, BOB, ROOT = Principal("ada", {"mail"}), Principal("bob", {"mail"}), Principal("root", {"mail", "admin"})


def mail_server(broker: Memory | None = None) -> Server:
    server = Server("mail", storage=broker)

    @server.resource(INBOX)
    def inbox() -> str:
        return ""

    @server.resource(NEWS)
    def news() -> str:
        return ""

    return server


@asynccontextmanager
async def subscribed(server: Server, revision: str, principal: Principal) -> AsyncIterator[TestClient]:
    """Connect a client that has subscribed to both resources."""
    async with connect(server, protocol_version=revision, principal=principal) as client:
        if revision == "2026-07-28":
            wanted = {"resourceSubscriptions": [INBOX, NEWS]}
            task = asyncio.ensure_future(client.request("subscriptions/listen", {"notifications": wanted}))
            await client.notification("notifications/subscriptions/acknowledged")
            yield client
            task.cancel()
        else:
            for uri in (INBOX, NEWS):
                await client.request("resources/subscribe", {"uri": uri})
            yield client


async def heard(client: TestClient) -> list[str]:
    """Return what the client is told up to the news, which are for everybody."""
    uris: list[str] = []
    while NEWS not in uris:
        uris.append((await client.notification("notifications/resources/updated"))["uri"])
    return uris


@pytest.mark.anyio
@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("is_elsewhere", [False, True])
@pytest.mark.parametrize(
    ("to", "names"),
    [
        (Principal("ada"), ["ada"]),
        (Principal("ada", {"other", "scopes"}), ["ada"]),
        (lambda who: "admin" in who.scopes, ["root"]),
        (lambda who: who.id in {"ada", "bob"}, ["ada", "bob"]),
        (lambda who: False, []),
        (None, ["ada", "bob", "root"]),
    ],
)
async def test_update_is_sent_to_its_audience(
    revision: str, is_elsewhere: bool, to: Any, names: list[str]
) -> None:
    broker = Memory() if is_elsewhere else None
    server = mail_server(broker)
    teller = mail_server(broker) if is_elsewhere else server
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(teller.running())
        clients = [
            await stack.enter_async_context(subscribed(server, revision, who)) for who in (ADA, BOB, ROOT)
        ]
        teller.notify_resource_updated(INBOX, to=to)
        await settle()
        teller.notify_resource_updated(NEWS)
        told = [await heard(client) for client in clients]
    assert [who.id for who, uris in zip((ADA, BOB, ROOT), told, strict=True) if INBOX in uris] == names


@pytest.mark.anyio
async def test_update_whose_audience_function_fails_is_not_sent(caplog: pytest.LogCaptureFixture) -> None:
    def broken(who: Principal) -> bool:
        raise LookupError("no such user")

    server = mail_server()
    ear = Ear()
    server.engine.hubs.here().want(ear, updated(INBOX))
    server.notify_resource_updated(INBOX, to=broken)
    await settle()
    server.notify_resource_updated(INBOX, to=lambda who: "yes")  # type: ignore[arg-type, return-value]  # on purpose
    await settle()
    assert ear.heard == []
    assert "LookupError: no such user" in caplog.text
    assert "returned 'yes' instead of True or False" in caplog.text


def test_an_async_function_and_a_principal_without_an_id_are_refused() -> None:
    async def check(who: Principal) -> bool:
        return True

    with pytest.raises(TypeError, match="not async"):
        mail_server().notify_resource_updated(INBOX, to=check)  # type: ignore[arg-type]  # on purpose
    with pytest.raises(ValueError, match="matches no client"):
        mail_server().notify_resource_updated(INBOX, to=Principal())


def uris(stream: Iterator[dict[str, Any]]) -> list[str]:
    """Return what an event stream tells up to the news."""
    found: list[str] = []
    for event in stream:
        if event.get("method") == "notifications/resources/updated":
            found.append(event["params"]["uri"])
            if found[-1] == NEWS:
                break
    return found
