"""A server of which everything fails, and how its clients hear of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from mcpkit import ProtocolError, Server
from mcpkit.testing import TestClient

BOTH = ["2025-11-25", "2026-07-28"]


class BrokenError(Exception):
    """Something that nobody has foreseen."""


def make_server(error: BaseException, **options: Any) -> Server:
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


async def told(client: TestClient, call: Callable[[TestClient], Awaitable[Any]]) -> str:
    """Return the text of the error that a call ends with."""
    try:
        result = await call(client)
    except ProtocolError as error:
        return error.message
    assert result.is_error
    return str(result.text)
