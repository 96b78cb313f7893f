"""Topics of extensions: what clients listen to by keys, who is told, and what is refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mcpkit import Context, Extension, Principal, ProtocolError, RegistrationError, Server, ServerOptions
from mcpkit.common.errors import OutputError
from mcpkit.extensions import SubscriptionTopic
from mcpkit.storage import Memory
from mcpkit.testing import TestClient, connect
from tests.helpers.pipe import settle

pytestmark = pytest.mark.anyio

KNOWS = {"extensions": {"com.example/jobs": {}, "com.example/other": {}}}
ADA, BOB = Principal("ada"), Principal("bob", {"admin"})
TOLD = "notifications/jobs"


def jobs(server: Server, **options: Any) -> SubscriptionTopic:
    return server.extension("com.example/jobs").topic("jobIds", TOLD, **options)


@asynccontextmanager
async def listening(
    server: Server, expected: Any, *, principal: Principal = ADA, capabilities: Any = KNOWS
) -> AsyncIterator[TestClient]:
    """Open a stream, and go on once it is acknowledged."""
    async with connect(server, principal=principal, capabilities=capabilities) as client:
        stream = asyncio.ensure_future(client.request("subscriptions/listen", {"notifications": expected}))
        await client.notification("notifications/subscriptions/acknowledged")
        yield client
        stream.cancel()


async def heard(client: TestClient, count: int) -> list[Any]:
    return [(await client.notification(TOLD))["state"] for _ in range(count)]


def latest(client: TestClient) -> str:
    return client.notifications.pop()["params"]["state"]


async def refused(server: Server, expected: Any, capabilities: Any = KNOWS) -> ProtocolError:
    async with connect(server, capabilities=capabilities) as client:
        with pytest.raises(ProtocolError) as caught:
            await client.request("subscriptions/listen", {"notifications": expected})
    return caught.value


async def test_topic_without_the_extension_names_the_missing_capability() -> None:
    server = Server("s")
    jobs(server)
    error = await refused(server, {"jobIds": ["a"]}, {})
    assert error.code == -32021
    assert error.data == {"requiredCapabilities": {"extensions": {"com.example/jobs": {}}}}


@pytest.mark.parametrize("keys", [[], ["a"], None])
async def test_unknown_topic_members_are_not_acknowledged(
    keys: Any,
) -> None:
    server = Server("s", options=ServerOptions(capabilities={"tools"}))
    jobs(server)
    wanted = {"toolsListChanged": True, "jobIds": None, "strangeIds": keys}
    async with connect(server, capabilities={}) as client:
        stream = asyncio.ensure_future(client.request("subscriptions/listen", {"notifications": wanted}))
        told = await client.notification("notifications/subscriptions/acknowledged")
        assert told["notifications"] == {"toolsListChanged": True}
        stream.cancel()


async def test_topic_sends_each_listener_its_latest_message_only() -> None:
    server = Server("s")
    topic = jobs(server)
    async with (
        listening(server, {"jobIds": ["a"]}) as ada,
        listening(server, {"jobIds": ["a"]}, principal=BOB) as bob,
    ):
        topic.publish("a", {"state": "for all"})
        topic.publish("a", {"state": "for ada"}, to=ADA)
        topic.publish("a", {"state": "for admins"}, to=lambda who: "admin" in who.scopes)
        assert await heard(ada, 1) == ["for ada"]
        assert await heard(bob, 1) == ["for admins"]
        topic.publish("a", {"state": "secret of bob's"}, to=BOB)
        topic.publish("a", {"state": "secret of ada's"}, to=ADA)
        topic.publish("a", {"state": "newer of bob's"}, to=BOB)
        assert await heard(ada, 1) == ["secret of ada's"]
        assert await heard(bob, 1) == ["newer of bob's"]
        topic.publish("a", {"state": "of ada's"}, to=ADA)
        topic.publish("a", {"state": "of all"})
        assert [await heard(ada, 1), await heard(bob, 1)] == [["of all"]] * 2
        assert not ada.notifications
        assert not bob.notifications


async def test_topic_audience_function_applies_in_other_processes_in_order() -> None:
    broker = Memory()
    here, there = Server("s", storage=broker), Server("s", storage=broker)
    topic = jobs(here)
    jobs(there)
    async with (
        here.running(),
        listening(there, {"jobIds": ["a"]}) as ada,
        listening(there, {"jobIds": ["a"]}, principal=BOB) as bob,
    ):
        topic.publish("a", {"state": "for admins"}, to=lambda who: "admin" in who.scopes)
        assert await heard(bob, 1) == ["for admins"]
        # Who listens there has to be asked for; meanwhile something newer is told.
        topic.publish("a", {"state": "old"}, to=lambda who: True)
        topic.publish("a", {"state": "of ada's"}, to=ADA)
        topic.publish("a", {"state": "of bob's"}, to=BOB)
        await settle()
        assert [latest(ada), latest(bob)] == ["of ada's", "of bob's"]
        topic.publish("a", {"state": "old"}, to=lambda who: who == BOB)
        topic.publish("a", {"state": "for all"})
        await settle()
        assert [latest(ada), latest(bob)] == ["for all", "for all"]
        topic.publish("a", {"state": "for all"}, to=lambda who: True)
        topic.publish("a", {"state": "of ada's"}, to=ADA)
        await settle()
        assert [latest(ada), latest(bob)] == ["of ada's", "for all"]


def raising(error: Exception) -> Callable[..., Any]:
    def accept(keys: list[str], ctx: Context[Any]) -> list[str]:
        raise error

    return accept


@pytest.mark.parametrize(
    ("accept", "code", "text"),
    [
        (raising(ProtocolError(-32602, "No such job")), -32602, "No such job"),
        (raising(ValueError("secret")), -32603, "Internal error (ref "),
        (lambda keys, ctx: keys[0], -32603, "Internal error (ref "),
        (lambda keys, ctx: None, -32603, "Internal error (ref "),
        (lambda keys, ctx: [*keys, "more"], -32603, "Internal error (ref "),
    ],
)
async def test_topic_accept_error_is_the_response(
    accept: Any, code: int, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server("s")
    jobs(server, accept=accept)
    error = await refused(server, {"jobIds": ["a"]})
    assert (error.code, error.message[: len(text)]) == (code, text)
    assert bool(caplog.records) == (code == -32603)


async def never(keys: list[str], ctx: Any) -> list[str]:
    return keys


@pytest.mark.parametrize("keys", ["a", 1, True, {}, {"a": 1}, [1], [None], ["a", ["b"]]])
async def test_keys_of_another_type_are_refused(keys: Any) -> None:
    server = Server("s")
    jobs(server)
    error = await refused(server, {"jobIds": keys})
    assert (error.code, error.message) == (-32602, "notifications.jobIds: expected an array of strings")


@pytest.mark.parametrize(
    "strange",
    [
        {"what": TOLD, "uri": "a"},
        {"what": TOLD, "uri": "a", "params": ["state"]},
        {"what": TOLD, "uri": None, "params": {"state": "x"}},
        {"what": TOLD, "uri": 1, "params": {"state": "x"}},
        {"what": ["notifications/jobs"], "uri": "a", "params": {"state": "x"}},
        {"what": "who", "uri": "a", "number": 1},
        {"what": "who", "of": 1, "uri": "a", "number": 1},
    ],
)
async def test_malformed_broker_message_of_a_topic_is_ignored(strange: dict[str, Any]) -> None:
    broker = Memory()
    server = Server("s", storage=broker)
    topic = jobs(server)
    async with listening(server, {"jobIds": ["a"]}) as client:
        await broker.publish("s/changes", json.dumps({"origin": "there", **strange}))
        topic.publish("a", {"state": "well"})
        assert await heard(client, 1) == ["well"]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((1, {}), TypeError),
        (("a", []), TypeError),
        (("a", None), TypeError),
        (("a", {"_meta": 1}), TypeError),
        (("a", {"x": object()}), OutputError),
    ],
)
def test_topic_publish_wrong_value_is_refused(arguments: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        Extension("com.example/jobs").topic("jobIds", TOLD).publish(*arguments)


@pytest.mark.parametrize(
    ("member", "notification", "accept"),
    [
        ("", TOLD, None),
        (1, TOLD, None),
        ("resourceSubscriptions", TOLD, None),
        ("toolsListChanged", TOLD, None),
        ("jobIds", "jobs", None),
        ("jobIds", None, None),
        ("jobIds", "notifications/resources/updated", None),
        ("jobIds", TOLD, "all"),
        ("jobIds", TOLD, never),
    ],
)
def test_topic_wrong_definition_is_refused(member: Any, notification: Any, accept: Any) -> None:
    extension = Extension("com.example/jobs")
    with pytest.raises(RegistrationError):
        extension.topic(member, notification, accept=accept)
    assert extension.topics == ()


def test_a_member_belongs_to_one_extension() -> None:
    server = Server("s")
    extension, other = server.extension("com.example/jobs"), Extension("com.example/other")
    extension.topic("jobIds", TOLD)
    with pytest.raises(RegistrationError, match="already has a topic 'jobIds'"):
        extension.topic("jobIds", TOLD)
    other.topic("jobIds", "notifications/other")
    with pytest.raises(RegistrationError, match="both have a topic 'jobIds'"):
        server.include(other)
    assert list(server.catalog.extensions) == ["com.example/jobs"]
    late = server.extension("com.example/late")
    with pytest.raises(RegistrationError, match="both have a topic 'jobIds'"):
        late.topic("jobIds", "notifications/late")
    assert late.topics == ()
    late.topic("lateIds", "notifications/late")
