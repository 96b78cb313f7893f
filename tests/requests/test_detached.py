"""Calls that a middleware detaches: they go on without their request until they end, are cancelled, or shutdown."""

import asyncio
import contextvars
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mcpkit import Context, Limits, Principal, ProtocolError, Server, ToolError
from mcpkit.middleware import CallNext, DetachedCall, Request, Result
from mcpkit.testing import TestClient, connect
from tests.helpers.pipe import open_pipe
from tests.helpers.scripted_transport import Mailbox
from tests.helpers.waiting import until

CAPABILITIES: dict[str, Any] = {"elicitation": {"form": {}, "url": {}}, "roots": {}}


class Jobs:
    """A server with tool calls that are answered at once and go on detached.

    Attributes:
        begun: The detached calls, each with the channel that records its messages.
        events: The steps of `bake` and of the lifespan.
    """

    def __init__(self, **options: Any) -> None:
        self.server = Server("s", lifespan=self.lifespan, **options)
        self.begun: list[tuple[DetachedCall, Mailbox]] = []
        self.events: list[str] = []
        self.gate = asyncio.Event()
        self.server.tool(self.bake)

        @self.server.middleware
        async def detach(request: Request, call_next: CallNext) -> Any:
            if request.method != "tools/call":
                return await call_next(request)
            mailbox = Mailbox(request)
            mailbox.caller = request.params["arguments"].get("caller", mailbox.caller)
            self.begun.append((request.detach(call_next, mailbox), mailbox))
            return {"content": []}

    @asynccontextmanager
    async def lifespan(self, server: Server) -> AsyncIterator[str]:
        yield "oven"
        self.events.append("lifespan left")

    async def bake(self, ctx: Context) -> str:
        self.events.append("begun")
        try:
            await ctx.report_progress(1, 2)
            await self.gate.wait()
            await ctx.report_progress(2, 2)
        finally:
            await asyncio.sleep(0)
            self.events.append(f"ended in the {ctx.state}")
        return "baked"

    async def begin(self, client: TestClient, name: str, **arguments: Any) -> tuple[DetachedCall, Mailbox]:
        params = {"name": name, "arguments": arguments, "_meta": {"progressToken": "p"}}
        count = len(self.begun)
        await client.request("tools/call", params)
        (job,) = self.begun[count:]
        return job

    async def run(self, revision: str, name: str, **arguments: Any) -> dict[str, Any]:
        """Run a call of a client that has left when it ends, and return the result."""
        async with self.server.running():
            async with connect(self.server, protocol_version=revision, capabilities=CAPABILITIES) as client:
                job, _ = await self.begin(client, name, **arguments)
            return await job.result()


def text_of(result: dict[str, Any]) -> str:
    return "".join(block["text"] for block in result["content"])


# Results


async def test_detached_result_is_that_of_the_revision(revision: str) -> None:
    jobs = Jobs()

    @jobs.server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    result = await jobs.run(revision, "add", a=1, b=2)
    if revision == "2025-11-25":
        assert result == {"content": [{"type": "text", "text": "3"}], "structuredContent": {"result": 3}}
    else:
        assert (result["resultType"], result["structuredContent"]) == ("complete", 3)
        assert "io.modelcontextprotocol/serverInfo" in result["_meta"]
    again = await jobs.begun[0][0].result()
    assert again == result
    assert again is not result


async def test_detached_error_is_that_of_the_revision(revision: str) -> None:
    jobs = Jobs()
    failures: list[Any] = []
    jobs.server.on_error(failures.append)

    @jobs.server.tool(timeout=0.5)
    async def fail(how: str) -> None:
        errors = {"tool": ToolError("burnt"), "bug": ValueError("secret")}
        if how == "timeout":
            await asyncio.Event().wait()
        raise errors.get(how, ProtocolError(-32099, "no oven", {"ovens": 0}))

    for arguments, text in [
        ({"how": "tool"}, "burnt"), ({"how": "bug"}, "Internal error (ref "), ({"how": "timeout"}, "timed out after"),
        ({"how": 1.5}, "how: expected a string"), ({}, "how: expected a string"),
    ]:  # fmt: skip
        result = await jobs.run(revision, "fail", **arguments)
        assert (result["isError"], text in text_of(result)) == (True, True), text
        assert "secret" not in text_of(result)
    assert [type(each.exception).__name__ for each in failures] == ["ValueError", "CallTimeoutError"]
    with pytest.raises(ProtocolError, match="no oven") as raised:
        await jobs.run(revision, "fail", how="protocol")
    assert (raised.value.code, raised.value.data) == (-32099, {"ovens": 0})
    with pytest.raises(ProtocolError, match="Unknown tool: nothing"):
        await jobs.run(revision, "nothing")


