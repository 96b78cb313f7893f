"""Hidden parameters: what marks them, what fills them, what is refused, and how tests put others in their place."""

# Without `from __future__ import annotations`: the annotations name what is local to a test, which strings cannot.
import asyncio
import functools
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Annotated, Any, Optional, Union

import pytest

from mcpkit import (
    Complete,
    Context,
    Depends,
    FromHeader,
    FromState,
    RegistrationError,
    Server,
    prompt,
    resource,
    tool,
)
from mcpkit.injection.hidden import FromRequest
from mcpkit.testing import connect

pytestmark = pytest.mark.anyio


@dataclass
class Database:
    name: str


def plain() -> Database:
    return Database("plain")


async def coroutine() -> Database:
    return Database("coroutine")


def generator() -> Iterator[Database]:
    yield Database("generator")


async def async_generator() -> AsyncIterator[Database]:
    yield Database("async_generator")


class Factory:
    def method(self) -> Database:
        return Database("method")

    async def __call__(self) -> Database:
        return Database("callable")

    @classmethod
    def of_class(cls) -> Database:
        return Database(cls.__name__)


class Settings(Database):
    def __init__(self, based_on: Annotated[Database, Depends(plain)]) -> None:
        super().__init__(f"on {based_on.name}")


class ManyTimes:
    """A generator where a callable object is wanted."""

    def __call__(self) -> Generator[Database, None, None]:
        yield Database("yielded by an object")


def awaitable() -> Coroutine[Any, Any, Database]:
    return coroutine()


@functools.wraps(coroutine)
def wrapper() -> Coroutine[Any, Any, Database]:
    return coroutine()


def with_a_name(name: str) -> Database:
    return Database(name)


KINDS: list[tuple[Callable[[], Any], str]] = [
    (plain, "plain"),
    (coroutine, "coroutine"),
    (generator, "generator"),
    (async_generator, "async_generator"),
    (Factory().method, "method"),
    (Factory(), "callable"),
    (Factory.of_class, "Factory"),
    (Settings, "on plain"),
    (ManyTimes(), "yielded by an object"),
    (awaitable, "coroutine"),
    (wrapper, "coroutine"),
    (functools.partial(with_a_name, name="partial"), "partial"),
    (functools.partial(with_a_name, "by position"), "by position"),
    (lambda: Database("lambda"), "lambda"),
]


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


# What is refused


def takes_an_argument(url: str) -> str:
    return url


def takes_by_position(ctx: Context, /) -> str:
    return ctx.method


def takes_what_takes(value: Annotated[str, Depends(takes_an_argument)]) -> str:
    return value


def egg(hen: "Annotated[Any, Depends(hen)]") -> Any: ...


def hen(egg: "Annotated[Any, Depends(egg)]") -> Any: ...


@contextmanager
def managed() -> Generator[int, None, None]:
    yield 1


def test_what_cannot_be_filled_is_refused_when_it_is_registered() -> None:
    wrong: list[tuple[Any, str]] = [
        (
            Depends(takes_an_argument),
            "tool 'look': value: takes_an_argument takes 'url', which nothing fills",
        ),
        (Depends(takes_by_position), "takes_by_position takes 'ctx', which nothing fills"),
        (Depends(takes_what_takes), "value: takes_what_takes: value: takes_an_argument takes 'url'"),
        (Depends(hen), "dependencies go round in a circle: hen -> egg -> hen"),
        (Depends(managed), r"managed is a generator function under a decorator; .*@contextmanager"),
        (Depends, r"write Depends\(...\)"),
        (FromState, r"write FromState\(...\)"),
        (FromHeader("X-Tenant"), "value: a header is a text"),
    ]
    for mark, message in wrong:
        with pytest.raises(RegistrationError, match=message):

            @Server("s").tool
            async def look(value: Annotated[int, mark]) -> None: ...


def test_a_header_that_may_be_missing_must_have_something_in_its_place() -> None:
    with pytest.raises(RegistrationError, match="the header X-Tenant may be missing"):

        @Server("s").tool
        async def look(tenant: Annotated[str, FromHeader("X-Tenant")]) -> None: ...


@pytest.mark.parametrize("name", ["", "X Tenant", "X-Tenant:", "Ü"])
def test_a_header_has_a_name(name: str) -> None:
    with pytest.raises(RegistrationError, match="the name of a header"):
        FromHeader(name)


def test_what_a_function_has_returned_is_no_function() -> None:
    with pytest.raises(RegistrationError, match=r"Depends\(connect\), not Depends\(connect\(\)\)"):
        Depends(plain())  # type: ignore[call-overload]  # the mistake


def test_a_completer_is_refused_for_the_same_reasons() -> None:
    def cities(value: str, url: Annotated[str, Depends(takes_an_argument)]) -> list[str]: ...

    with pytest.raises(RegistrationError, match="argument 'city': url: takes_an_argument takes 'url'"):

        @Server("s").prompt
        def plan(city: Annotated[str, Complete(cities)]) -> str: ...


def test_a_positional_only_parameter_cannot_be_filled() -> None:
    with pytest.raises(RegistrationError, match="positional-only 'db'"):

        @Server("s").tool
        async def look(db: Annotated[Database, Depends(plain)], /) -> None: ...


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


# Others in their place


def uses(db: Annotated[Database, Depends(plain)]) -> str:
    return db.name


@pytest.fixture
def server() -> Server:
    server = Server("s")

    @server.tool
    async def look(name: Annotated[str, Depends(uses)]) -> str:
        return name

    @server.prompt
    def ask(day: Annotated[str, Complete(lambda value, db=Depends(coroutine): [db.name])]) -> str:
        return day

    return server


async def look_at(server: Server) -> str:
    async with connect(server) as client:
        return (await client.call("look")).text


@pytest.mark.parametrize(
    ("function", "name"), [each for each in KINDS if each[1] != "on plain"], ids=lambda value: str(value)[:20]
)
async def test_any_kind_of_function_takes_the_place_of_another(
    function: Callable[[], Any], name: str, server: Server
) -> None:
    with server.override(plain, function):
        assert await look_at(server) == name
    assert await look_at(server) == "plain"


async def test_the_place_is_taken_in_completion_too(server: Server) -> None:
    with server.override(coroutine, lambda: Database("fake")):
        async with connect(server) as client:
            answer = await client.complete("ask", "day", "")
    assert answer == ["fake"]


async def test_overrides_nest_and_are_taken_back_whatever_happens(server: Server) -> None:
    def fails(body: Callable[[], object]) -> None:
        with server.override(plain, lambda: Database("first")), server.override(uses, lambda: "second"):
            body()

    with server.override(plain, lambda: Database("outer")):
        with pytest.raises(ZeroDivisionError):
            fails(lambda: 1 // 0)
        assert await look_at(server) == "outer"
        with server.override(plain, lambda: Database("inner")):
            assert await look_at(server) == "inner"
        assert await look_at(server) == "outer"
    assert await look_at(server) == "plain"


async def test_what_takes_a_place_may_depend_on_what_was_there(server: Server) -> None:
    def fake(db: Annotated[Database, Depends(plain)]) -> Database:
        return Database(f"fake {db.name}")

    with server.override(plain, fake):
        assert await look_at(server) == "fake plain"


def test_a_place_that_is_nobodys_or_cannot_be_taken_is_refused(server: Server) -> None:
    with pytest.raises(RegistrationError, match="nothing here depends on"), server.override(generator, plain):
        pass
    with (
        pytest.raises(RegistrationError, match="takes 'url', which nothing fills"),
        server.override(plain, takes_an_argument),
    ):
        pass
