"""A call that goes on alone: what it says, what it asks, and what comes of it."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mcpkit import Context, ElicitUrl, Extension, Principal, ProtocolError, Server, ToolError, current_context
from mcpkit.common.errors import BusyError
from mcpkit.middleware import CallNext, Detached, Request, Result
from mcpkit.testing import Client, connect
from tests.helpers.scripted_transport import Mailbox
from tests.helpers.waiting import until

pytestmark = pytest.mark.anyio

BOTH = pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
CAN: dict[str, Any] = {
    "elicitation": {"form": {}, "url": {}},
    "roots": {},
    "extensions": {"com.example/jobs": {}},
}


class Jobs:
    """A server that answers every request of a method with the number of a job.

    Attributes:
        begun: The jobs, each with what it has said.
        refused: What `detach` has raised.
    """

    def __init__(self, method: str = "tools/call", **options: Any) -> None:
        self.server = Server("s", **options)
        self.begun: list[tuple[Detached, Mailbox]] = []
        self.refused: list[BaseException] = []
        self.make: Callable[[Any], Any] = Mailbox

        @self.server.middleware
        async def detach(request: Request, call_next: CallNext) -> Any:
            if request.method != method:
                return await call_next(request)
            mailbox = self.make(request)
            try:
                self.begun.append((request.detach(call_next, mailbox), mailbox))
            except Exception as error:
                self.refused.append(error)
                raise
            return {"content": [], "contents": [], "messages": []}

    async def begin(self, client: Client, name: str, **arguments: Any) -> tuple[Detached, Mailbox]:
        """Begin a job, which is answered at once."""
        count = len(self.begun)
        await client.request("tools/call", {"name": name, "arguments": arguments})
        (job,) = self.begun[count:]
        return job

    async def run(self, revision: str, name: str, **arguments: Any) -> dict[str, Any]:
        """Run a job of a client that has gone when it is over, and return the result."""
        async with self.server.running():
            async with connect(self.server, revision=revision, capabilities=CAN) as client:
                job, _ = await self.begin(client, name, **arguments)
            return await job.result()


def double(number: int) -> int:
    """Work in another process."""
    return 2 * number


def text_of(result: dict[str, Any]) -> str:
    return "".join(block["text"] for block in result["content"])


# What comes of it


@BOTH
async def test_its_result_is_that_of_the_clients_revision(revision: str) -> None:
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


@BOTH
async def test_what_goes_wrong_is_what_the_client_would_have_got(revision: str) -> None:
    jobs = Jobs()
    failures: list[Any] = []
    jobs.server.on_error(failures.append)

    @jobs.server.tool
    async def fail(how: str) -> None:
        raise {"tool": ToolError("burnt"), "bug": ValueError("secret")}.get(
            how, ProtocolError(-32099, "no oven", {"ovens": 0})
        )

    burnt = await jobs.run(revision, "fail", how="tool")
    assert (burnt["isError"], text_of(burnt)) == (True, "burnt")
    bug = await jobs.run(revision, "fail", how="bug")
    assert bug["isError"] is True
    assert "secret" not in text_of(bug)
    assert len(failures) == 1
    with pytest.raises(ProtocolError, match="no oven") as raised:
        await jobs.run(revision, "fail", how="protocol")
    assert (raised.value.code, raised.value.data) == (-32099, {"ovens": 0})
    for how in ({"how": 1.5}, {}):
        assert "how: expected a string" in text_of(await jobs.run(revision, "fail", **how))
    with pytest.raises(ProtocolError, match="Unknown tool: nothing"):
        await jobs.run(revision, "nothing")


@BOTH
async def test_functions_in_threads_and_processes_run_on(revision: str) -> None:
    jobs = Jobs()
    may_end = threading.Event()

    @jobs.server.tool
    def in_thread(ctx: Context) -> str:
        assert may_end.wait(10)
        ctx.sync.notify("notifications/jobs/thread")
        return f"{ctx.request_id} {ctx.method}"

    jobs.server.tool(process=True, name="in_process")(double)
    async with jobs.server.running():
        async with connect(jobs.server, revision=revision) as client:
            job, mailbox = await jobs.begin(client, "in_thread")
            other, _ = await jobs.begin(client, "in_process", number=2)
        may_end.set()
        assert text_of(await job.result()).endswith(" tools/call")
        assert [message["method"] for message in mailbox.messages] == ["notifications/jobs/thread"]
        assert text_of(await other.result()) == "4"


@BOTH
async def test_whatever_can_be_asked_for_can_go_on(revision: str) -> None:
    jobs = Jobs("resources/read")

    @jobs.server.resource("file://{name}")
    async def read(name: str, ctx: Context) -> str:
        await ctx.notify("notifications/jobs/read")
        return f"about {name}"

    async with jobs.server.running():
        async with connect(jobs.server, revision=revision) as client:
            await client.request("resources/read", {"uri": "file://bread"})
        job, mailbox = jobs.begun[0]
        assert (await job.result())["contents"][0]["text"] == "about bread"
        assert len(mailbox.messages) == 1


async def test_inner_middleware_runs_with_it() -> None:
    jobs = Jobs()
    seen: list[Any] = []

    @jobs.server.middleware("tools/call")
    async def within(request: Any, call_next: Any) -> Any:
        assert current_context() == request.ctx
        result = await call_next(request.with_arguments({"bread": "rye"}))
        seen.append(result.is_error)
        result["_meta"] = {"baked": True}
        return result

    @jobs.server.tool
    async def bake(bread: str) -> str:
        return bread

    result = await jobs.run("2025-11-25", "bake", bread="none")
    assert (text_of(result), result["_meta"], seen) == ("rye", {"baked": True}, [False])


async def test_it_has_the_context_variables_the_state_and_the_principal_of_its_request() -> None:

    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable")
    jobs = Jobs()

    @asynccontextmanager
    async def lifespan(server: Server) -> Any:
        yield "oven"

    outer = Server("outer", lifespan=lifespan)

    @outer.middleware
    async def set_variable(request: Request, call_next: CallNext) -> Result:
        variable.set("set")
        return await call_next(request)

    @outer.middleware("tools/call")
    async def detach(request: Any, call_next: Any) -> Any:
        mailbox = Mailbox(request)
        jobs.begun.append((request.detach(call_next, mailbox), mailbox))
        variable.set("later")
        return {"content": []}

    @outer.tool
    async def look(ctx: Context) -> list[str]:
        return [variable.get(), ctx.state, str(ctx.principal.id), ctx.call_id]

    async with outer.running():
        async with connect(outer, principal=Principal("somebody")) as client:
            job, _ = await jobs.begin(client, "look")
        found = (await job.result())["structuredContent"]
    assert found[:3] == ["set", "oven", "somebody"]
    assert found[3]


async def test_who_waits_for_it_may_go() -> None:
    jobs = Jobs()
    may_end = asyncio.Event()

    @jobs.server.tool
    async def bake() -> str:
        await may_end.wait()
        return "baked"

    async with connect(jobs.server) as client:
        job, _ = await jobs.begin(client, "bake")
        waiting = asyncio.ensure_future(job.result())
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert job.is_running
        may_end.set()
        assert text_of(await job.result()) == "baked"
        assert not job.is_running
        job.cancel()
        assert text_of(await job.result()) == "baked"


# What it asks


@BOTH
async def test_it_asks_by_requests_in_both_eras(revision: str) -> None:
    jobs = Jobs()

    @jobs.server.tool
    async def order(ctx: Context) -> str:
        first = await ctx.once("order", lambda: 7)
        bread, roots = await ctx.elicit("Which bread?", str), await ctx.list_roots()
        return f"{first} {bread.value} {roots[0].uri}"

    async with jobs.server.running():
        async with connect(jobs.server, revision=revision, capabilities=CAN) as client:
            job, mailbox = await jobs.begin(client, "order")
        for number, result in enumerate(
            (
                {"action": "accept", "content": {"value": "rye"}},
                {"roots": [{"uri": "file:///bakery"}]},
            )
        ):
            await until(lambda number=number: len(mailbox.messages) > number)
            asked = mailbox.messages[number]
            assert asked["method"] == ("elicitation/create", "roots/list")[number]
            mailbox.questions.answer({"id": asked["id"], "result": result})
        assert text_of(await job.result()) == "7 rye file:///bakery"


@BOTH
async def test_a_page_is_asked_for_until_it_is_done(revision: str) -> None:
    jobs = Jobs()
    looks = iter([False, True])

    @jobs.server.tool
    async def pay(ctx: Context) -> str:
        answer = await ctx.elicit_url("Pay, please", "https://example.com/pay", done=lambda: next(looks))
        return answer.action

    async with jobs.server.running():
        async with connect(jobs.server, revision=revision, capabilities=CAN) as client:
            job, mailbox = await jobs.begin(client, "pay")
        await until(lambda: mailbox.messages)
        asked = mailbox.messages[0]
        mailbox.questions.answer({"id": asked["id"], "result": {"action": "accept"}})
        assert text_of(await job.result()) == "accept"
    # Only that revision tells which page has been dealt with.
    told = [message["method"] for message in mailbox.messages[1:]]
    assert told == (["notifications/elicitation/complete"] if revision == "2025-11-25" else [])
    assert ("elicitationId" in asked["params"]) is (revision == "2025-11-25")


@BOTH
async def test_where_nobody_can_be_asked_the_call_says_so(revision: str) -> None:
    jobs = Jobs()

    class Deaf(Mailbox):
        def __init__(self, request: Any) -> None:
            super().__init__(request)
            self.questions = None  # type: ignore[assignment]

    jobs.make = Deaf

    @jobs.server.tool
    async def ask(ctx: Context) -> None:
        await ctx.ask(ElicitUrl("See", "https://example.com"))

    if revision == "2025-11-25":
        result = await jobs.run(revision, "ask")
        assert result["isError"] is True
        assert "elicitation.url" in text_of(result)
    else:
        with pytest.raises(ProtocolError) as raised:
            await jobs.run(revision, "ask")
        assert raised.value.code == -32021


async def test_what_an_earlier_round_has_brought_means_nothing_to_it() -> None:
    jobs = Jobs()

    @jobs.server.tool(single_use=True)
    async def ask(ctx: Context) -> str:
        return str((await ctx.elicit("Sure?", bool)).value)

    async with jobs.server.running():
        async with connect(jobs.server, capabilities=CAN) as client:
            params = {
                "name": "ask",
                "inputResponses": {"#1": {"action": "decline"}},
                "requestState": "forged",
            }
            await client.request("tools/call", params)
        job, mailbox = jobs.begun[0]
        await until(lambda: mailbox.messages)
        answer = {"action": "accept", "content": {"value": True}}
        mailbox.questions.answer({"id": mailbox.messages[0]["id"], "result": answer})
        assert text_of(await job.result()) == "True"


@BOTH
async def test_a_method_of_an_extension_may_ask_where_it_has_no_rounds(revision: str) -> None:
    jobs = Jobs("jobs/do")
    extension = Extension("com.example/jobs")

    @extension.method("jobs/do", revisions=[revision])
    async def do(ctx: Context) -> dict[str, Any]:
        return {"roots": len(await ctx.list_roots())}

    jobs.server.include(extension)
    async with jobs.server.running():
        async with connect(jobs.server, revision=revision, capabilities=CAN) as client:
            await client.request("jobs/do", {})
        job, mailbox = jobs.begun[0]
        await until(lambda: mailbox.messages)
        mailbox.questions.answer({"id": mailbox.messages[0]["id"], "result": {"roots": []}})
        assert (await job.result())["roots"] == 0


# Misuse


async def test_it_begins_in_an_event_loop() -> None:
    server = Server("s")
    raised: list[BaseException] = []

    @server.middleware
    async def detach(request: Request, call_next: CallNext) -> Result:
        def in_thread() -> None:
            try:
                request.detach(call_next, request.ctx.call.channel)
            except RuntimeError as error:
                raised.append(error)

        if request.method == "tools/call":
            await asyncio.to_thread(in_thread)
        return await call_next(request)

    @server.tool
    async def bake() -> str:
        return "baked"

    async with connect(server) as client:
        assert (await client.call("bake")).text == "baked"
    assert "no running event loop" in str(raised[0])


async def test_one_client_leaves_room_for_others() -> None:
    jobs = Jobs(max_running=8)
    may_end = asyncio.Event()

    class Named(Mailbox):
        def __init__(self, request: Any) -> None:
            super().__init__(request)
            self.caller = request.params["arguments"]["of"]

    jobs.make = Named

    @jobs.server.tool
    async def bake(of: str) -> None:
        await may_end.wait()

    async with connect(jobs.server) as client:
        for _ in range(4):
            await jobs.begin(client, "bake", of="one")
        with pytest.raises(ProtocolError, match="4 from one; one client has at most as many of 8"):
            await jobs.begin(client, "bake", of="one")
        assert isinstance(jobs.refused[0], BusyError)
        await jobs.begin(client, "bake", of="other")
        may_end.set()
        for job, _ in jobs.begun:
            await job.result()
        await jobs.begin(client, "bake", of="one")
    assert jobs.server.engine.runtime.running.taken == 0
