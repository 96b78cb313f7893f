"""Servers that run tasks: one runner per event loop, the lifespan, and users whose access is revoked."""

from __future__ import annotations

import asyncio
import secrets
from typing import Any

import pytest

from mcpkit import Memory, Principal, Server, Tasks
from mcpkit.auth import StaticTokens
from mcpkit.testing import connect
from tests.helpers.task_client import KNOWS_TASKS, begin, until
from tests.helpers.waiting import until as eventually

pytestmark = pytest.mark.anyio

SECRET = "a secret of sixteen and more"


class CountingTool:
    """How many calls run, and how many ran at a time."""

    def __init__(self) -> None:
        self.running = self.most = self.begun = 0
        self.gate = asyncio.Event()

    async def work(self) -> str:
        self.begun += 1
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await self.gate.wait()
        finally:
            self.running -= 1
        return "done"


@pytest.fixture
async def counted() -> CountingTool:
    return CountingTool()


def connect_client(server: Server) -> connect:
    return connect(server, capabilities=KNOWS_TASKS)


async def test_connections_of_one_event_loop_share_a_runner(engine: Memory, counted: CountingTool) -> None:
    server = Server("lab", shared=engine, secret=SECRET, tasks=Tasks(slots=2))
    server.tool(task=True)(counted.work)
    async with connect_client(server) as first, connect_client(server) as second, server.running():
        tasks = [await begin(client, "work") for client in (first, second) for _ in range(3)]
        await eventually(lambda: counted.running == 2)
        counted.gate.set()
        for task in tasks:
            await until(first, task, "completed")
    assert counted.most == 2


# Revocation

ADA, EVE = Principal("ada"), Principal("eve")


class WorkingServer:
    """A server whose tool works until it is let go."""

    def __init__(self, engine: Any, **options: Any) -> None:
        self.server = Server(
            "lab",
            secret="a secret of sixteen and more",
            shared=engine,
            auth=StaticTokens({secrets.token_urlsafe(32): ADA}),
            **options,
        )
        self.begun: list[str] = []
        self.ended: list[str] = []
        self.is_let_go = asyncio.Event()
        self.server.tool(self.work, task=True)

    async def work(self, label: str) -> str:
        """Work."""
        self.begun.append(label)
        try:
            await self.is_let_go.wait()
        finally:
            self.ended.append(label)
        return label


async def test_revoke_cancels_running_tasks_of_the_user(engine: Any) -> None:
    front, back = WorkingServer(engine, tasks="workers"), WorkingServer(engine)
    async with (
        connect(front.server, capabilities=KNOWS_TASKS, principal=ADA) as ada,
        connect(front.server, capabilities=KNOWS_TASKS, principal=EVE) as eve,
        connect(back.server),
    ):
        tasks = await begin(ada, "work", {"label": "a"}), await begin(eve, "work", {"label": "e"})
        while len(back.begun) < 2:
            await asyncio.sleep(0.005)
        await front.server.revoke("ada")
        assert "result" not in await until(ada, tasks[0], "cancelled")
        while back.ended != ["a"]:
            await asyncio.sleep(0.005)
        back.is_let_go.set()
        await until(eve, tasks[1], "completed")


async def test_revoke_cancels_waiting_tasks_and_allows_later_ones(engine: Any) -> None:
    front, back = WorkingServer(engine, tasks="workers"), WorkingServer(engine, tasks=Tasks(slots=2))
    back.is_let_go.set()
    async with connect(front.server, capabilities=KNOWS_TASKS, principal=ADA) as ada:
        task = await begin(ada, "work", {"label": "before"})
        await front.server.revoke("ada")
        async with connect(back.server):  # which was not there to hear of it
            await until(ada, task, "cancelled")
            await until(ada, await begin(ada, "work", {"label": "later"}), "completed")
    assert back.begun == ["later"]
