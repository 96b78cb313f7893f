"""Updates, list entries and watches for some clients only: `to=`, `list_entries=` and `watch=` with a principal."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, Optional

import pytest

from mcpkit import Access, Context, Extension, Limits, Principal, ProtocolError, RegistrationError, Server
from mcpkit._utils.exceptions import OutputError
from mcpkit.extensions import SubscriptionTopic
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


# Topics of extensions: keys that clients subscribe to, audiences of messages, and refused definitions


CAPABILITIES = {"extensions": {"com.example/jobs": {}, "com.example/other": {}}}
PLAIN_ADA, ADMIN_BOB = Principal("ada"), Principal("bob", {"admin"})
METHOD = "notifications/jobs"


def jobs(server: Server, **options: Any) -> SubscriptionTopic:
    return server.extension("com.example/jobs").topic("jobIds", METHOD, **options)


def is_admin(who: Principal) -> bool:
    return "admin" in who.scopes


@asynccontextmanager
async def listening(server: Server, *principals: Principal) -> AsyncIterator[list[TestClient]]:
    """Connect clients that are subscribed to the job `a`."""
    params = {"notifications": {"jobIds": ["a"]}}
    async with AsyncExitStack() as stack:
        clients = []
        for who in principals:
            client = await stack.enter_async_context(
                connect(server, principal=who, capabilities=CAPABILITIES)
            )
            stream = asyncio.ensure_future(client.request("subscriptions/listen", params))
            stack.callback(stream.cancel)
            await client.notification("notifications/subscriptions/acknowledged")
            clients.append(client)
        yield clients


async def states(clients: list[TestClient]) -> list[str]:
    """Return the state in the next message of each client."""
    return [(await client.notification(METHOD))["state"] for client in clients]


async def refusal(server: Server, keys: Any, capabilities: Any) -> ProtocolError:
    async with connect(server, capabilities=capabilities) as client:
        with pytest.raises(ProtocolError) as caught:
            await client.request("subscriptions/listen", {"notifications": {"jobIds": keys}})
    return caught.value


@each_row(("keys", "capabilities", "code", "message"), [
    (["a"], {}, -32021, "com.example/jobs"),
    *(
        (keys, CAPABILITIES, -32602, "notifications.jobIds: expected an array of strings")
        for keys in ("a", 1, True, {}, {"a": 1}, [1], [None], ["a", ["b"]])
    ),
])  # fmt: skip
async def test_topic_wrong_request_is_refused(keys: Any, capabilities: Any, code: int, message: str) -> None:
    server = Server("s")
    jobs(server)
    error = await refusal(server, keys, capabilities)
    assert (error.code, message in f"{error.message} {error.data}") == (code, True)


async def test_topic_sends_each_listener_its_latest_message_only() -> None:
    server = Server("s")
    topic = jobs(server)
    async with listening(server, PLAIN_ADA, ADMIN_BOB) as clients:
        topic.publish("a", {"state": "for all"})
        topic.publish("a", {"state": "for ada"}, to=PLAIN_ADA)
        topic.publish("a", {"state": "for admins"}, to=is_admin)
        assert await states(clients) == ["for ada", "for admins"]
        topic.publish("a", {"state": "secret of bob"}, to=ADMIN_BOB)
        topic.publish("a", {"state": "secret of ada"}, to=PLAIN_ADA)
        topic.publish("a", {"state": "newer of bob"}, to=ADMIN_BOB)
        assert await states(clients) == ["secret of ada", "newer of bob"]
        topic.publish("a", {"state": "of ada"}, to=PLAIN_ADA)
        topic.publish("a", {"state": "of all"})
        assert await states(clients) == ["of all", "of all"]
        assert not any(client.notifications for client in clients)


async def test_topic_audience_function_applies_in_other_processes_in_order() -> None:
    broker = Memory()
    here, there = Server("s", storage=broker), Server("s", storage=broker)
    topic = jobs(here)
    jobs(there)
    async with here.running(), listening(there, PLAIN_ADA, ADMIN_BOB) as clients:
        topic.publish("a", {"state": "for admins"}, to=is_admin)
        assert await states(clients[1:]) == ["for admins"]
        # The other process is asked for its listeners; a newer message is published meanwhile.
        for messages, latest in (
            ([("old", lambda who: True), ("of ada", PLAIN_ADA), ("of bob", ADMIN_BOB)], ["of ada", "of bob"]),
            ([("old", lambda who: who == ADMIN_BOB), ("for all", None)], ["for all", "for all"]),
            ([("for all", lambda who: True), ("of ada", PLAIN_ADA)], ["of ada", "for all"]),
        ):
            for state, audience in messages:
                topic.publish("a", {"state": state}, to=audience)
            await settle()
            assert [client.notifications.pop()["params"]["state"] for client in clients] == latest


def raising(error: Exception) -> Callable[..., Any]:
    def accept(keys: list[str], ctx: Context[Any]) -> list[str]:
        raise error

    return accept


@each_row(("accept", "code", "text"), [
    (raising(ProtocolError(-32602, "No such job")), -32602, "No such job"),
    (raising(ValueError("secret")), -32603, "Internal error (ref "),
    (lambda keys, ctx: keys[0], -32603, "Internal error (ref "),
    (lambda keys, ctx: None, -32603, "Internal error (ref "),
    (lambda keys, ctx: [*keys, "more"], -32603, "Internal error (ref "),
])  # fmt: skip
async def test_topic_accept_error_is_the_response(accept, code, text, caplog) -> None:
    caplog.clear()
    server = Server("s")
    jobs(server, accept=accept)
    error = await refusal(server, ["a"], CAPABILITIES)
    assert (error.code, error.message[: len(text)]) == (code, text)
    assert bool(caplog.records) == (code == -32603)


@each_row("message", [
    {"what": METHOD, "uri": "a"}, {"what": METHOD, "uri": "a", "params": ["state"]},
    {"what": METHOD, "uri": None, "params": {"state": "x"}}, {"what": METHOD, "uri": 1, "params": {"state": "x"}},
    {"what": [METHOD], "uri": "a", "params": {"state": "x"}}, {"what": "who", "uri": "a", "number": 1},
    {"what": "who", "of": 1, "uri": "a", "number": 1},
])  # fmt: skip
async def test_topic_malformed_broker_message_is_ignored(message: dict[str, Any]) -> None:
    broker = Memory()
    server = Server("s", storage=broker)
    topic = jobs(server)
    async with listening(server, PLAIN_ADA) as clients:
        await broker.publish("s/changes", json.dumps({"origin": "there", **message}))
        topic.publish("a", {"state": "valid"})
        assert await states(clients) == ["valid"]


@each_row(("error", "arguments"), [
    *((TypeError, arguments) for arguments in ((1, {}), ("a", []), ("a", None), ("a", {"_meta": 1}))),
    (OutputError, ("a", {"x": object()})),
])  # fmt: skip
def test_topic_publish_wrong_value_is_refused(error: type[Exception], arguments: Any) -> None:
    with pytest.raises(error):
        Extension("com.example/jobs").topic("jobIds", METHOD).publish(*arguments)


async def accept_async(keys: list[str], ctx: Any) -> list[str]:
    return keys


@each_row(("member", "notification", "accept"), [
    *((member, METHOD, None) for member in ("", 1, "resourceSubscriptions", "toolsListChanged")),
    *(("jobIds", method, None) for method in ("jobs", None, "notifications/resources/updated")),
    *(("jobIds", METHOD, accept) for accept in ("all", accept_async)),
])  # fmt: skip
def test_topic_wrong_definition_is_refused(member: Any, notification: Any, accept: Any) -> None:
    extension = Extension("com.example/jobs")
    with pytest.raises(RegistrationError):
        extension.topic(member, notification, accept=accept)
    assert extension.topics == ()


def test_topic_member_belongs_to_one_extension() -> None:
    server = Server("s")
    extension, other = server.extension("com.example/jobs"), Extension("com.example/other")
    extension.topic("jobIds", METHOD)
    with pytest.raises(RegistrationError, match="already has a topic 'jobIds'"):
        extension.topic("jobIds", METHOD)
    other.topic("jobIds", "notifications/other")
    with pytest.raises(RegistrationError, match="both have a topic 'jobIds'"):
        server.include(other)
    assert list(server.catalog.extensions) == ["com.example/jobs"]
    late = server.extension("com.example/late")
    with pytest.raises(RegistrationError, match="both have a topic 'jobIds'"):
        late.topic("jobIds", "notifications/late")
    assert late.topics == ()
    late.topic("lateIds", "notifications/late")
