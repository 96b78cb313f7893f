"""Over HTTP a call that goes on alone outlives its POST, its connection and its session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mcpkit import Context, ProtocolError, Server
from mcpkit.middleware import Detached
from tests.helpers.asgi_client import Client, Serve, lifespan
from tests.helpers.mailbox import Mailbox
from tests.helpers.waiting import until
from tests.helpers.work import Work

pytestmark = pytest.mark.anyio


class Jobs:
    """A server whose tool calls are answered with nothing, and go on."""

    def __init__(self, work: Work) -> None:
        self.server = Server("jobs")
        self.begun: list[tuple[Detached, Mailbox]] = []

        @self.server.middleware("tools/call")
        async def detach(request: Any, call_next: Any) -> Any:
            mailbox = Mailbox(request)
            self.begun.append((request.detach(call_next, mailbox), mailbox))
            return {"content": []}

        @self.server.tool
        async def bake(ctx: Context) -> str:
            await ctx.notify("notifications/jobs/begun")
            await work.wait()
            return f"baked for {ctx.headers['x-client']}"


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25", "2026-07-28"])
@pytest.mark.parametrize("stateless", [False, True])
async def test_it_goes_on_when_all_of_its_client_has_gone(
    revision: str, stateless: bool, serve: Serve, work: Work
) -> None:
    jobs = Jobs(work)
    async with serve(jobs.server, stateless=stateless) as client:
        if revision == "2026-07-28":
            answer = client.call("bake", headers={"x-client": "me"})
        else:
            session = await client.initialize(revision)
            message = {"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": "bake"}}
            answer = session.post(message, {"x-client": "me"})
        assert (await answer.whole()).json()["result"]["content"] == []
        assert answer.headers["content-type"] == "application/json"
        if revision != "2026-07-28" and not stateless:
            await session.notify("notifications/cancelled", {"requestId": 5})
            await session.delete()
        answer.disconnect()
        job, mailbox = jobs.begun[0]
        await until(lambda: mailbox.messages)
        assert job.is_running
        work.gate.set()
        assert (await job.result())["content"][0]["text"] == "baked for me"
        assert [message["method"] for message in mailbox.messages] == ["notifications/jobs/begun"]


async def test_it_ends_with_the_app(schema_dir: Path, work: Work) -> None:
    jobs = Jobs(work)
    app = jobs.server.asgi()
    async with lifespan(app):
        await Client(app, schema_dir).call("bake", headers={"x-client": "me"}).whole()
        await work.started.wait()
    assert work.cancelled.is_set()
    with pytest.raises(ProtocolError, match="The server has ended"):
        await jobs.begun[0][0].result()
