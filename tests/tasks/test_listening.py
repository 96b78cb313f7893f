"""A stream that listens to tasks over HTTP, at another process than those that make, run and answer them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from mcpkit import Context, Server, Task, ToolError
from mcpkit.auth import StaticTokens
from tests.helpers.engines import close, make_engine
from tests.helpers.serving import PATIENCE, in_thread

SECRET = "a secret of sixteen and more"
REVISION = "2026-07-28"
TASKS = "io.modelcontextprotocol/tasks"
PREFIX = "io.modelcontextprotocol/"
ADA, BOB = "token-of-ada-6PzKq0wXhVbR2mYt", "token-of-bob-9LcJd4sNfGuE7aWk"

SITE = {"public_url": "https://lab.example.com/mcp", "allowed_hosts": ["127.0.0.1"]}


def make_server(engine: Any, **options: Any) -> Server:
    auth = StaticTokens({ADA: "ada", BOB: "bob"})
    server = Server("lab", secret=SECRET, shared=engine, auth=auth, **options)

    @server.tool(task=Task(rerun="safe"))
    async def publish(ctx: Context) -> str:
        """Ask, and publish."""
        await ctx.info("a record")
        return f"published: {(await ctx.elicit('Publish?', bool)).value}"

    @server.tool(task=True)
    async def fail() -> None:
        """Fail."""
        raise ToolError("out of paper")

    return server


class Replica:
    """A client of one process."""

    def __init__(self, http: httpx2.Client, url: str) -> None:
        self.http = http
        self.url = f"{url}/mcp"

    def ask(
        self, method: str, params: dict[str, Any], *, token: str = ADA, knows_tasks: bool = True
    ) -> dict[str, Any]:
        """Send a request, and return its answer."""
        body, headers = request(method, params, token, knows_tasks=knows_tasks)
        answer: dict[str, Any] = self.http.post(self.url, json=body, headers=headers).json()
        return answer

    def begin(self, tool: str) -> str:
        """Have a task made, and return its id."""
        return str(self.ask("tools/call", {"name": tool, "arguments": {}})["result"]["taskId"])

    def look(self, id_: str) -> dict[str, Any]:
        """Return a task as a notification tells it."""
        told = self.ask("tasks/get", {"taskId": id_})["result"]
        return {name: value for name, value in told.items() if name not in {"resultType", "_meta"}}

    @contextmanager
    def listening(self, *ids: str, token: str = ADA) -> Iterator[Iterator[dict[str, Any]]]:
        """Listen to tasks, and return the messages of the stream."""
        body, headers = request("subscriptions/listen", {"notifications": {"taskIds": list(ids)}}, token)
        with self.http.stream("POST", self.url, json=body, headers=headers) as answer:
            assert answer.status_code == 200, answer.read()
            yield (json.loads(line[5:]) for line in answer.iter_lines() if line.startswith("data:"))


def request(
    method: str, params: dict[str, Any], token: str, *, knows_tasks: bool = True
) -> tuple[dict[str, Any], dict[str, str]]:
    capabilities: dict[str, Any] = {"elicitation": {}}
    if knows_tasks:
        capabilities["extensions"] = {TASKS: {}}
    meta = {f"{PREFIX}protocolVersion": REVISION, f"{PREFIX}clientCapabilities": capabilities}
    meta[f"{PREFIX}logLevel"] = "debug"
    headers = {
        "authorization": f"Bearer {token}",
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": REVISION,
        "mcp-method": method,
    }
    if (name := params.get("name") or params.get("taskId")) is not None:
        headers["mcp-name"] = name
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}, headers


@pytest.fixture(params=["sqlite", "redis"])
def replicas(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Replica, Replica]]:
    """Two processes with what they share: the first one runs tasks, the second one does not."""
    engines = [make_engine(request.param, tmp_path) for _ in range(2)]
    with (
        in_thread(make_server(engines[0]).asgi(**SITE)) as first,
        in_thread(make_server(engines[1], tasks="workers").asgi(**SITE)) as second,
        httpx2.Client(timeout=PATIENCE) as http,
    ):
        yield Replica(http, first), Replica(http, second)
    for engine in engines:
        close(engine)


def told_of(messages: Iterator[dict[str, Any]], status: str) -> dict[str, Any]:
    """Return what is told of a task when it is so; nothing else than states of it is told before."""
    for message in messages:
        assert message["method"] == "notifications/tasks", message
        params = message["params"]
        assert params.pop("_meta") == {f"{PREFIX}subscriptionId": 1}
        if params["status"] == status:
            return dict(params)
        assert params["status"] in {"working", "input_required"}
    raise AssertionError("the stream has ended")


def test_a_stream_at_another_process_tells_the_whole_state(replicas: tuple[Replica, Replica]) -> None:
    here, there = replicas
    id_ = here.begin("publish")
    with there.listening(id_) as messages:
        acknowledged = next(messages)
        assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
        assert acknowledged["params"]["notifications"] == {"taskIds": [id_]}
        asking = told_of(messages, "input_required")
        assert asking == here.look(id_)
        ((key, question),) = asking["inputRequests"].items()
        assert question["params"]["message"] == "Publish?"
        answers = {key: {"action": "accept", "content": {"value": True}}}
        assert "result" in here.ask("tasks/update", {"taskId": id_, "inputResponses": answers})
        over = told_of(messages, "completed")
    assert over == there.look(id_)
    assert over["result"]["content"][0]["text"] == "published: True"
    assert over["ttlMs"] >= 86_400_000


def test_what_has_ended_is_told_at_once(replicas: tuple[Replica, Replica]) -> None:
    here, there = replicas
    id_ = here.begin("fail")
    with there.listening(id_) as messages:
        next(messages)
        over = told_of(messages, "completed")
        assert over["result"]["isError"]
    with there.listening(id_) as messages:
        next(messages)
        assert told_of(messages, "completed") == over


def test_what_is_cancelled_at_one_process_is_told_at_the_other(replicas: tuple[Replica, Replica]) -> None:
    here, there = replicas
    id_ = there.begin("publish")
    with there.listening(id_) as messages:
        next(messages)
        told_of(messages, "input_required")
        here.ask("tasks/cancel", {"taskId": id_})
        assert told_of(messages, "cancelled") == there.look(id_)


def test_nobody_listens_to_what_is_not_theirs(replicas: tuple[Replica, Replica]) -> None:
    here, there = replicas
    id_ = here.begin("publish")
    with there.listening(id_, "nobody-has-seen-this", token=BOB) as messages:
        assert next(messages)["params"]["notifications"].get("taskIds", []) == []


def test_who_knows_no_tasks_cannot_listen_to_them(replicas: tuple[Replica, Replica]) -> None:
    _, there = replicas
    wanted = {"notifications": {"taskIds": ["any"]}}
    error = there.ask("subscriptions/listen", wanted, knows_tasks=False)["error"]
    assert error["code"] == -32021
    assert error["data"] == {"requiredCapabilities": {"extensions": {TASKS: {}}}}
