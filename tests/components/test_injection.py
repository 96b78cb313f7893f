"""Hidden parameters: dependencies, state, headers and questions to the user."""

import functools
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Annotated, Any

import pytest

from mcpkit import Ask, Context, Depends, FromHeader, FromState, ProtocolError, RegistrationError, Server
from mcpkit.elicitation import ElicitationResult
from mcpkit.testing import connect
from tests.helpers.tables import each_row

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


class YieldingObject:
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


KINDS: list[tuple[Callable[..., Any], str]] = [
    (plain, "plain"), (coroutine, "coroutine"), (generator, "generator"), (async_generator, "async_generator"),
    (Factory().method, "method"), (Factory(), "callable"), (Factory.of_class, "Factory"),
    (Settings, "on plain"), (YieldingObject(), "yielded by an object"), (awaitable, "coroutine"),
    (wrapper, "coroutine"), (functools.partial(with_a_name, name="partial"), "partial"),
    (functools.partial(with_a_name, "by position"), "by position"), (lambda: Database("lambda"), "lambda"),
]  # fmt: skip


def takes_an_argument(url: str) -> str:
    return url


@each_row(("function", "name"), KINDS)
async def test_depends_on_any_callable_in_any_tool(function: Callable[[], Any], name: str) -> None:
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

    @server.tool(run_in="loop")
    def d_not_in_a_thread(times: int, db: Annotated[Database | None, Depends(function)]) -> str:
        return f"{db and db.name}" * times

    async with connect(server) as client:
        tools = await client.list_tools()
        results = [(await client.call_tool(each["name"], {"times": 2})).text for each in tools]
    assert [list(each["inputSchema"]["properties"]) for each in tools] == [["times"]] * 4
    assert results == [name * 2] * 4


class Counter:
    """Counts its calls."""

    def __init__(self) -> None:
        self.calls = 0

    def count(self) -> int:
        self.calls += 1
        return self.calls


async def test_depends_is_called_once_per_request() -> None:
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
        assert (await client.call_tool("look")).structured_content == [1, 1, 1, 2, 3]
        assert (await client.call_tool("look")).structured_content == [4, 4, 4, 5, 6]


async def test_depends_receives_context_and_state() -> None:
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
        assert (await client.call_tool("look")).data == [
            "state in tools/call",
            "statestatestate",
            "state",
            "tools/call",
        ]


async def test_from_state_without_lifespan_is_error(caplog: pytest.LogCaptureFixture) -> None:
    server = Server("without a lifespan")

    @server.tool
    async def look(db: Annotated[Database | None, FromState()]) -> str:
        return repr(db)

    @server.tool
    async def need(db: Annotated[Database, FromState()]) -> str:
        return db.name

    async with connect(server) as client:
        assert (await client.call_tool("look")).text == "None"
        assert (await client.call_tool("need")).text.startswith("Internal error")
    assert "the server has no lifespan state. Pass Server(lifespan=...)" in caplog.text


def takes_by_position(ctx: Context, /) -> str:
    return ctx.method


def takes_what_takes(value: Annotated[str, Depends(takes_an_argument)]) -> str:
    return value


def egg(hen: "Annotated[Any, Depends(hen)]") -> Any: ...


def hen(egg: "Annotated[Any, Depends(egg)]") -> Any: ...


@contextmanager
def managed() -> Generator[int, None, None]:
    yield 1


def test_depends_that_cannot_be_filled_is_refused() -> None:
    wrong: list[tuple[Any, str]] = [(Depends(takes_an_argument),
        "value: the dependency takes_an_argument has the parameter 'url' without"), (Depends(takes_by_position),
        "takes_by_position has the parameter 'ctx' without"), (Depends(takes_what_takes),
        "value: takes_what_takes: value: the dependency takes_an_argument has the parameter 'url'"), (Depends(hen),
        "circular dependency: hen -> egg -> hen"), (Depends(managed),
        r"managed is a decorated generator function.*@contextmanager"), (Depends,
        r"Write Depends\(...\)"), (FromState, r"Write FromState\(...\)"), (FromHeader("X-Tenant"),
        r"value: the value of a header is a string. Annotate the parameter as `str \| None`, not `int`")]  # fmt: skip
    for mark, message in wrong:
        with pytest.raises(RegistrationError, match=message):

            @Server("s").tool
            async def look(value: Annotated[int, mark]) -> None: ...


