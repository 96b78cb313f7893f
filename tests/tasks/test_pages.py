"""A page that the user of a client of 2025-11-25 visits for a task: it is the same one in the run that goes on."""

from __future__ import annotations

from typing import Any

import pytest

from mcpkit import Context, Task
from tests.helpers.handshake_tasks import Speak, begin, server_of

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("rerun", ["safe", "never"])
async def test_a_task_goes_on_when_its_user_has_visited_a_page(speak: Speak, rerun: Any) -> None:
    done: list[bool] = []

    async def pay(ctx: Context) -> str:
        """Have something paid."""
        return (await ctx.elicit_url("Pay", "https://pay.example/1", done=lambda: bool(done))).action

    server = server_of(pay, task=Task(rerun=rerun))
    async with speak(server, capabilities={"elicitation": {"url": {}}}) as pipe:
        id_ = (await begin(pipe, "pay"))["taskId"]
        waiting = pipe.start("tasks/result", {"taskId": id_})
        question = await pipe.question("elicitation/create")
        done.append(True)
        pipe.reply(question, {"action": "accept"})
        while (message := await pipe.receive()).get("id") != waiting:
            assert message["method"].startswith("notifications/")
        assert message["result"]["content"] == [{"type": "text", "text": "accept"}]
