"""Errors of handlers that reach the caller through a task group, which wraps them in an exception group."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from mcpkit import Context, ProtocolError, ResourceNotFoundError, Server, ToolError
from mcpkit.testing import connect

pytestmark = pytest.mark.anyio

EVERY = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]
Work = Callable[[], Awaitable[Any]]


async def together(*works: Work) -> None:
    """Do several things in a task group, and each in one of its own, so that groups hold groups."""

    async def apart(work: Work) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(work)

    async with anyio.create_task_group() as tasks:
        for work in works:
            tasks.start_soon(apart, work)


def failing(error: BaseException) -> Work:
    async def fail() -> None:
        raise error

    return fail


@pytest.mark.parametrize("revision", EVERY)
async def test_what_a_tool_has_to_say_is_said(revision: str) -> None:
    server = Server("s")

    @server.tool
    async def work() -> None:
        await together(failing(ToolError("no paper left")))

    async with connect(server, revision=revision) as client:
        result = await client.call("work")
    assert (result.is_error, result.text) == (True, "no paper left")


async def test_of_several_that_say_something_the_first_is_heard() -> None:
    server = Server("s")

    @server.tool(timeout=60)
    async def work() -> None:
        await together(failing(ToolError("no paper left")), failing(ToolError("no ink left")))

    async with connect(server) as client:
        assert (await client.call("work")).text == "no paper left"


@pytest.mark.parametrize("revision", EVERY)
async def test_a_missing_capability_is_named(revision: str) -> None:
    server = Server("s")

    @server.tool
    async def work(ctx: Context) -> None:
        await together(ctx.list_roots, ctx.list_roots)

    async with connect(server, revision=revision) as client:
        if revision == "2026-07-28":
            with pytest.raises(ProtocolError, match="needs: roots") as caught:
                await client.call("work")
            assert caught.value.code == -32021
        else:
            assert "needs: roots" in (await client.call("work")).text


async def test_an_error_comes_before_a_question() -> None:
    server = Server("s")

    @server.tool
    async def work(ctx: Context) -> None:
        await together(ctx.list_roots, failing(ToolError("no paper left")))

    async with connect(server, answers=lambda *_: {"roots": []}) as client:
        assert (await client.call("work")).text == "no paper left"


@pytest.mark.parametrize("revision", EVERY)
async def test_prompts_and_resources_say_it_too(revision: str) -> None:
    server = Server("s")

    @server.prompt
    async def greet() -> str:
        await together(failing(ProtocolError(-32099, "nobody is there")))
        return ""

    @server.resource("notes://{kind}")
    async def notes(kind: str) -> str:
        await together(failing(ResourceNotFoundError()))
        return ""

    async with connect(server, revision=revision) as client:
        with pytest.raises(ProtocolError, match="nobody is there") as caught:
            await client.get_prompt("greet")
        assert caught.value.code == -32099
        with pytest.raises(ProtocolError, match="Resource not found: notes://day"):
            await client.read("notes://day")


@pytest.mark.parametrize("members", [3, ["a text"], lambda: ()])
async def test_an_error_with_an_attribute_of_that_name_is_no_group(members: object) -> None:
    server = Server("s")

    class OwnError(ToolError):
        exceptions = members

    @server.tool
    async def work() -> None:
        raise OwnError("no paper left")

    async with connect(server) as client:
        assert (await client.call("work")).text == "no paper left"


async def test_among_others_nothing_is_told(caplog: pytest.LogCaptureFixture) -> None:
    server = Server("s")

    @server.tool
    async def work() -> None:
        await together(failing(ToolError("no paper left")), failing(KeyError("secret")))

    async with connect(server) as client:
        text = (await client.call("work")).text
    assert text.startswith("Internal error (ref ")
    assert "secret" in caplog.text