async def test_detached_call_keeps_context_variables_state_and_principal() -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable")
    jobs = Jobs()

    @jobs.server.middleware("tools/call")
    async def set_variable(request: Request, call_next: CallNext) -> Result:
        variable.set("set")
        return await call_next(request)

    @jobs.server.tool
    async def observe(ctx: Context) -> list[str]:
        return [variable.get(), ctx.state, str(ctx.principal.id), ctx.idempotency_key]

    async with jobs.server.running():
        async with connect(jobs.server, principal=Principal("user")) as client:
            job, _ = await jobs.begin(client, "observe")
        actual = (await job.result())["structuredContent"]
    assert actual[:3] == ["set", "oven", "user"]
    assert actual[3]


# Ends


async def test_detached_call_outlives_cancellation_and_connection(revision: str, schema_dir: Path) -> None:
    jobs = Jobs()
    async with jobs.server.running(), open_pipe(jobs.server, revision, schema_dir) as pipe:
        await pipe.call_tool("bake")
        job, _ = jobs.begun[0]
        pipe.cancel(pipe.ids)
        await pipe.connection.aclose(graceful=True)
        assert job.is_running
        jobs.gate.set()
        assert text_of(await job.result()) == "baked"
        await pipe.quiet()


async def test_detached_call_ends_with_the_last_use_of_its_server(revision: str) -> None:
    jobs = Jobs()
    async with jobs.server.running():
        async with jobs.server.running(), connect(jobs.server, protocol_version=revision) as client:
            job, _ = await jobs.begin(client, "bake")
            await until(lambda: jobs.events)
        assert job.is_running
        waiting = asyncio.ensure_future(job.result())
        await asyncio.sleep(0)
    assert jobs.events == ["begun", "ended in the oven", "lifespan left"]
    assert not job.is_running
    for result in (waiting, job.result()):
        with pytest.raises(ProtocolError, match="The server stopped before the call finished"):
            await result
    assert (jobs.server.engine.runtime.running.taken, len(jobs.server.engine.runtime.detached)) == (0, 0)


async def test_detached_cancel_stops_the_call(revision: str) -> None:
    jobs = Jobs()
    async with connect(jobs.server, protocol_version=revision) as client:
        job, mailbox = await jobs.begin(client, "bake")
        await until(lambda: mailbox.messages)
        waiting = asyncio.ensure_future(job.result())
        await asyncio.sleep(0)
        job.cancel()
        job.cancel()
        assert not job.is_running
        for result in (waiting, job.result()):
            with pytest.raises(asyncio.CancelledError):
                await result
        await until(lambda: "ended in the oven" in jobs.events)
        assert [message["params"]["progress"] for message in mailbox.messages] == [1]
    assert jobs.server.engine.runtime.running.taken == 0


@pytest.mark.parametrize("end", ["cancel", "server"])
async def test_detached_end_cancels_open_questions(revision: str, end: str) -> None:
    jobs = Jobs()

    @jobs.server.tool
    async def ask(ctx: Context) -> str:
        return str((await ctx.elicit("Sure?", bool)).action)

    async with jobs.server.running():
        async with connect(jobs.server, protocol_version=revision, capabilities=CAPABILITIES) as client:
            job, mailbox = await jobs.begin(client, "ask")
        await until(lambda: mailbox.messages)
        if end == "cancel":
            job.cancel()
            await until(lambda: len(mailbox.messages) > 1)
    question, cancelled = mailbox.messages
    assert cancelled["method"] == "notifications/cancelled"
    assert cancelled["params"]["requestId"] == question["id"]
    assert len(mailbox.questions) == 0


# Channels and misuse


async def test_detach_leaves_room_for_other_callers() -> None:
    jobs = Jobs(limits=Limits(concurrent_requests=8))

    @jobs.server.tool
    async def work(caller: str) -> None:
        await jobs.gate.wait()

    async with connect(jobs.server) as client:
        for _ in range(4):
            await jobs.begin(client, "work", caller="one")
        with pytest.raises(ProtocolError, match="4 from one; one client has at most as many of 8"):
            await jobs.begin(client, "work", caller="one")
        await jobs.begin(client, "work", caller="other")
        jobs.gate.set()
        for job, _ in jobs.begun:
            await job.result()
        await jobs.begin(client, "work", caller="one")
    assert jobs.server.engine.runtime.running.taken == 0
