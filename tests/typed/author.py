"""An author's file, read by mypy and pyright in their strict modes: what is decorated keeps its type.

The mistakes at the end are ones that the checkers must report: an ignored error that is none is an error to them.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Generator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field
from typing_extensions import TypedDict, Unpack, assert_type

from mcpkit import (
    Access,
    Ask,
    Complete,
    Context,
    Depends,
    Extension,
    FromHeader,
    FromState,
    Image,
    Limits,
    Message,
    Registry,
    Server,
    ToolError,
    current_context,
    prompt,
    resource,
    tool,
    user,
)
from mcpkit.elicitation import (
    ElicitationResult,
    ElicitRequest,
    ListRootsRequest,
    Root,
    SamplingRequest,
    SamplingResult,
)
from mcpkit.extensions import ErrorEvent
from mcpkit.middleware import (
    AccessLog,
    CallNext,
    CallTool,
    RateLimit,
    Request,
    RequestTiming,
    Result,
    SizeLimit,
    Telemetry,
    Timing,
    ToolCall,
    ToolCallResult,
)
from mcpkit.testing import override
from mcpkit.types import json_type


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


@server.resource("author://tables/{table}", mime_type="application/json")
async def rows(table: str, limit: int = 10) -> dict[str, int]:
    return {table: limit}


template: Callable[[str, int], Coroutine[Any, Any, dict[str, int]]] = rows


@server.prompt
def bare_prompt(
    topic: Annotated[str, Complete(["types"])], length: Literal["short", "long"] = "short"
) -> list[Message]:
    return [user(f"Write something {length} about {topic}.")]


assert_type(bare_prompt("types"), "list[Message]")


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
    @prompt
    def mix(first: str, second: str) -> str:
        return first + second

    @resource("author://paintings/{number}")
    def painting(self, number: int) -> bytes:
        return bytes(number)


painter = Painter()
assert_type(painter.paint(1), Image)
assert_type(Painter.colours(), "list[str]")
assert_type(Painter.mix("a", "b"), str)
assert_type(painter.painting(1), bytes)

registry = Registry()
registry.tool(bare)
server.include(registry, prefix="more")
server.include(painter)


@dataclass
class City:
    name: str


def plain() -> Database:
    return Database("plain")


async def awaited(ctx: Context[Database]) -> Database:
    return ctx.state


def yielded() -> Generator[Database, None, None]:
    yield Database("yielded")


async def iterated(base: Annotated[Database, Depends(plain)]) -> AsyncIterator[Database]:
    yield base


@server.tool
async def injected(
    state: Annotated[Database, FromState()],
    tenant: Annotated[str | None, FromHeader("X-Tenant")],
    city: City = Ask("Which city?"),
    one: Database = Depends(plain),
    two: Database = Depends(awaited, cached=False),
    three: Database = Depends(yielded),
    four: Database = Depends(iterated),
    five: Database = Depends(Database("x").copy),
    six: Painter = Depends(Painter),
) -> int:
    """Dependencies have the type of what their function returns, awaits or yields."""
    return len([state, tenant, city, one, two, three, four, five, six])


assert_type(Depends(awaited), Database)
assert_type(Depends(iterated), Database)
assert_type(Depends(Painter), Painter)
override(server, plain, lambda: Database("fake"))

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
    resource("author://x", size="3")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    prompt(result=None)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    server.method("author/do", single_use=True)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    server.extension("com.example/y", setings={})  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    server.asgi(alowed_hosts=["x"])  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    Limits(max_request_body_size="4 MiB")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    server.run("http", prot=80)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    server.run("websocket")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


@json_type(schema=int, encode=lambda tag: tag.number, decode=lambda number: Tag(number))
class Tag:
    def __init__(self, number: int) -> None:
        self.number = number


class Options(TypedDict, total=False):
    city: str
    days: int


assert_type(json_type(Database, schema=str, encode=lambda it: it.url, decode=Database), type[Database])
assert_type(Tag(1), Tag)
json_type(Database, schema=str, encode=len)  # type: ignore[arg-type]  # pyright: ignore[reportCallIssue, reportArgumentType]


@server.tool(output_schema={"type": "object"})
def travel(by: str, **options: Unpack[Options]) -> dict[str, Any]:
    return {"by": by, **options}


@server.tool(output_schema=list[int])
async def stream() -> AsyncIterator[Tag]:
    yield Tag(1)


assert_type(travel("bus", city="Rome"), dict[str, Any])


thing = server.extension("com.example/thing", {"max": 3})
assert_type(thing, Extension)


@dataclass
class Ticket:
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


@thing.middleware("tools/call")
async def wrap(call: ToolCall, call_next: CallTool) -> Mapping[str, Any]:
    if call.name == "queue" and thing.is_supported(call.ctx):
        return thing.result(call.ctx, "ticket", {"id": "3"})
    result = await call_next(call)
    assert_type(result.type, str)
    return result


observed = Server("observed")


@observed.middleware
async def passing(request: Request, call_next: CallNext) -> Result:
    assert_type(request.params, dict[str, Any])
    result = await call_next(request)
    assert_type(result, Result)
    return result


@observed.middleware("tools/call")
async def for_tools(request: ToolCall, call_next: CallTool) -> ToolCallResult:
    assert_type(request.name, str)
    result = await call_next(request.with_arguments({**request.arguments, "a": 1}))
    assert_type(result.is_error, bool)
    assert_type(result.exception, BaseException | None)
    assert_type(result.text, str)
    return result


def note(timed: RequestTiming) -> None:
    assert_type(timed.seconds, float)


def registers_middleware() -> None:
    assert_type(observed.middleware(AccessLog()), AccessLog)
    observed.middleware(Timing(note))
    observed.middleware(RateLimit(10, key=lambda ctx: ctx.headers.get("x-user")))
    observed.middleware("tools/call")(SizeLimit(1000))
    observed.middleware(Telemetry())


@observed.on_error
def explain(failure: ErrorEvent) -> ToolError | None:
    assert_type(failure.ref, str | None)
    return ToolError("known") if isinstance(failure.exception, KeyError) else None


if TYPE_CHECKING:
    assert_type(explain(ErrorEvent(current_context(), KeyError(), None)), ToolError | None)

    def not_async(request: Request, call_next: CallNext) -> Result:
        return Result({})

    observed.middleware(not_async)  # type: ignore[type-var]  # pyright: ignore[reportCallIssue, reportArgumentType]


async def elicits(ctx: Context) -> None:
    """Answers have the type that was requested."""
    assert_type(await ctx.elicit("Which?", City), ElicitationResult[City])
    assert_type((await ctx.elicit("Sure?", bool)).value, bool)
    assert_type((await ctx.elicit("Which?", Literal["a", "b"])).value, Literal["a", "b"])
    assert_type((await ctx.elicit("How many?", Annotated[int, Field(ge=1)])).value, int)
    assert_type(
        await ctx.elicit("Which?", {"type": "object", "properties": {}}), ElicitationResult[dict[str, Any]]
    )
    sampling = SamplingRequest("Hello", max_tokens=5, temperature=0.5)
    city, sure, words = await ctx.ask(ElicitRequest("Which?", City), ElicitRequest("Sure?", bool), sampling)
    assert_type(city, ElicitationResult[City])
    assert_type(sure, ElicitationResult[bool])
    assert_type(words, SamplingResult)
    (roots,) = await ctx.ask(ListRootsRequest())
    assert_type(roots, list[Root])
    await ctx.sample("Hello", max_tokens=5, tool_choice="always")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def returns_either() -> int | Awaitable[int]:
    return 7


async def runs_side_effects(ctx: Context[Database], database: Database) -> None:
    """`once` returns what its function returns, awaited, for functions of every kind."""
    assert_type(await ctx.once("lambda", lambda: database.size("tea")), int)
    assert_type(await ctx.once("partial", partial(database.size, "tea")), int)
    assert_type(await ctx.once("method", database.copy), Database)
    assert_type(await ctx.once("either", returns_either), int)
    stored: dict[str, int] = await ctx.once("dict", lambda: {"tea": 7})
    assert_type(stored, dict[str, int])
    await ctx.once("takes an argument", len)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]


def elicits_in_a_thread(ctx: Context) -> None:
    assert_type(ctx.sync.elicit("Which?", City), ElicitationResult[City])
    assert_type(ctx.sync.elicit("Which?", {"type": "object"}), ElicitationResult[dict[str, Any]])
    assert_type(ctx.sync.once("order", lambda: 7), int)
