"""Extensions as authors write them; the type checkers read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from typing_extensions import assert_type

from mcpkit import Access, Context, Extension, Server
from mcpkit.extensions import ExtensionResult
from mcpkit.middleware import CallTool, ToolCall

server = Server("typed")
thing = server.extension("com.example/thing", {"max": 3})
assert_type(thing, Extension)
server.include(Extension("com.example/other"))


@dataclass
class Ticket:
    """What is given out."""

    id: str


@thing.method("thing/get", name_param="id", timeout=1.5)
async def get(id: str, ctx: Context) -> Ticket:
    assert_type(thing.is_supported(ctx), bool)
    assert_type(thing.client_settings(ctx), dict[str, Any] | None)
    await thing.notify(ctx, "notifications/thing/got", {"id": id})
    return Ticket(id)


@server.method(
    "thing/count", protocol_versions=["2026-07-28"], access=Access(requires_capabilities="sampling")
)
def count(least: int = 0) -> dict[str, int]:
    return {"count": least}


assert_type(count(1), dict[str, int])


@server.tool
async def queue(ctx: Context) -> Ticket | ExtensionResult:
    return thing.result(ctx, "ticket", Ticket("1")) if thing.is_supported(ctx) else Ticket("2")


@thing.middleware("tools/call")
async def wrap(call: ToolCall, call_next: CallTool) -> Mapping[str, Any]:
    if call.name == "queue" and thing.is_supported(call.ctx):
        return thing.result(call.ctx, "ticket", {"id": "3"})
    result = await call_next(call)
    assert_type(result.type, str)
    return result
