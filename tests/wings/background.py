"""A toy of tasks: a call is answered at once, and goes on when the client has gone."""

from __future__ import annotations

import json
from itertools import count
from typing import Any

from mcpkit import Extension
from mcpkit.middleware import CallTool, Detached, ToolCall, ToolCallResult
from mcpkit.transports import OpenQuestions

tasks = Extension("com.example/tasks")


class Mailbox:
    """The channel of a call that goes on alone: what it says is kept."""

    def __init__(self, request: ToolCall) -> None:
        channel = request.ctx.call.channel
        self.principal = channel.principal
        self.request_headers = channel.request_headers
        self.caller = channel.caller
        self.questions = OpenQuestions()
        self.messages: list[dict[str, Any]] = []

    def send(self, message: bytes) -> None:
        self.messages.append(json.loads(message))

    async def ready(self) -> None:
        """Keep up."""

    async def close(self) -> None:
        """There is nothing to close."""


running: dict[str, tuple[Detached, Mailbox]] = {}
ids = count(1)


@tasks.middleware("tools/call")
async def detach(request: ToolCall, call_next: CallTool) -> ToolCallResult:
    """Answer with the id of a task, where the client knows what that is."""
    if not tasks.is_supported(request.ctx):
        return await call_next(request)
    mailbox = Mailbox(request)
    id_ = f"task-{next(ids)}"
    running[id_] = (request.detach(call_next, mailbox), mailbox)
    return tasks.result(request.ctx, "task", {"taskId": id_})
