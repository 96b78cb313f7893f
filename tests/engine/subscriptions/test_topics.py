"""Topics of extensions: what clients listen to by keys, who is told, and what is refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mcpkit import (
    Context,
    Memory,
    Principal,
    ProtocolError,
    Server,
    Topic,
)
from mcpkit.testing import Client, connect
from mcpkit.transports import Connection
from tests.helpers.pipe import META, settle, stateless_meta

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
