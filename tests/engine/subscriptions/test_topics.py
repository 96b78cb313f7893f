"""Topics of extensions: keys that clients subscribe to, audiences of messages, and refused definitions."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from mcpkit import Context, Extension, Principal, ProtocolError, RegistrationError, Server
from mcpkit._utils.exceptions import OutputError
from mcpkit.extensions import SubscriptionTopic
from mcpkit.storage import Memory
from mcpkit.testing import TestClient, connect
from tests.helpers.pipe import settle
from tests.helpers.tables import each_row

CAPABILITIES = {"extensions": {"com.example/jobs": {}, "com.example/other": {}}}
ADA, BOB = Principal("ada"), Principal("bob", {"admin"})
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
    async with listening(server, ADA, BOB) as clients:
        topic.publish("a", {"state": "for all"})
        topic.publish("a", {"state": "for ada"}, to=ADA)
        topic.publish("a", {"state": "for admins"}, to=is_admin)
        assert await states(clients) == ["for ada", "for admins"]
        topic.publish("a", {"state": "secret of bob"}, to=BOB)
        topic.publish("a", {"state": "secret of ada"}, to=ADA)
        topic.publish("a", {"state": "newer of bob"}, to=BOB)
        assert await states(clients) == ["secret of ada", "newer of bob"]
        topic.publish("a", {"state": "of ada"}, to=ADA)
        topic.publish("a", {"state": "of all"})
        assert await states(clients) == ["of all", "of all"]
        assert not any(client.notifications for client in clients)


async def test_topic_audience_function_applies_in_other_processes_in_order() -> None:
    broker = Memory()
    here, there = Server("s", storage=broker), Server("s", storage=broker)
    topic = jobs(here)
    jobs(there)
    async with here.running(), listening(there, ADA, BOB) as clients:
        topic.publish("a", {"state": "for admins"}, to=is_admin)
        assert await states(clients[1:]) == ["for admins"]
        # The other process is asked for its listeners; a newer message is published meanwhile.
        for messages, latest in (
            ([("old", lambda who: True), ("of ada", ADA), ("of bob", BOB)], ["of ada", "of bob"]),
            ([("old", lambda who: who == BOB), ("for all", None)], ["for all", "for all"]),
            ([("for all", lambda who: True), ("of ada", ADA)], ["of ada", "for all"]),
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
    async with listening(server, ADA) as clients:
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
