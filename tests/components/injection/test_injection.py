"""Hidden parameters: what marks them, and what fills them."""

# Without `from __future__ import annotations`: the annotations name what is local to a test, which strings cannot.
import asyncio
import functools
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Annotated, Any, Optional, Union

import pytest

from mcpkit import Ask, Complete, Context, Depends, FromHeader, FromState, Server, prompt, resource, tool
from mcpkit.components.injection.markers import FromRequest
from mcpkit.testing import connect
from tests.helpers.dependencies import (
    KINDS,
    Database,
    async_generator,
    coroutine,
    generator,
    plain,
    takes_an_argument,
)

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(("function", "name"), KINDS, ids=[name for _, name in KINDS])
async def test_any_kind_of_function_fills_any_kind_of_tool_however_it_is_marked(
    function: Callable[[], Any], name: str
) -> None:
    server = Server("s")

    @server.tool
    async def a_in_the_loop(times: int, db: Annotated[Database, Depends(function)]) -> str:
        return db.name * times

    @server.tool
    async def b_by_default(times: int, db: Database = Depends(function)) -> str:
        return db.name * times

    @server.tool
    def c_in_a_thread(times: int, db: Annotated[Database, Depends(function)]) -> str:
        return db.name * times

    @server.tool(thread=False)
    def d_not_in_a_thread(times: int, db: Annotated[Database | None, Depends(function)]) -> str:
        return f"{db and db.name}" * times

    async with connect(server) as client:
        tools = await client.list_tools()
        results = [(await client.call(each["name"], {"times": 2})).text for each in tools]
    assert [list(each["inputSchema"]["properties"]) for each in tools] == [["times"]] * 4
    assert results == [name * 2] * 4


def city_of(db: Annotated[Database, Depends(coroutine)]) -> Iterator[str]:
    yield f"Bern by {db.name}"


class Atlas:
    """Methods that are registered when an instance is included."""

    def __init__(self, name: str) -> None:
        self.name = name

    @tool
    async def find(self, city: Annotated[str, Depends(city_of)]) -> str:
        return f"{self.name}: {city}"

    @resource("atlas://city")
    def city(self, city: Annotated[str, Depends(city_of)]) -> str:
        return f"{self.name}: {city}"

    @resource("atlas://{number}")
    async def numbered(self, number: int, city: Annotated[str, Depends(city_of)]) -> str:
        return f"{self.name} {number}: {city}"

    @prompt
    def plan(self, days: int, city: Annotated[str, Depends(city_of)]) -> str:
        return f"{self.name} {days}: {city}"


async def test_tools_resources_templates_and_prompts_have_them_alike() -> None:
    server = Server("s")
    server.include(Atlas("World"))
    async with connect(server) as client:
        assert (await client.call("find")).text == "World: Bern by coroutine"
        assert (await client.read("atlas://city"))[0]["text"] == "World: Bern by coroutine"
        assert (await client.read("atlas://7"))[0]["text"] == "World 7: Bern by coroutine"
        messages = await client.get_prompt("plan", {"days": "3"})
        assert messages[0]["content"]["text"] == "World 3: Bern by coroutine"
        assert [each["name"] for each in (await client.list_prompts())[0]["arguments"]] == ["days"]


async def test_what_completes_an_argument_has_them_too() -> None:
    def cities(value: str, ctx: Context, city: Annotated[str, Depends(city_of)]) -> list[str]:
        return [f"{value} {city} {ctx.method}"]

    async def days(
        db: Annotated[Database, Depends(generator)], value: str, arguments: dict[str, str]
    ) -> list[str]:
        return [f"{value} {arguments} {db.name}"]

    def by_position(value: str, /, *, db: Database = Depends(async_generator)) -> list[str]:
        return [f"{value} {db.name}"]

    server = Server("s")

    @server.prompt
    def plan(
        city: Annotated[str, Complete(cities)],
        day: Annotated[str, Complete(days)],
        year: Annotated[str, Complete(by_position)],
    ) -> str:
        return city

    async with connect(server) as client:
        answers = [await client.complete("plan", name, "B", {"x": "y"}) for name in ("city", "day", "year")]
    assert answers == [
        ["B Bern by coroutine completion/complete"],
        ["B {'x': 'y'} generator"],
        ["B async_generator"],
    ]


class Counter:
    """Counts its calls."""

    def __init__(self) -> None:
        self.calls = 0

    def count(self) -> int:
        self.calls += 1
        return self.calls


async def test_a_function_is_called_once_for_all_that_depend_on_it_in_one_request() -> None:
    counter = Counter()

    async def left(count: Annotated[int, Depends(counter.count)]) -> int:
        return count

    def right(count: Annotated[int, Depends(counter.count)]) -> int:
        return count

    server = Server("s")

    @server.tool
    async def look(
        first: Annotated[int, Depends(left)],
        second: Annotated[int, Depends(right)],
        third: Annotated[int, Depends(counter.count)],
        alone: Annotated[int, Depends(counter.count, cached=False)],
        alone_too: Annotated[int, Depends(counter.count, cached=False)],
    ) -> list[int]:
        return [first, second, third, alone, alone_too]

    async with connect(server) as client:
        assert (await client.call("look")).structured == [1, 1, 1, 2, 3]
        assert (await client.call("look")).structured == [4, 4, 4, 5, 6]


