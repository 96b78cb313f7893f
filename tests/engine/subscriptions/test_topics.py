"""Topics of extensions: what clients listen to by keys, who is told, and what is refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx2
import pytest

from mcpkit import (
    Context,
    Extension,
    Memory,
    Principal,
    ProtocolError,
    RegistrationError,
    Server,
    Topic,
)
from mcpkit.common.errors import OutputError
from mcpkit.testing import Client, connect
from mcpkit.transports import Connection
from tests.helpers.pipe import META, settle, stateless_meta
from tests.helpers.serving import PATIENCE, in_thread

pytestmark = pytest.mark.anyio

KNOWS = {"extensions": {"com.example/jobs": {}, "com.example/other": {}}}
ADA, BOB = Principal("ada"), Principal("bob", {"admin"})
TOLD = "notifications/jobs"


def jobs(server: Server, **options: Any) -> Topic:
    return server.extension("com.example/jobs").topic("jobIds", TOLD, **options)


@asynccontextmanager
async def listening(
    server: Server, wanted: Any, *, principal: Principal = ADA, capabilities: Any = KNOWS
) -> AsyncIterator[Client]:
    """Open a stream, and go on once it is acknowledged."""
    async with connect(server, principal=principal, capabilities=capabilities) as client:
        stream = asyncio.ensure_future(client.request("subscriptions/listen", {"notifications": wanted}))
        await client.notification("notifications/subscriptions/acknowledged")
        yield client
        stream.cancel()


async def heard(client: Client, count: int) -> list[Any]:
    return [(await client.notification(TOLD))["state"] for _ in range(count)]


def latest(client: Client) -> str:
    return client.notifications.pop()["params"]["state"]


async def refused(server: Server, wanted: Any, capabilities: Any = KNOWS) -> ProtocolError:
    async with connect(server, capabilities=capabilities) as client:
        with pytest.raises(ProtocolError) as caught:
            await client.request("subscriptions/listen", {"notifications": wanted})
    return caught.value


@pytest.mark.parametrize("keys", ["a", 1, True, {}, {"a": 1}, [1], [None], ["a", ["b"]]])
async def test_keys_of_another_type_are_refused(keys: Any) -> None:
    server = Server("s")
    jobs(server)
    error = await refused(server, {"jobIds": keys})
    assert (error.code, error.message) == (-32602, "notifications.jobIds: expected an array of strings")


async def test_a_client_that_has_not_declared_the_extension_is_told_which_one_it_lacks() -> None:
    server = Server("s")
    jobs(server)
    error = await refused(server, {"jobIds": ["a"]}, {})
    assert error.code == -32021
    assert error.data == {"requiredCapabilities": {"extensions": {"com.example/jobs": {}}}}


@pytest.mark.parametrize("keys", [[], ["a"], None])
async def test_what_is_not_asked_for_needs_no_extension_and_unknown_members_are_not_honoured(
    keys: Any,
) -> None:
    server = Server("s", offers={"tools"})
    jobs(server)
    wanted = {"toolsListChanged": True, "jobIds": None, "strangeIds": keys}
    async with connect(server, capabilities={}) as client:
        stream = asyncio.ensure_future(client.request("subscriptions/listen", {"notifications": wanted}))
        told = await client.notification("notifications/subscriptions/acknowledged")
        assert told["notifications"] == {"toolsListChanged": True}
        stream.cancel()


async def test_who_is_not_meant_hears_nothing_and_each_hears_the_latest_that_is_for_them() -> None:
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


async def test_what_many_threads_tell_comes_key_by_key_and_the_latest_last() -> None:
    server = Server("s")
    topic = jobs(server)
    keys = [f"job {number}" for number in range(8)]

    def work(key: str) -> None:
        for number in range(200):
            topic.publish(key, {"job": key, "state": number})

    async with listening(server, {"jobIds": keys}) as client:
        with ThreadPoolExecutor(len(keys)) as threads:
            await asyncio.gather(
                *(asyncio.get_running_loop().run_in_executor(threads, work, key) for key in keys)
            )
        told: dict[str, list[int]] = {key: [] for key in keys}
        while any(199 not in each for each in told.values()):
            each = await client.notification(TOLD)
            told[each["job"]].append(each["state"])
        assert all(each == sorted(set(each)) for each in told.values())


async def test_other_processes_tell_whom_a_function_means_and_nothing_old_after_something_new() -> None:
    broker = Memory()
    here, there = Server("s", shared=broker), Server("s", shared=broker)
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
async def test_what_a_broker_brings_that_is_nothing_told_is_not_told(strange: dict[str, Any]) -> None:
    broker = Memory()
    server = Server("s", shared=broker)
    topic = jobs(server)
    async with listening(server, {"jobIds": ["a"]}) as client:
        await broker.publish("s/changes", json.dumps({"origin": "there", **strange}))
        topic.publish("a", {"state": "well"})
        assert await heard(client, 1) == ["well"]


def quiet() -> None:
    """Do nothing."""


def raising(error: Exception) -> Callable[..., Any]:
    def accept(keys: list[str], ctx: Context[Any]) -> list[str]:
        raise error

    return accept


@pytest.mark.parametrize(
    ("accept", "code", "said"),
    [
        (raising(ProtocolError(-32602, "No such job")), -32602, "No such job"),
        (raising(ValueError("secret")), -32603, "Internal error (ref "),
        (lambda keys, ctx: keys[0], -32603, "Internal error (ref "),
        (lambda keys, ctx: None, -32603, "Internal error (ref "),
        (lambda keys, ctx: [*keys, "more"], -32603, "Internal error (ref "),
    ],
)
async def test_what_accept_refuses_or_gets_wrong_is_answered(
    accept: Any, code: int, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server("s")
    jobs(server, accept=accept)
    error = await refused(server, {"jobIds": ["a"]})
    assert (error.code, error.message[: len(said)]) == (code, said)
    assert bool(caplog.records) == (code == -32603)
    with in_thread(server.asgi()) as url:
        params = {
            "notifications": {"jobIds": ["a"]},
            "_meta": stateless_meta(**{META + "clientCapabilities": KNOWS}),
        }
        answer = await asyncio.to_thread(
            httpx2.post,
            f"{url}/mcp",
            json={"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params},
            headers={
                "Accept": "application/json, text/event-stream",
                "MCP-Protocol-Version": "2026-07-28",
                "Mcp-Method": "subscriptions/listen",
            },
            timeout=PATIENCE,
        )
    assert answer.json()["error"]["code"] == code
    assert "secret" not in answer.text


async def test_params_are_told_as_they_were_with_their_own_meta() -> None:
    server = Server("s")
    topic = jobs(server)
    lines: asyncio.Queue[Any] = asyncio.Queue()
    async with server.running():
        connection = Connection(server, lambda line: lines.put_nowait(json.loads(line)))
        params = {
            "notifications": {"jobIds": ["a"]},
            "_meta": stateless_meta(**{META + "clientCapabilities": KNOWS}),
        }
        request = {"jsonrpc": "2.0", "id": "s", "method": "subscriptions/listen", "params": params}
        connection.receive(json.dumps(request).encode())
        await lines.get()
        said: dict[str, Any] = {
            "states": ["begun"],
            "_meta": {"com.example/trace": 1, META + "subscriptionId": 0},
        }
        topic.publish("a", said)
        said["states"].append("changed")
        assert (await lines.get())["params"] == {
            "states": ["begun"],
            "_meta": {"com.example/trace": 1, META + "subscriptionId": "s"},
        }
        await connection.aclose()


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
def test_what_cannot_be_told_is_refused_where_it_is_published(arguments: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        Extension("com.example/jobs").topic("jobIds", TOLD).publish(*arguments)


@pytest.mark.parametrize("to", [Principal(), "ada", 1])
def test_who_is_nobody_is_refused(to: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        Extension("com.example/jobs").topic("jobIds", TOLD).publish("a", {}, to=to)


async def never(keys: list[str], ctx: Any) -> list[str]:
    return keys


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
def test_what_is_no_topic_is_refused(member: Any, notification: Any, accept: Any) -> None:
    extension = Extension("com.example/jobs")
    with pytest.raises(RegistrationError):
        extension.topic(member, notification, accept=accept)
    assert extension.topics == ()


def test_a_member_belongs_to_one_extension() -> None:
    server = Server("s")
    extension, other = server.extension("com.example/jobs"), Extension("com.example/other")
    extension.topic("jobIds", TOLD)
    with pytest.raises(RegistrationError, match="has a topic 'jobIds' already"):
        extension.topic("jobIds", TOLD)
    other.topic("jobIds", "notifications/other")
    with pytest.raises(RegistrationError, match="both have a topic 'jobIds'"):
        server.include(other)
    assert list(server.extensions) == ["com.example/jobs"]
    late = server.extension("com.example/late")
    with pytest.raises(RegistrationError, match="both have a topic 'jobIds'"):
        late.topic("jobIds", "notifications/late")
    assert late.topics == ()
    late.topic("lateIds", "notifications/late")


async def test_two_of_one_extension_are_listened_to_together() -> None:
    """Two servers, each with the extension, are included in a third under prefixes, which keys do not get."""
    whole, kitchen, garden = Server("whole"), Server("kitchen"), Server("garden")
    topics = [
        jobs(server, accept=lambda keys, ctx, first=server.name[0]: [key for key in keys if key[0] == first])
        for server in (kitchen, garden)
    ]
    whole.include(kitchen, prefix="k")
    included = whole.include(garden, prefix="g")
    async with connect(whole, capabilities=KNOWS) as client:
        wanted = {"jobIds": ["g1", "k1", "x1", "k1"]}
        stream = asyncio.ensure_future(client.request("subscriptions/listen", {"notifications": wanted}))
        told = await client.notification("notifications/subscriptions/acknowledged")
        assert sorted(told["notifications"]["jobIds"]) == ["g1", "k1"]
        topics[0].publish("k1", {"state": "cooked"})
        topics[1].publish("g1", {"state": "grown"})
        assert await heard(client, 2) == ["cooked", "grown"]
        included.remove()
        topics[1].publish("g1", {"state": "gone"})
        topics[0].publish("k1", {"state": "eaten"})
        assert await heard(client, 1) == ["eaten"]
        stream.cancel()


async def test_a_session_of_the_handshake_era_hears_nothing_of_it() -> None:
    server = Server("s", offers={"tools"})
    topic = jobs(server)
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(connect(server, revision="2025-11-25", capabilities=KNOWS))
        topic.publish("a", {"state": "x"})
        server.tool(quiet)
        await client.notification("notifications/tools/list_changed")
        assert not client.notifications
        with pytest.raises(ProtocolError, match="Method not found"):
            await client.request("subscriptions/listen", {"notifications": {"jobIds": ["a"]}})
