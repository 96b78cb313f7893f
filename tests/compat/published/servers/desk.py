"""The desk of a lending library: more than twenty tools, resources and prompts, as published servers have them."""

import datetime as dt
import enum
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from mcp.server.fastmcp import Context, FastMCP, Image
from mcp.server.fastmcp.exceptions import ToolError
from mcp.server.fastmcp.prompts.base import AssistantMessage, Message, UserMessage
from mcp.server.fastmcp.utilities.logging import get_logger
from mcp.types import (
    CallToolResult,
    Completion,
    EmbeddedResource,
    ImageContent,
    PromptMessage,
    TextContent,
    TextResourceContents,
    Tool,
    ToolAnnotations,
)
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

logger = get_logger(__name__)


@dataclass
class Desk:
    opened: str


@asynccontextmanager
async def lifespan(server: FastMCP) -> AsyncIterator[Desk]:
    logger.info("opening %s", server.name)
    yield Desk("at nine")


mcp = FastMCP("desk", instructions="Ask the desk of the library.", lifespan=lifespan, log_level="ERROR")


class Shelf(enum.Enum):
    POETRY = "poetry"
    SCIENCE = "science"


class Author(BaseModel):
    """Who wrote a book."""

    name: str
    born: int | None = None


class Book(BaseModel):
    title: str = Field(description="As on the cover", min_length=1)
    author: Author
    shelf: Shelf = Shelf.POETRY
    tags: list[str] = Field(default_factory=list)


class Loan(TypedDict):
    title: str
    days: int


@dataclass
class Account:
    name: str
    loans: list[str]


@mcp.tool()
def count_books() -> int:
    """Count the books."""
    return 3


@mcp.tool(name="search books", description="Search the shelves.", title="Search")
def search(query: str, limit: int = 10, shelf: Shelf | None = None) -> list[str]:
    return [f"{query} {number} {shelf and shelf.value}" for number in range(limit)][:3]


@mcp.tool(annotations=ToolAnnotations(title="Add a book", readOnlyHint=False, idempotentHint=True))
async def add_book(book: Book, copies: Annotated[int, Field(ge=1, le=9, description="How many")] = 1) -> Book:
    """Add a book.

    Args:
        book: The book.
        copies: How many copies of it.
    """
    return book.model_copy(update={"tags": [*book.tags, f"{copies} copies"]})


@mcp.tool()
def lend(title: str, until: dt.date, times: int | str = 1) -> dict[str, Any]:
    """Lend a book until a day."""
    return {"title": title, "until": until.isoformat(), "times": times}


@mcp.tool()
def loans(names: list[str]) -> list[Loan]:
    """List the loans of some readers."""
    return [Loan(title=name, days=len(name)) for name in names]


@mcp.tool()
def account(name: str) -> Account:
    """Show an account."""
    return Account(name, ["one"])


@mcp.tool(structured_output=False)
def account_text(name: str) -> dict:
    """Show an account as text."""
    return {"name": name, "loans": [1, 2.5, None, True]}


@mcp.tool()
def nothing() -> None:
    """Do nothing."""


@mcp.tool()
def untyped(value, other=3):
    """Take what has no type."""
    return [value, other, "text"]


@mcp.tool()
def cover(title: str) -> Image:
    """Show a cover."""
    return Image(data=b"\x89PNG" + title.encode(), format="png")


@mcp.tool()
def mixed() -> list:
    """Return several sorts of content."""
    return [
        "text",
        TextContent(type="text", text="more"),
        ImageContent(type="image", data="YQ==", mimeType="image/png"),
        Image(data=b"a"),
        {"key": "value"},
    ]


@mcp.tool()
def whole() -> CallToolResult:
    """Return a whole result."""
    contents = TextResourceContents(uri="desk://whole", text="all", mimeType="text/plain")
    return CallToolResult(
        content=[
            TextContent(type="text", text="whole"),
            EmbeddedResource(type="resource", resource=contents),
        ],
        structuredContent={"whole": True},
        _meta={"desk/seen": 1},
    )


@mcp.tool()
def refuse(why: str) -> str:
    """Refuse."""
    raise ToolError(why)