def test_from_header_without_default_is_refused() -> None:
    with pytest.raises(RegistrationError, match="the header X-Tenant may be missing"):

        @Server("s").tool
        async def look(tenant: Annotated[str, FromHeader("X-Tenant")]) -> None: ...


REVISIONS = ["2025-11-25", "2026-07-28"]


@dataclass
class City:
    name: str


def answering(*answers: dict[str, Any]) -> Any:
    left = list(answers)

    def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
        return left.pop(0)

    return answer


PARIS = {"action": "accept", "content": {"name": "Paris"}}


THREE = {"action": "accept", "content": {"value": 3}}


NO = {"action": "decline"}


@pytest.fixture
def asking() -> Server:
    server = Server("asking")

    @server.tool
    async def plan(
        greeting: str, city: Annotated[City, Ask("Which city?")], days: Annotated[int, Ask("How long?")]
    ) -> str:
        return f"{greeting}: {days} days in {city.name}"

    @server.tool
    def in_a_thread(city: Annotated[City, Ask("Which city?")]) -> str:
        return city.name

    @server.tool
    async def perhaps(city: Annotated[City | None, Ask("Which city?")]) -> str:
        return city.name if city is not None else "nowhere"

    @server.tool
    async def whole(city: Annotated[ElicitationResult[City], Ask("Which city?")]) -> str:
        return f"{city.action} {city.value.name if city else '-'}"

    return server


@pytest.mark.parametrize("revision", REVISIONS)
@each_row(
    ("tool", "answers", "text"),
    [
        ("plan", [PARIS, THREE], "Hello: 3 days in Paris"), ("plan", [PARIS, NO], "The user declined"),
        ("in_a_thread", [PARIS], "Paris"), ("perhaps", [PARIS], "Paris"), ("perhaps", [NO], "nowhere"),
        ("whole", [PARIS], "accept Paris"), ("whole", [NO], "decline -"),
    ],
)  # fmt: skip
async def test_ask_fills_parameter(
    revision: str, tool: str, answers: list[dict[str, Any]], text: str, asking: Server
) -> None:
    arguments = {"greeting": "Hello"} if tool == "plan" else {}
    async with connect(asking, protocol_version=revision, request_handler=answering(*answers)) as client:
        assert (await client.call_tool(tool, arguments)).text == text


@pytest.mark.parametrize("revision", ["2024-11-05", *REVISIONS])
async def test_ask_without_elicitation(revision: str, asking: Server) -> None:
    lacks = "The client does not declare the required capability elicitation.form"
    async with connect(asking, protocol_version=revision) as client:
        assert (await client.call_tool("perhaps")).text == "nowhere"
        for tool in ("in_a_thread", "whole"):
            if revision == REVISIONS[-1]:
                with pytest.raises(ProtocolError, match=lacks):
                    await client.call_tool(tool)
            else:
                assert (await client.call_tool(tool)).text == lacks


@each_row(
    ("mark", "problem"),
    [
        (Ask(3), "'plan': days: message must be a string, got 3"),  # type: ignore[arg-type]  # a mistake of authors'
        (Ask("How long?", key=""), "'plan': days: key must be a string of 1 to 100 characters, got ''"),
        (Ask, "plan: days: Annotated contains the class Ask. Write Ask"),
    ],
)
async def test_ask_wrong_mark_is_refused(mark: Any, problem: str) -> None:
    async def plan(days: Any) -> str:
        return str(days)

    plan.__annotations__["days"] = Annotated[int, mark]
    with pytest.raises(RegistrationError, match=problem):
        Server("asking").tool(plan)
