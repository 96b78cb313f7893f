"""Each kind of request, asked of a replica other than the one where what it is about began."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from itertools import count
from random import Random
from typing import Any

from tests.helpers.cluster.clients import ENDED, FAILED, UNKNOWN, Client, Error, Json, Session
from tests.helpers.cluster.cluster import Cluster
from tests.helpers.cluster.wire import Away

ACCEPTED = {"action": "accept", "content": {"value": "red"}}
YES = {"action": "accept", "content": {"value": True}}
AT_A_TIME = 6
METHOD_NOT_FOUND = -32601


class Wrong(Exception):
    """An answer that is not what it would have been at the first replica."""


def expect(condition: object, got: object) -> None:
    """Say what came where something is not so."""
    if not condition:
        raise Wrong(repr(got))


class Elsewhere:
    """Asks at three replicas, which are others each time.

    Args:
        cluster: Where.
        draw: Chance.

    Attributes:
        done: How often each kind was asked without an error.
        wrong: What went wrong.
    """

    def __init__(self, cluster: Cluster, draw: Random) -> None:
        self.cluster = cluster
        self.draw = draw
        self.done: Counter[str] = Counter()
        self.wrong: list[str] = []
        self._numbers = count(1)

    def kinds(self) -> list[Callable[[str, str, str], Coroutine[Any, Any, None]]]:
        """Return what is asked: each method whose name begins with an article."""
        return [getattr(self, name) for name in vars(type(self)) if name.startswith(("a_", "an_"))]

    async def many(self, times: int) -> None:
        """Ask each kind so many times."""
        order = [kind for kind in self.kinds() for _ in range(times)]
        self.draw.shuffle(order)
        rest = iter(order)

        async def some() -> None:
            for kind in rest:
                await self._one(kind)

        await asyncio.gather(*(some() for _ in range(AT_A_TIME)))

    async def _one(self, kind: Callable[[str, str, str], Coroutine[Any, Any, None]]) -> None:
        urls = self.draw.sample([each.url for each in self.cluster.replicas], 3)
        try:
            await kind(*urls)
        except Exception as error:
            self.wrong.append(f"{kind.__name__}: {error!r}")
            self.cluster.asked.write("wrong", kind=kind.__name__, error=repr(error), urls=urls)
        else:
            self.done[kind.__name__] += 1

    def _key(self, kind: str) -> str:
        return f"{kind}-{next(self._numbers)}"

    def _client(self, url: str) -> Client:
        return Client(url)

    async def _session(self, url: str, revision: str = "2025-11-25") -> Session:
        session = Session(url, revision)
        await session.initialize()
        return session

    # Without sessions

    async def an_answer_to_a_round(self, a: str, b: str, c: str) -> None:
        client = self._client(a)
        asked = await client.call("asks")
        expect(asked.get("resultType") == "input_required", asked)
        params = {
            "name": "asks",
            "arguments": {},
            "requestState": asked["requestState"],
            "inputResponses": dict.fromkeys(asked["inputRequests"], ACCEPTED),
        }
        result = await client.ask("tools/call", params, b)
        expect(result["content"][0]["text"].startswith("red"), result)

    async def a_single_use(self, a: str, b: str, c: str) -> None:
        client, key = self._client(a), self._key("use")
        asked = await client.call("draws", key=key)
        params = {
            "name": "draws",
            "arguments": {"key": key},
            "requestState": asked["requestState"],
            "inputResponses": dict.fromkeys(asked["inputRequests"], ACCEPTED),
        }
        await client.ask("tools/call", params, b)
        try:
            await client.ask("tools/call", params, c)
        except Error as error:
            expect(error.code == UNKNOWN, error)
        else:
            raise Wrong("used twice")

    async def a_change_that_is_listened_for(self, a: str, b: str, c: str) -> None:
        client, name = self._client(a), self._key("thing")
        filters = {"resourceSubscriptions": [f"thing://{name}"], "toolsListChanged": True}
        async with client.open("subscriptions/listen", {"notifications": filters}) as (stream, _):
            await stream.until("notifications/subscriptions/acknowledged")
            await client.text("touch", b, name=name)
            updated = await stream.until("notifications/resources/updated")
            expect(updated["params"]["uri"] == f"thing://{name}", updated)
            await client.text("change_list", c)
            await stream.until("notifications/tools/list_changed")

    # In sessions

    async def a_request_in_a_session(self, a: str, b: str, c: str) -> None:
        session = await self._session(a)
        await session.text("echo", b, value="x")
        await session.ask("ping", at=c)
        tools = await session.ask("tools/list", at=b)
        expect(any(tool["name"] == "echo" for tool in tools["tools"]), tools)
        read = await session.ask("resources/read", {"uri": "thing://x"}, c)
        expect(read["contents"][0]["text"] == "0", read)
        await session.ask("prompts/get", {"name": "greet", "arguments": {"name": "Ada"}}, b)
        argument = {
            "ref": {"type": "ref/prompt", "name": "greet"},
            "argument": {"name": "name", "value": "a"},
        }
        completed = await session.ask("completion/complete", argument, c)
        expect(completed["completion"]["values"] == ["Ada"], completed)

    async def a_log_level(self, a: str, b: str, c: str) -> None:
        session = await self._session(a)
        await session.ask("logging/setLevel", {"level": "error"}, b)
        async with session.open("tools/call", {"name": "speaks", "arguments": {}}, c) as (stream, id_):
            message = await stream.next()
            expect(message.get("params", {}).get("data") == "loudly", message)
            await stream.response_to(id_)

    async def a_subscription(self, a: str, b: str, c: str) -> None:
        session, name = await self._session(a), self._key("thing")
        await session.ask("resources/subscribe", {"uri": f"thing://{name}"}, a)
        async with session.listen(b) as stream:
            await session.text("touch", c, name=name)
            await stream.until("notifications/resources/updated")
            other = f"{name}-later"
            await session.ask("resources/subscribe", {"uri": f"thing://{other}"}, c)
            await session.text("touch", a, name=other)
            updated = await stream.until("notifications/resources/updated")
            expect(updated["params"]["uri"] == f"thing://{other}", updated)

    async def an_answer_to_a_question(self, a: str, b: str, c: str) -> None:
        session = await self._session(c)
        async with session.open("tools/call", {"name": "asks", "arguments": {}}, a) as (stream, id_):
            question = await stream.until("elicitation/create")
            status = await session.post({"jsonrpc": "2.0", "id": question["id"], "result": ACCEPTED}, b)
            expect(status == 202, status)
            result = await stream.response_to(id_)
            expect(result["content"][0]["text"].startswith("red"), result)

    async def a_cancellation(self, a: str, b: str, c: str) -> None:
        session, key = await self._session(c), self._key("cancelled")
        async with self._reporting(session, key, a) as (stream, id_):
            await stream.until("notifications/progress")
            status = await session.tell("notifications/cancelled", {"requestId": id_}, b)
            expect(status == 202, status)
            try:
                message = await stream.next()
            except Away:
                return
            expect(False, message)

    async def a_stream_that_is_come_back_to(self, a: str, b: str, c: str) -> None:
        session, key = await self._session(c), self._key("back")
        async with self._reporting(session, key, a) as (stream, id_):
            await stream.until("notifications/progress")
            last = stream.last_id
        async with session.listen(b, last) as stream:
            expect(stream.response.status == 200, stream.response.status)
            (self.cluster.folder / f"go-{key}").touch()
            await stream.response_to(id_)

    def _reporting(self, session: Session, key: str, at: str) -> Any:
        params = {"name": "reports", "arguments": {"key": key}, "_meta": {"progressToken": key}}
        return session.open("tools/call", params, at)

    async def an_end_of_a_session(self, a: str, b: str, c: str) -> None:
        session = await self._session(a)
        await session.ask("ping", at=c)
        async with session.listen(c) as stream:
            status = await session.delete(b)
            expect(status in {200, 204}, status)
            with suppress(Away):
                while True:  # what others have changed
                    await stream.next()
        for url in (a, c):  # which may know the session for a moment yet
            ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
            while (status := await session.post(ping, url)) == 200:
                await asyncio.sleep(0.05)
            expect(status == 404, status)

    # Tasks

    async def a_task(self, a: str, b: str, c: str) -> None:
        client, key = self._client(a), self._key("task")
        task = await client.call("works", key=key, seconds=0.05)
        expect(task.get("resultType") == "task", task)
        seen = await self._ended(client, task["taskId"], b, c)
        expect(seen["result"]["structuredContent"]["key"] == key, seen)

    async def a_task_that_is_listened_for(self, a: str, b: str, c: str) -> None:
        client, key = self._client(a), self._key("heard")
        task = await client.call("waits", key=key)
        filters = {"notifications": {"taskIds": [task["taskId"]]}}
        async with client.open("subscriptions/listen", filters, b) as (stream, _):
            await stream.until("notifications/subscriptions/acknowledged")
            for attempt in range(1, 5):
                (self.cluster.folder / f"go-{key}-{attempt}").touch()
            while (await stream.until("notifications/tasks"))["params"]["status"] not in ENDED:
                pass
        expect((await client.ask("tasks/get", {"taskId": task["taskId"]}, c))["status"] == "completed", task)

    async def an_answer_to_a_task(self, a: str, b: str, c: str) -> None:
        client, key = self._client(a), self._key("asks")
        id_ = (await client.call("risks_and_asks", key=key, seconds=0))["taskId"]
        while (task := await client.ask("tasks/get", {"taskId": id_}, b))["status"] == "working":
            await asyncio.sleep(0.05)
        expect(task["status"] == "input_required", task)
        answers = {"taskId": id_, "inputResponses": dict.fromkeys(task["inputRequests"], YES)}
        await client.ask("tasks/update", answers, c)
        seen = await self._ended(client, id_, a, b)
        expect(seen["result"]["structuredContent"]["answer"] is True, seen)

    async def a_task_that_is_cancelled(self, a: str, b: str, c: str) -> None:
        client, key = self._client(a), self._key("unwanted")
        id_ = (await client.call("waits", key=key))["taskId"]
        await client.ask("tasks/cancel", {"taskId": id_}, b)
        while (task := await client.ask("tasks/get", {"taskId": id_}, c))["status"] not in ENDED:
            await asyncio.sleep(0.05)
        expect(task["status"] == "cancelled", task)

    @staticmethod
    async def _ended(client: Client, id_: str, *urls: str) -> Json:
        for number in count():
            task = await client.ask("tasks/get", {"taskId": id_}, urls[number % len(urls)])
            if task["status"] in ENDED:
                expect(task["status"] == "completed", task)
                return task
            await asyncio.sleep(0.05)
        raise AssertionError

    async def a_task_of_a_session(self, a: str, b: str, c: str) -> None:
        session, key = await self._session(a), self._key("task")
        params = {"name": "works", "arguments": {"key": key, "seconds": 0.05}, "task": {"ttl": 60000}}
        task = (await session.ask("tools/call", params, b))["task"]
        result = await session.ask("tasks/result", {"taskId": task["taskId"]}, c)
        expect(result["structuredContent"]["key"] == key, result)
        expect((await session.ask("tasks/get", {"taskId": task["taskId"]}, a))["status"] == "completed", task)

    async def a_task_of_a_session_that_is_cancelled(self, a: str, b: str, c: str) -> None:
        session, key = await self._session(a), self._key("unwanted")
        params = {"name": "waits", "arguments": {"key": key}, "task": {"ttl": 60000}}
        id_ = (await session.ask("tools/call", params, b))["task"]["taskId"]
        task = await session.ask("tasks/cancel", {"taskId": id_}, c)
        expect(task["status"] == "cancelled", task)
        try:
            await session.ask("tasks/result", {"taskId": id_}, a)
        except Error as error:
            expect(error.code in {FAILED, UNKNOWN}, error)