@mcp.tool()
def fail(why: str = "broken") -> str:
    """Fail."""
    raise ValueError(why)


@mcp.tool()
def wrong_output() -> int:
    """Return what the schema does not know."""
    return "no number"  # type: ignore[return-value]


@mcp.tool()
async def told(ctx: Context, steps: int = 2) -> str:
    """Tell of progress, and log."""
    for step in range(steps):
        await ctx.report_progress(step, steps, f"step {step}")
    await ctx.debug("a detail")
    await ctx.info("a line", extra={"step": 1}) if False else await ctx.info("a line")
    await ctx.warning("careful", logger_name="desk")
    await ctx.log("error", "an error")
    return f"{ctx.request_context.lifespan_context.opened} {type(ctx.client_id).__name__}"


@mcp.tool()
async def reread(context: Context, uri: str = "desk://rules") -> str:
    """Read a resource of this server."""
    return " ".join(f"{part.mime_type} {part.content!r}" for part in await context.read_resource(uri))


@mcp.tool()
async def asked(ctx: Context) -> str:
    """Ask the reader."""

    class Answer(BaseModel):
        name: str

    answer = await ctx.elicit("Who are you?", Answer)
    return answer.action


@mcp.tool()
async def rooted(ctx: Context) -> list[str]:
    """List the roots of the client."""
    return [str(root.uri) for root in (await ctx.session.list_roots()).roots]


@mcp.tool()
def choice(way: Literal["up", "down"], far: bool = False, by: float = 1.5) -> tuple[str, bool, float]:
    """Choose a way."""
    return way, far, by


@mcp.tool()
def options(values: dict[str, int], nested: list[Author] | None = None, **more: object) -> str:
    """Take options."""
    return json.dumps({"values": values, "nested": [each.name for each in nested or []]}, sort_keys=True)


@mcp.tool()
def parsed(rows: list[list[int]], text: str, flag: bool | None = None) -> str:
    """Take rows, also as a text of JSON."""
    return f"{rows!r} {text!r} {flag!r}"


@mcp.tool()
def repeat(result: CallToolResult, tool: Tool | None = None) -> list[PromptMessage]:
    """Take and return what is described by the classes of the protocol."""
    return [PromptMessage(role="user", content=each) for each in result.content]


@mcp.resource("desk://rules", title="Rules", description="What is allowed", mime_type="text/markdown")
def rules() -> str:
    return "# Rules\n\nBe quiet.\n"


@mcp.resource("desk://plan")
def plan() -> dict[str, int]:
    """Where the shelves stand."""
    return {"poetry": 1, "science": 2}


@mcp.resource("desk://stamp", mime_type="image/png")
def stamp() -> bytes:
    """The stamp."""
    return b"\x89PNG"


@mcp.resource("desk://broken")
def broken() -> str:
    """It breaks."""
    raise RuntimeError("the shelf fell")


@mcp.resource("desk://shelves/{shelf}/{number}", name="place")
async def place(shelf: str, number: int, ctx: Context) -> str:
    """What stands at a place."""
    await ctx.info(f"looking at {shelf}")
    return f"{shelf} {number!r}"


@mcp.prompt(title="Recommend")
def recommend(subject: str, tone: str = "kind") -> str:
    """Recommend a book."""
    return f"Recommend a book about {subject}, in a {tone} tone."


@mcp.prompt(name="talk-about", description="Talk about a book")
async def talk(title: str, pages: Annotated[int, Field(description="How many pages")] = 10) -> list[Message]:
    return [UserMessage(f"Let us talk about {title} ({pages!r})."), AssistantMessage("Gladly.")]


@mcp.prompt()
def plain() -> list[dict[str, Any]]:
    return [{"role": "user", "content": {"type": "text", "text": "plain"}}]


@mcp.prompt()
def breaks(title: str) -> str:
    """It breaks."""
    raise ValueError(f"no {title}")


@mcp.completion()
async def complete(ref, argument, context):
    if argument.name == "subject":
        return Completion(values=[argument.value + "stronomy"], hasMore=False)
    return None


if __name__ == "__main__":
    mcp.run(transport="stdio")
