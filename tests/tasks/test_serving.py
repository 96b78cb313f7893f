"""Servers that run tasks: one runner per event loop, the lifespan, and users whose access is revoked."""

from __future__ import annotations

import asyncio
import secrets
from typing import Any

import pytest

from mcpkit import Principal, Server, Tasks
from mcpkit.auth import StaticTokens
from mcpkit.testing import connect
from tests.helpers.task_client import KNOWS_TASKS, begin, until

pytestmark = pytest.mark.anyio


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
