"""Helpers for tests of middleware: a server to wrap, and a middleware that records requests."""

from collections.abc import Awaitable, Callable
from typing import Any

from mcpkit import Context, Limits, ProtocolError, Server, ToolError
from mcpkit.exceptions import ResourceNotFoundError
from mcpkit.middleware import CallNext, Request, Result
from mcpkit.testing import TestClient

REVISIONS = ["2025-11-25", "2026-07-28"]


def make_server() -> Server:
    server = Server("wrapped", limits=Limits(page_size=1))

    @server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    @server.tool
    async def fail(ctx: Context) -> str:
        raise ToolError("no")

    @server.tool
    async def count(ctx: Context) -> str:
        await ctx.report_progress(1, 2)
        await ctx.info("half")
        return "done"

    @server.tool
    async def ask(ctx: Context) -> str:
        answer = await ctx.elicit("Which city?", str)
        return f"{ctx.client.info['name']} said {answer.value}"

    @server.resource("wrapped://known")
    async def known() -> str:
        return "here"

    @server.resource("wrapped://{name}")
    async def unknown(name: str) -> str:
        raise ResourceNotFoundError

    @server.prompt
    async def greet(name: str) -> str:
        return f"Hello {name}"

    return server


class Recorder:
    """Notes what goes in and comes out."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, Any]] = []

    async def __call__(self, request: Request, call_next: CallNext) -> Result:
        try:
            result = await call_next(request)
        except BaseException as error:
            self.seen.append((request.method, type(error).__name__))
            raise
        self.seen.append((request.method, dict(result)))
        return result


class BrokenError(Exception):
    """An unexpected error."""


def make_failing_server(error: BaseException, **options: Any) -> Server:
    """Make a server of which everything fails."""
    server = Server("failing", **options)

    @server.tool
    async def tool() -> str:
        raise error

    @server.tool
    def in_thread() -> str:
        raise error

    @server.resource("failing://resource")
    async def resource() -> str:
        raise error

    @server.resource("failing://{name}/template")
    def template(name: str) -> str:
        raise error

    @server.prompt(complete={"word": lambda value: fail()})
    async def prompt(word: str = "") -> str:
        raise error

    def fail() -> list[str]:
        raise error

    @server.method("failing/own")
    async def own() -> dict[str, int]:
        raise error

    return server


COMPLETION = {"ref": {"type": "ref/prompt", "name": "prompt"}, "argument": {"name": "word", "value": "a"}}

CALLS: dict[str, Callable[[TestClient], Awaitable[Any]]] = {
    "tool": lambda client: client.call_tool("tool"),
    "in thread": lambda client: client.call_tool("in_thread"),
    "resource": lambda client: client.read_resource("failing://resource"),
    "template": lambda client: client.read_resource("failing://a/template"),
    "prompt": lambda client: client.get_prompt("prompt"),
    "completion": lambda client: client.request("completion/complete", COMPLETION),
    "own method": lambda client: client.request("failing/own"),
}


async def error_text(client: TestClient, call: Callable[[TestClient], Awaitable[Any]]) -> str:
    """Return the text of the error that a call ends with."""
    try:
        result = await call(client)
    except ProtocolError as error:
        return error.message
    assert result.is_error
    return str(result.text)
