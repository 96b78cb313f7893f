"""A server with one of each feature, written for `mcp` 1.x: `everything.py [TRANSPORT] FOLDER`."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from mcp.server.fastmcp import Audio, Context, FastMCP, Icon, Image
from mcp.server.fastmcp.exceptions import ResourceError, ToolError
from mcp.server.fastmcp.prompts import Prompt
from mcp.server.fastmcp.prompts.base import AssistantMessage, Message, UserMessage
from mcp.server.fastmcp.resources import FunctionResource
from mcp.server.fastmcp.resources.types import BinaryResource, FileResource, TextResource
from mcp.server.session import ServerSession
from mcp.types import (
    Annotations,
    Completion,
    EmbeddedResource,
    ImageContent,
    PromptReference,
    ResourceTemplateReference,
    TextContent,
    TextResourceContents,
    ToolAnnotations,
)
from pydantic import BaseModel, Field


@dataclass
class App:
    name: str


@asynccontextmanager
async def lifespan(server: FastMCP) -> AsyncIterator[App]:
    yield App(f"app of {server.name}")


mcp = FastMCP(
    "everything",
    instructions="Use it.\n\nWell.",
    website_url="https://example.com/everything",
    icons=[Icon(src="https://example.com/icon.png", mimeType="image/png", sizes=["48x48"])],
    lifespan=lifespan,
)
mcp._mcp_server.version = "9.8.7"
files = Path(sys.argv[-1])


@mcp.tool()
async def speak(text: str, ctx: Context, times: int = 1) -> str:
    """Say it, in all ways.

    Args:
        text: What.
    """
    await ctx.debug("debug " + text)
    await ctx.info(text)
    await ctx.warning(text, logger_name="loud")
    await ctx.error(text)
    await ctx.log("info", text, logger_name="own")
    for done in range(times):
        await ctx.report_progress(done + 1, times, f"{done + 1} of {times}")
    await ctx.report_progress(0.5)
    return text


@mcp.tool()
async def ids(ctx: Context[ServerSession, App]) -> dict[str, Any]:
    context = ctx.request_context
    return {
        "request": ctx.request_id, "client": ctx.client_id,
        "meta": context.meta.model_dump() if context.meta else None,
        "lifespan": context.lifespan_context.name, "path": context.request and context.request.url.path,
        "server": ctx.fastmcp.name,
        "same": mcp.get_context().request_id == ctx.request_id and ctx.session is context.session,
        "client_name": ctx.session.client_params.clientInfo.name,
    }  # fmt: skip


@mcp.tool()
async def reread(uri: str, context: Context | None = None) -> list[str]:
    contents = list(await context.read_resource(uri))
    return [f"{each.mime_type} {each.content!r}" for each in contents]


class Booking(BaseModel):
    day: str = Field(description="Which day")
    seats: int = 2
    window: bool | None = None
    extras: list[str] = []


@mcp.tool()
async def book(ctx: Context) -> str:
    answer = await ctx.elicit("When?", schema=Booking)
    return f"{answer.action} {answer.data!r}" if answer.action == "accept" else answer.action


class Nested(BaseModel):
    inner: Booking


@mcp.tool()
async def nested(ctx: Context) -> str:
    return (await ctx.elicit("When?", schema=Nested)).action


@mcp.tool()
async def visit(ctx: Context) -> str:
    return (await ctx.elicit_url("Pay here", "https://example.com/pay", "e-1")).action


@mcp.tool(
    name="named tool", title="A title", description="Said", annotations=ToolAnnotations(readOnlyHint=True)
)
def named(mode: Literal["a", "b"] = "a", n: Annotated[int, Field(ge=1, description="How many")] = 3) -> int:
    """Not said."""
    return n


@mcp.tool(meta={"x/y": 1}, icons=[Icon(src="data:,")], structured_output=False)
def fails(how: str) -> str:
    if how == "tool":
        raise ToolError("on purpose")
    raise KeyError(how)


@mcp.tool()
def pictures():
    return ["one", Image(data=b"png", format="png"), Audio(data=b"wav", format="wav"), {"a": 1}]


@mcp.resource("config://app")
def config() -> dict[str, Any]:
    """The configuration."""
    return {"b": 1, "a": [1, 2, None]}


@mcp.resource("config://text", name="text", title="A text", description="Said", mime_type="text/markdown")
async def text() -> str:
    return "# Text"


@mcp.resource(
    "config://bytes",
    mime_type="application/octet-stream",
    icons=[Icon(src="https://example.com/b.png")],
    annotations=Annotations(audience=["user"], priority=0.5),
    meta={"m": {"n": 1}},
)
def some_bytes() -> bytes:
    return b"\x00\xff"


@mcp.resource("config://nothing")
def nothing() -> None:
    return None


@mcp.resource("config://broken")
def broken() -> str:
    raise ResourceError("it is broken")


@mcp.resource("greeting://{name}")
def greeting(name: str) -> str:
    """Greet."""
    return f"Hello, {name}!"


@mcp.resource("sum://{a}/{b}", name="sums", title="Sums", mime_type="application/json", meta={"t": 1})
async def sums(a: int, b: int, ctx: Context) -> dict[str, int]:
    await ctx.info(f"{a} + {b} for {ctx.fastmcp.name}")
    return {"sum": a + b}


@mcp.resource("broken://{what}")
def broken_template(what: str) -> str:
    raise RuntimeError(f"no {what}")


mcp.add_resource(TextResource(uri="plain://text", name="plain", text="plain text"))
mcp.add_resource(TextResource(uri="plain://text", name="again", text="never"))
mcp.add_resource(TextResource(uri="plain://unnamed", text="no name", description="d"))
mcp.add_resource(BinaryResource(uri="plain://bytes", name="bytes", data=b"\x01\x02", mime_type="image/png"))
mcp.add_resource(FunctionResource(uri="plain://lambda", name="lambda", fn=lambda: [1, 2]))
mcp.add_resource(FileResource(uri="file:///notes", name="notes", path=files / "notes.txt"))
mcp.add_resource(FileResource(uri="file:///data", path=files / "data.bin", mime_type="image/gif"))
mcp.add_resource(FileResource(uri="file:///none", name="none", path=Path("/does/not/exist")))


@mcp.prompt()
def review(code: str, language: str = "python") -> str:
    """Review code."""
    return f"Review this {language}: {code}"


@mcp.prompt(title="Debug it", icons=[Icon(src="https://example.com/p.png")])
def debug(error: Annotated[str, Field(description="What it says")], line: int | None = None) -> list[Message]:
    return [
        UserMessage(f"I see {error} at {line!r}"),
        AssistantMessage("What have you tried?"),
        Message(role="user", content=ImageContent(type="image", data="cG5n", mimeType="image/png")),
    ]


@mcp.prompt("mixed", description="Of everything")
async def mixture(ctx: Context) -> list[Any]:
    contents = TextResourceContents(uri="x://y", mimeType="text/plain", text="t")
    return [
        "text",
        {"role": "assistant", "content": "a dict"},
        {"role": "user", "content": {"type": "text", "text": "content"}},
        UserMessage(
            EmbeddedResource(type="resource", resource=contents, annotations=Annotations(priority=1))
        ),
        TextContent(type="text", text="no message"),
    ]


ODD = {"number": 7, "none": None, "list": [1, {"a": 2}], "tuple": ("a", "b"), "dict": {"a": 1}, "set": {1}}


@mcp.prompt()
def odd(what: str) -> Any:
    return ODD[what]


@mcp.prompt()
def counts(n: int, of: list[str]) -> str:
    if n < 0:
        raise ValueError("too few")
    return f"{n + 1} of {of}"


mcp.add_prompt(Prompt.from_function(lambda topic: f"About {topic}", name="about"))


@mcp.completion()
async def complete(ref, argument, context):
    if isinstance(ref, PromptReference) and argument.name == "language":
        found = [each for each in ("python", "perl") if each.startswith(argument.value)]
        return Completion(values=found, total=2, hasMore=False)
    if isinstance(ref, ResourceTemplateReference):
        return Completion(values=[f"{ref.uri} {context.arguments if context else None}"])
    return None


if __name__ == "__main__":
    mcp.settings.port = 0
    mcp.run(transport=sys.argv[1] if len(sys.argv) > 2 else "stdio")
