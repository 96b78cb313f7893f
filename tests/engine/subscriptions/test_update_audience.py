"""An update of a resource for some of those who listen: in both eras, and in other processes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from typing import Any

import httpx2
import pytest

from mcpkit import Memory, Principal, Registry, Server
from mcpkit.engine.subscriptions.relay import MOST_ASKED
from mcpkit.testing import Client, connect
from tests.helpers.listening import Ear, updated
from tests.helpers.pipe import settle
from tests.helpers.process_client import STATELESS_META as META
from tests.helpers.serving import PATIENCE, in_thread

REVISIONS = ["2025-11-25", "2026-07-28"]
INBOX, NEWS = "mail://inbox", "mail://news"
ADA, BOB, ROOT = Principal("ada", {"mail"}), Principal("bob", {"mail"}), Principal("root", {"mail", "admin"})


def mail_server(broker: Memory | None = None) -> Server:
    server = Server("mail", shared=broker)

    @server.resource(INBOX)
    def inbox() -> str:
        return ""

    @server.resource(NEWS)
    def news() -> str:
        return ""

    return server


@asynccontextmanager
async def subscribed(server: Server, revision: str, principal: Principal) -> AsyncIterator[Client]:
    """Connect a client that has subscribed to both resources."""
    async with connect(server, revision=revision, principal=principal) as client:
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


async def heard(client: Client) -> list[str]:
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
async def test_those_who_are_meant_are_told(
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
        teller.resource_updated(INBOX, to=to)
        await settle()
        teller.resource_updated(NEWS)
        told = [await heard(client) for client in clients]
    assert [who.id for who, uris in zip((ADA, BOB, ROOT), told, strict=True) if INBOX in uris] == names


@pytest.mark.anyio
@pytest.mark.parametrize(
    "to",
    [
        Principal("one#ada"),
        lambda who: who.issuer == "one" and who.subject == "ada",
        lambda who: who.client_id == "phone",
    ],
)
async def test_what_an_access_token_says_of_somebody_is_known_elsewhere(to: Any) -> None:
    broker = Memory()
    server, teller = mail_server(broker), mail_server(broker)
    ada = Principal("one#ada", client_id="phone", issuer="one", subject="ada", claims={"org_id": "acme"})
    eve = Principal("two#ada", client_id="desk", issuer="two", subject="ada")
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(teller.running())
        clients = [
            await stack.enter_async_context(subscribed(server, "2025-11-25", who)) for who in (ada, eve)
        ]
        teller.resource_updated(INBOX, to=to)
        await settle()
        teller.resource_updated(NEWS)
        assert [INBOX in await heard(client) for client in clients] == [True, False]


@pytest.mark.anyio
async def test_updates_that_are_told_as_one_are_for_both() -> None:
    server = mail_server()
    ears = {who: Ear() for who in (ADA, BOB, ROOT)}
    for who, ear in ears.items():
        ear.principal = who
        server.engine.hubs.here().want(ear, updated(INBOX))
    server.resource_updated(INBOX, to=ADA)
    server.resource_updated(INBOX, to=lambda who: who.id == "bob")
    await settle()
    assert [len(ear.heard) for ear in ears.values()] == [1, 1, 0]
    server.resource_updated(INBOX, to=ADA)
    server.resource_updated(INBOX)
    server.resource_updated(INBOX, to=BOB)
    await settle()
    assert [len(ear.heard) for ear in ears.values()] == [2, 2, 1]


@pytest.mark.anyio
async def test_it_holds_for_what_is_included_and_from_a_thread() -> None:
    registry, server = Registry(), mail_server()
    server.include(registry, prefix="in")
    ears = [Ear(), Ear()]
    for who, ear in zip((ADA, BOB), ears, strict=True):
        ear.principal = who
        server.engine.hubs.here().want(ear, updated("mail://in/box"))
    await asyncio.to_thread(registry.resource_updated, "mail://box", to=ADA)
    await settle()
    assert [len(ear.heard) for ear in ears] == [1, 0]


@pytest.mark.anyio
async def test_a_function_that_fails_tells_nobody(caplog: pytest.LogCaptureFixture) -> None:
    def broken(who: Principal) -> bool:
        raise LookupError("no such user")

    server = mail_server()
    ear = Ear()
    server.engine.hubs.here().want(ear, updated(INBOX))
    server.resource_updated(INBOX, to=broken)
    await settle()
    server.resource_updated(INBOX, to=lambda who: "yes")  # type: ignore[arg-type, return-value]  # on purpose
    await settle()
    assert ear.heard == []
    assert "LookupError: no such user" in caplog.text
    assert "returned 'yes', neither True nor False" in caplog.text


@pytest.mark.parametrize("to", ["ada", 5, ["ada"]])
def test_what_names_nobody_is_refused(to: Any) -> None:
    with pytest.raises(TypeError, match="to must be a Principal, or a function of one"):
        mail_server().resource_updated(INBOX, to=to)


def test_an_async_function_and_a_principal_without_an_id_are_refused() -> None:
    async def check(who: Principal) -> bool:
        return True

    with pytest.raises(TypeError, match="not async"):
        mail_server().resource_updated(INBOX, to=check)  # type: ignore[arg-type]  # on purpose
    with pytest.raises(ValueError, match="names nobody"):
        mail_server().resource_updated(INBOX, to=Principal())


@pytest.mark.anyio
@pytest.mark.parametrize(
    "message",
    [
        {"origin": "x", "what": "resource", "uri": INBOX, "to": "ada"},
        {"origin": "x", "what": "resource", "uri": INBOX, "to": {"ids": ["ada"], "principals": [1]}},
        {"origin": "x", "what": "resource", "uri": INBOX, "to": {}},
        {"origin": "x", "what": "who", "uri": INBOX},
    ],
)
async def test_a_message_that_is_none_tells_nobody(
    message: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    broker = Memory()
    server = mail_server(broker)
    ear = Ear()
    server.engine.hubs.here().want(ear, updated(INBOX))
    await broker.publish("mail/changes", json.dumps(message))
    await settle()
    assert ear.heard == []
    assert "something else than a change" in caplog.text


@pytest.mark.anyio
async def test_many_who_listen_elsewhere_and_many_questions() -> None:
    broker = Memory()
    here, there = mail_server(broker), mail_server(broker)
    ears = [Ear() for _ in range(120)]
    for number, ear in enumerate(ears):
        ear.principal = Principal(f"user {number}")
        there.engine.hubs.here().want(ear, updated(INBOX))
    async with here.running(), there.running():
        here.resource_updated(INBOX, to=lambda who: str(who.id).endswith("7"))
        await settle()
        assert [number for number, ear in enumerate(ears) if ear.heard] == list(range(7, 120, 10))
        for _ in range(MOST_ASKED + 1):
            here.resource_updated(INBOX, to=lambda who: False)
        await settle()
        await broker.publish("mail/changes/nobody", "not even JSON")


def events(stream: httpx2.Response) -> Iterator[dict[str, Any]]:
    return (json.loads(text[6:]) for text in stream.iter_lines() if text.startswith("data: {"))


def uris(stream: Iterator[dict[str, Any]]) -> list[str]:
    """Return what an event stream tells up to the news."""
    found: list[str] = []
    for event in stream:
        if event.get("method") == "notifications/resources/updated":
            found.append(event["params"]["uri"])
            if found[-1] == NEWS:
                break
    return found


@pytest.mark.parametrize("revision", REVISIONS)
def test_over_http_only_the_streams_of_who_is_meant_hear_of_it(revision: str) -> None:
    server = mail_server()
    app = server.asgi(principal=lambda scope: Principal(dict(scope["headers"])[b"x-user"].decode()))
    with in_thread(app) as url, httpx2.Client(timeout=PATIENCE) as http, ExitStack() as stack:
        opened = {}
        for name in ("ada", "bob"):
            headers = {"Accept": "application/json, text/event-stream", "X-User": name}
            open_ = open_stateless if revision == "2026-07-28" else open_session
            stream = events(stack.enter_context(open_(http, f"{url}/mcp", headers)))
            if revision == "2026-07-28":
                next(stream)  # the acknowledgement
            opened[name] = stream
        server.resource_updated(INBOX, to=Principal("ada"))
        server.resource_updated(NEWS)
        assert {name: uris(stream) for name, stream in opened.items()} == {
            "ada": [INBOX, NEWS],
            "bob": [NEWS],
        }


def open_stateless(http: httpx2.Client, url: str, headers: dict[str, str]) -> Any:
    params = {"notifications": {"resourceSubscriptions": [INBOX, NEWS]}, "_meta": META}
    message = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params}
    told = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "subscriptions/listen"}
    return http.stream("POST", url, json=message, headers=headers | told)


def open_session(http: httpx2.Client, url: str, headers: dict[str, str]) -> Any:
    params = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    }
    answer = http.post(
        url, json={"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}, headers=headers
    )
    headers = {**headers, "Mcp-Session-Id": answer.headers["mcp-session-id"]}
    http.post(url, json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=headers)
    for number, uri in enumerate((INBOX, NEWS), 2):
        message = {"jsonrpc": "2.0", "id": number, "method": "resources/subscribe", "params": {"uri": uri}}
        assert http.post(url, json=message, headers=headers).status_code == 200
    return http.stream("GET", url, headers=headers)
