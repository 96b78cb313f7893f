"""Cases of a server in the process of an agent, called through the agent's own SDK.

Runs as a process of its own: takes the name of the SDK, and prints the failure of each case, or null.
"""

import asyncio
import json
import sys
import threading
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mcpkit import Context, Limits, Principal, Server, ToolError
from tests.helpers.agent_sdks import MCP, Agent, agent

SDK = sys.argv[1]


class Lab:
    """A server with some tools, and what has happened in it."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.is_waiting, self.is_over, self.gate = (asyncio.Event() for _ in range(3))
        self.startup_error: Exception | None = None
        self.server = server = Server(
            "lab", version="1.2.3", lifespan=self.lifespan, limits=Limits(page_size=2)
        )
        hints = {"readOnlyHint": True, "title": "Sum"}
        server.tool(annotations=hints, meta={"anthropic/maxResultSizeChars": 500_000})(self.add)
        for tool in (self.fail, self.refuse, self.wait, self.ask, self.trace, self.whoami):
            server.tool(tool)
        self.instance = server.as_sdk_server()

    @asynccontextmanager
    async def lifespan(self, server: Server) -> AsyncIterator[None]:
        if self.startup_error is not None:
            raise self.startup_error
        self.events.append("entered")
        try:
            yield
        finally:
            self.events.append("left")

    async def add(self, a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    async def fail(self) -> None:
        raise ValueError("a secret")

    async def refuse(self) -> None:
        raise ToolError("not today")

    async def wait(self) -> str:
        self.is_waiting.set()
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.events.append("stopped")
            self.is_over.set()
            raise
        return "waited"

    async def ask(self, ctx: Context) -> str:
        return str(await ctx.elicit("Which?", str))

    async def trace(self, ctx: Context) -> str:
        return json.dumps(ctx.meta)

    async def whoami(self, ctx: Context) -> str:
        return ctx.principal.id or "nobody"


@asynccontextmanager
async def begun(instance: Any, **capabilities: Any) -> AsyncIterator[Agent]:
    async with agent(SDK, instance) as here:
        await here.begin(**capabilities)
        yield here


def text(result: dict[str, Any]) -> str:
    return result["content"][0]["text"]


async def tools_are_listed_with_all_members(lab: Lab, here: Agent) -> None:
    found: list[dict[str, Any]] = []
    params: dict[str, Any] = {}
    while not found or params:
        page = (await here.ask("tools/list", **params))["result"]
        found += page["tools"]
        params = {"cursor": page["nextCursor"]} if "nextCursor" in page else {}
    assert {tool["name"] for tool in found} == {
        "add", "fail", "refuse", "wait", "ask", "trace", "whoami",
    }  # fmt: skip
    add = found[0]
    assert add["description"] == "Add two numbers."
    assert add["inputSchema"]["required"] == ["a", "b"]
    assert add["annotations"] == {"title": "Sum", "readOnlyHint": True}
    assert add["_meta"] == {"anthropic/maxResultSizeChars": 500_000}


async def tools_are_called(lab: Lab, here: Agent) -> None:
    results = await asyncio.gather(*(here.call("add", a=each, b=each) for each in range(50)))
    assert [text(result) for result in results] == [str(2 * each) for each in range(50)]


async def errors_have_readable_text(lab: Lab, here: Agent) -> None:
    for result, message in (
        (await here.call("add", a=1), "b: expected an integer, but it is missing"),
        (await here.call("refuse"), "not today"),
    ):
        assert (result["isError"], text(result)) == (True, message)
    failed = await here.call("fail")
    assert failed["isError"] is True
    assert "Internal error" in text(failed)
    assert "secret" not in text(failed)
    error = (await here.ask("tools/call", name="lost", arguments={}))["error"]
    assert "Unknown tool: lost" in error["message"]


async def call_is_cancelled(lab: Lab, here: Agent) -> None:
    call = here.start("tools/call", name="wait", arguments={})
    await lab.is_waiting.wait()
    await call.cancel()
    if SDK == "claude" and MCP == 1:
        assert lab.events == ["entered"], "it passes cancellations on to its own servers alone"
        assert not call.answer.done()
    else:
        await lab.is_over.wait()
        assert lab.events == ["entered", "stopped"]
    if SDK == "claude" and MCP == 2:
        assert (await call.response())["error"]["message"] == "Request cancelled"
    assert text(await here.call("add", a=1, b=2)) == "3"


async def request_to_client_fails_with_reason(lab: Lab) -> None:
    for capabilities in ({}, {"elicitation": {"form": {}}}):
        async with begun(lab.instance, **capabilities) as here:
            result = await here.call("ask")
            assert result["isError"] is True
            if SDK == "claude" and capabilities:
                assert "not supported for SDK servers" in text(result)
            else:
                assert "The client does not declare the required capability" in text(result)


async def initialize_can_be_repeated(lab: Lab) -> None:
    async with agent(SDK, lab.instance) as here:
        first = (await here.begin())["result"]
        assert first["serverInfo"].items() >= {"name": "lab", "version": "1.2.3"}.items()
        call = here.start("tools/call", name="wait", arguments={})
        await lab.is_waiting.wait()
        assert (await here.begin())["result"] == first
        assert text(await here.call("add", a=1, b=2)) == "3"
        lab.gate.set()
        assert text((await call.response())["result"]) == "waited"


async def meta_of_request_reaches_the_tool(lab: Lab, here: Agent) -> None:
    answer = await here.ask("tools/call", name="trace", arguments={}, _meta={"example.com/id": "x"})
    # The other SDK passes a name and arguments on, and nothing else.
    assert json.loads(text(answer["result"])) == ({"example.com/id": "x"} if SDK == "claude" else {})


async def end_of_agent_cancels_its_calls(lab: Lab) -> None:
    async with begun(lab.instance) as here:
        call = here.start("tools/call", name="wait", arguments={})
        await lab.is_waiting.wait()
    await lab.is_over.wait()
    await lab.instance.aclose()
    assert lab.events == ["entered", "stopped", "left"]
    call.answer.cancel()


async def event_loops_have_their_own_sessions(lab: Lab) -> None:
    answers: list[str] = []

    async def calls() -> None:
        async with begun(lab.instance) as here:
            for each in range(20):
                answers.append(text(await here.call("add", a=each, b=1)))

    threads = [threading.Thread(target=asyncio.run, args=(calls(),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    await calls()
    for thread in threads:
        await asyncio.to_thread(thread.join)
    await lab.instance.aclose()
    assert sorted(answers) == sorted(str(each + 1) for each in range(20) for _ in range(5))
    assert lab.events.count("entered") == lab.events.count("left") == 5


async def lifespan_error_is_reported(lab: Lab) -> None:
    lab.startup_error = OSError("no database")
    async with agent(SDK, lab.instance) as here:
        try:
            await here.begin()
            message = str((await here.ask("tools/list"))["error"])
        except RuntimeError as error:
            message = str(error)
        assert "no database" in message or "session closed" in message, message
        lab.startup_error = None
        await here.begin()
        assert text(await here.call("add", a=1, b=2)) == "3"


async def principal_of_agent_is_passed_on(lab: Lab) -> None:
    for principal, name in ((Principal("ada"), "ada"), (None, "nobody")):
        async with begun(lab.server.as_sdk_server(principal=principal)) as here:
            assert text(await here.call("whoami")) == name


async def resources_and_prompts_are_routed(lab: Lab) -> None:
    lab.server.resource("data://{name}", name="data")(lambda name: f"data of {name}")
    lab.server.prompt(name="greet")(lambda: "Say hello.")
    async with begun(lab.instance) as here:
        read = await here.ask("resources/read", uri="data://x")
        got = await here.ask("prompts/get", name="greet")
    if SDK == "claude":
        assert read["result"]["contents"][0]["text"] == "data of x"
        assert got["result"]["messages"][0]["content"]["text"] == "Say hello."
    else:
        assert read["error"]["message"] == "Method 'resources/read' not found"


CASES = [each for each in list(globals().values()) if "lab" in getattr(each, "__annotations__", {})]


async def run_case(case: Any) -> str | None:
    lab = Lab()
    try:
        if "here" in case.__annotations__:
            async with begun(lab.instance) as here:
                await asyncio.wait_for(case(lab, here), 30)
        else:
            await asyncio.wait_for(case(lab), 30)
    except BaseException:
        return traceback.format_exc()
    finally:
        await lab.instance.aclose()
    return None


if __name__ == "__main__":
    print(json.dumps({case.__name__: asyncio.run(run_case(case)) for case in CASES}))