async def test_context_and_state_reach_what_is_depended_on() -> None:
    @asynccontextmanager
    async def lifespan(_: Server) -> AsyncGenerator[Database, None]:
        yield Database("state")

    async def from_context(ctx: Context[Database]) -> str:
        return f"{ctx.state.name} in {ctx.method}"

    def from_state(db: Annotated[Database, FromState()], default: int = 3) -> str:
        return db.name * default

    server = Server("s", lifespan=lifespan)

    @server.tool
    def look(
        one: Annotated[str, Depends(from_context)],
        two: Annotated[str, Depends(from_state)],
        three: Annotated[Database, FromState()],
        ctx: Context,
    ) -> list[str]:
        return [one, two, three.name, ctx.method]

    async with connect(server) as client:
        assert (await client.call("look")).structured == [
            "state in tools/call",
            "statestatestate",
            "state",
            "tools/call",
        ]


async def test_what_comes_from_the_request_may_be_marked_by_a_default_value() -> None:
    @asynccontextmanager
    async def lifespan(_: Server) -> AsyncGenerator[Database, None]:
        yield Database("state")

    server = Server("s", lifespan=lifespan)

    @server.tool
    def look(
        sure: bool = Ask("Sure?"),
        db: Database = FromState(),
        tenant: str | None = FromHeader("X-Tenant"),
    ) -> list[Any]:
        return [sure, db.name, tenant]

    def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
        return {"action": "accept", "content": {"value": True}}

    async with connect(server, answers=answer) as client:
        assert (await client.list_tools())[0]["inputSchema"]["properties"] == {}
        assert (await client.call("look")).structured == [True, "state", None]


async def test_state_that_there_is_not_is_an_error_unless_it_may_be_none(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = Server("without a lifespan")

    @server.tool
    async def look(db: Annotated[Database | None, FromState()]) -> str:
        return repr(db)

    @server.tool
    async def need(db: Annotated[Database, FromState()]) -> str:
        return db.name

    async with connect(server) as client:
        assert (await client.call("look")).text == "None"
        assert (await client.call("need")).text.startswith("Internal error")
    assert "there is no state to pass: write Server(lifespan=...)" in caplog.text


async def test_a_header_is_the_default_where_there_is_no_http() -> None:
    server = Server("s")

    @server.tool
    async def look(
        none: Annotated[str | None, FromHeader("X-Tenant")],
        default: Annotated[str, FromHeader("X-Tenant")] = "nobody",
        outside: Optional[Annotated[str, FromHeader("X-Tenant")]] = None,  # noqa: UP045 - as some write it
        inside: Union[Annotated[str, FromHeader("X-Tenant")], None] = None,  # noqa: UP007
    ) -> list[str | None]:
        return [none, default, outside, inside]

    async with connect(server) as client:
        assert (await client.list_tools())[0]["inputSchema"]["properties"] == {}
        assert (await client.call("look")).structured == [None, "nobody", None, None]


async def test_clients_cannot_fill_them() -> None:
    server = Server("s")

    @server.tool
    async def look(tenant: Annotated[str | None, FromHeader("X-Tenant")], **more: str) -> str:
        return f"{tenant} {more}"

    async with connect(server) as client:
        result = await client.call("look", {"tenant": "somebody else's", "x": "y"})
    assert result.text == "None {'x': 'y'}"


def of_logging(ctx: Context) -> Context:
    return ctx


@pytest.mark.parametrize(("function", "declared"), [(of_logging, True), (plain, False)])
async def test_logging_is_declared_when_something_on_the_way_takes_the_context(
    function: Callable[..., Any], declared: bool
) -> None:
    def between(value: Annotated[Any, Depends(function)]) -> Any:
        return value

    server = Server("s")

    @server.tool
    async def look(value: Annotated[Any, Depends(between)]) -> None: ...

    async with connect(server, revision="2025-11-25") as client:
        assert ("logging" in client.server_capabilities) == declared


async def test_sync_reports_work_in_what_is_depended_on() -> None:
    def report(ctx: Context) -> None:
        ctx.sync.progress(1)

    server = Server("s")

    @server.tool
    async def look(nothing: Annotated[None, Depends(report)]) -> str:
        return "done"

    told: list[float] = []
    async with connect(server) as client:
        await client.call("look", progress=lambda done, *_: told.append(done))
    assert told == [1]


class FromMethod(FromRequest):
    """Reads the request after a while."""

    def reader(self, annotation: Any, default: Any) -> Callable[[Context[Any]], Any]:
        async def read(ctx: Context) -> str:
            await asyncio.sleep(0)
            return ctx.method

        return read


@pytest.mark.parametrize("is_async", [True, False])
async def test_what_reads_the_request_may_have_to_wait(is_async: bool) -> None:
    def repeats(method: Annotated[str, FromMethod()]) -> str:
        return method * 2

    server = Server("s")

    @server.tool
    async def in_the_loop(
        method: Annotated[str, FromMethod()], twice: Annotated[str, Depends(repeats)]
    ) -> list[str]:
        return [method, twice]

    @server.tool
    def in_a_thread(
        method: Annotated[str, FromMethod()], twice: Annotated[str, Depends(repeats)]
    ) -> list[str]:
        return [method, twice]

    async with connect(server) as client:
        result = await client.call("in_the_loop" if is_async else "in_a_thread")
    assert result.structured == ["tools/call", "tools/calltools/call"]


def test_a_component_without_them_has_nothing_of_it() -> None:
    server = Server("s")

    @server.tool
    async def look(x: int, ctx: Context) -> None: ...

    assert server.tools["look"].injections == ()


def test_what_a_partial_binds_is_not_filled() -> None:
    def look(db: Annotated[Database, Depends(takes_an_argument)]) -> str: ...

    server = Server("s")
    server.tool(functools.partial(look, db=Database("bound")), name="look")
    assert server.tools["look"].injections == ()
