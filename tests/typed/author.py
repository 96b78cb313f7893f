"""An author's file, read by mypy and pyright in their strict modes: what is decorated keeps its type.

The mistakes at the end are ones that the checkers must report: an ignored error that is none is an error to them.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Generator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typing_extensions import assert_type

from mcpkit import (
    Complete,
    Context,
    Depends,
    FromHeader,
    FromState,
    Image,
    Limits,
    Message,
    Registry,
    Server,
    ToolError,
    prompt,
    resource,
    tool,
    user,
)
from mcpkit.testing import override


@dataclass
class Database:
    url: str

    async def size(self, table: str) -> int:
        return len(table)

    def copy(self) -> Database:
        return Database(self.url)


@asynccontextmanager
async def lifespan(_server: Server) -> AsyncGenerator[Database, None]:
    yield Database("sqlite://")


server = Server("author", version="1.0.0", lifespan=lifespan)


@server.tool
def bare(count: int, unit: str = "m") -> str:
    """A bare decorator."""
    return f"{count} {unit}"


assert_type(bare(1), str)
assert_type(bare(count=1, unit="km"), str)
keeps_parameters: Callable[[int, str], str] = bare


@server.tool(name="called", title="Called", annotations={"readOnlyHint": True}, tags={"a"})
async def called(table: str, ctx: Context[Database]) -> int:
    """A decorator with options, on a coroutine function."""
    assert_type(ctx.state, Database)
    assert_type(ctx.server.name, str)
    await ctx.report_progress(1, 2, "half")
    if not table:
        raise ToolError("name a table")
    return await ctx.state.size(table)


awaitable: Callable[[str, Context[Database]], Coroutine[Any, Any, int]] = called


@server.resource("author://tables")
def tables() -> list[str]:
    return ["stars"]


assert_type(tables(), "list[str]")


@server.resource("author://tables/{table}", mime_type="application/json")
async def rows(table: str, limit: int = 10) -> dict[str, int]:
    return {table: limit}


template: Callable[[str, int], Coroutine[Any, Any, dict[str, int]]] = rows


def suggest(value: str) -> list[str]:
    return [value]


@server.prompt
def bare_prompt(
    topic: Annotated[str, Complete(suggest)], length: Literal["short", "long"] = "short"
) -> list[Message]:
    return [user(f"Write something {length} about {topic}.")]


assert_type(bare_prompt("types"), "list[Message]")


@server.prompt(title="Called")
def called_prompt(topic: str) -> str:
    return topic


assert_type(called_prompt("types"), str)


class Painter:
    """Methods, class methods and static methods keep their types too."""

    @tool
    def paint(self, size: int) -> Image:
        return Image(data=bytes(size), mime_type="image/png")

    @tool(name="colours")
    @classmethod
    def colours(cls) -> list[str]:
        return ["blue"]

    @staticmethod
    @tool
    def mix(first: str, second: str) -> str:
        return first + second

    @resource("author://paintings/{number}")
    def painting(self, number: int) -> bytes:
        return bytes(number)

    @prompt
    def describe(self, number: int) -> str:
        return str(number)


painter = Painter()
assert_type(painter.paint(1), Image)
assert_type(Painter.colours(), "list[str]")
assert_type(Painter.mix("a", "b"), str)
assert_type(painter.painting(1), bytes)
assert_type(painter.describe(1), str)

registry = Registry()


@registry.tool
def registered(value: float) -> float:
    return value


assert_type(registered(1.5), float)
server.include(registry, prefix="more")
server.include(painter)


def plain() -> Database:
    return Database("plain")


async def awaited(ctx: Context[Database]) -> Database:
    return ctx.state


def yielded() -> Generator[Database, None, None]:
    yield Database("yielded")


def iterated() -> Iterator[Database]:
    yield Database("iterated")


async def async_yielded() -> AsyncGenerator[Database, None]:
    yield Database("async_yielded")


async def async_iterated(base: Annotated[Database, Depends(plain)]) -> AsyncIterator[Database]:
    yield base


@server.tool
async def injected(
    table: str,
    annotated: Annotated[Database, Depends(yielded)],
    state: Annotated[Database, FromState()],
    tenant: Annotated[str | None, FromHeader("X-Tenant")],
    one: Database = Depends(plain),
    two: Database = Depends(awaited),
    three: Database = Depends(yielded),
    four: Database = Depends(iterated),
    five: Database = Depends(async_yielded, cached=False),
    six: Database = Depends(async_iterated),
    seven: Database = Depends(Database("x").copy),
    eight: Painter = Depends(Painter),
) -> int:
    """What is depended on has the type of what its function returns, awaits or yields."""
    return len([annotated, state, one, two, three, four, five, six, seven, eight]) + len(f"{table}{tenant}")


assert_type(Depends(plain), Database)
assert_type(Depends(awaited), Database)
assert_type(Depends(yielded), Database)
assert_type(Depends(iterated), Database)
assert_type(Depends(async_yielded), Database)
assert_type(Depends(async_iterated), Database)
assert_type(Depends(Painter), Painter)

with override(server, plain, lambda: Database("fake")):
    pass

if TYPE_CHECKING:

    def wrong(db: str = Depends(awaited)) -> None: ...  # type: ignore[assignment]  # pyright: ignore[reportArgumentType]

    bare("1")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    bare(1, length=2)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    server.tool(bare, annotations={"readOnly": True})  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    painter.paint("large")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

    # Options that there are not, or of another type, of all that registers and of the same free of any server.
    server.tool(bare, nam="x")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    server.tool(timeout="1 s")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    tool(titel="X")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    tool(run_in="fiber")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    server.resource("author://x", mimetype="text/plain")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    resource("author://x", size="3")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    server.prompt(tags=3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    prompt(result=None)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    server.method("author/do", single_use=True)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    server.extension("com.example/x").method("x/do", revision="x")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    server.include(registry, prefx="x")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    server.extension("com.example/y", setings={})  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    server.asgi(alowed_hosts=["x"])  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    Limits(max_request_body_size="4 MiB")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    server.run("http", prot=80)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    server.run("websocket")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    server.run("http", stateless="yes")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
