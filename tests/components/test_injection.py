"""Hidden parameters: dependencies, state, headers and questions to the user."""

import asyncio
import functools
import logging
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Annotated, Any

import pytest

from mcpkit import (
    Ask,
    Context,
    Depends,
    FromHeader,
    FromState,
    ProtocolError,
    RegistrationError,
    Server,
    ToolError,
)
from mcpkit.elicitation import ElicitationResult
from mcpkit.testing import TestClient, connect
from tests.helpers.pipe import settle
from tests.helpers.tables import each_row
from tests.helpers.waiting import over

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


class Trace:
    """Events of any thread, in their order."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self._changed = threading.Condition()

    def add(self, event: str) -> None:
        with self._changed:
            self.events.append(event)
            self._changed.notify_all()

    async def reach(self, event: str) -> None:
        """Wait until something has happened."""

        def wait() -> bool:
            with self._changed:
                return self._changed.wait_for(lambda: event in self.events, 10)

        assert await asyncio.to_thread(wait), self.events

    def sync(self, name: str) -> Callable[[], Iterator[str]]:
        """Return a generator function that records the exceptions it receives."""

        def generator() -> Iterator[str]:
            self.add(f"open {name}")
            try:
                yield name
            except BaseException as error:
                self.add(f"{name} receives {type(error).__name__}")
                raise
            finally:
                self.add(f"close {name}")

        return generator

    def coroutine(self, name: str) -> Callable[[], AsyncIterator[str]]:
        """Return an async generator function that records the exceptions it receives."""

        async def generator() -> AsyncIterator[str]:
            self.add(f"open {name}")
            try:
                yield name
            except BaseException as error:
                self.add(f"{name} receives {type(error).__name__}")
                raise
            finally:
                await asyncio.sleep(0)
                self.add(f"close {name}")

        return generator


@contextmanager
def traced() -> Iterator[Trace]:
    """Create a trace that also contains log records of the package."""
    trace = Trace()
    handler = logging.Handler()
    handler.emit = lambda record: trace.add(f"log {describe(record)}")  # type: ignore[method-assign]
    logger = logging.getLogger("mcpkit")
    logger.addHandler(handler)
    try:
        yield trace
    finally:
        logger.removeHandler(handler)


def describe(record: logging.LogRecord) -> str:
    error = record.exc_info[1] if record.exc_info else None
    return f"{record.getMessage()}: {error}"


WAYS = ["async all", "async mixed", "sync all", "sync mixed", "sync last"]


def register(way: str, server: Server, trace: Trace, body: Callable[[], str]) -> None:
    """Register a tool that depends on `a` and `b`: one function in five ways, with `body` in it."""
    a = trace.coroutine("a") if way in {"async all", "sync mixed", "sync last"} else trace.sync("a")
    b = trace.coroutine("b") if way in {"async all", "async mixed", "sync mixed"} else trace.sync("b")

    def between(value: Annotated[str, Depends(a)]) -> str:
        trace.add("between")
        return value

    async def between_in_the_loop(value: Annotated[str, Depends(a)]) -> str:
        trace.add("between")
        return value

    middle = between_in_the_loop if way == "async all" else between

    async def in_the_loop(one: Annotated[str, Depends(middle)], two: Annotated[str, Depends(b)]) -> str:
        trace.add("body")
        return one + two + body()

    def in_a_thread(one: Annotated[str, Depends(middle)], two: Annotated[str, Depends(b)]) -> str:
        trace.add("body")
        return one + two + body()

    server.tool(in_the_loop if way.startswith("async") else in_a_thread, name="look")


@pytest.mark.parametrize("way", WAYS)
async def test_dependencies_are_closed_in_reverse_order(way: str, server: Server, trace: Trace) -> None:
    register(way, server, trace, lambda: "!")
    async with connect(server) as client:
        assert (await client.call_tool("look")).text == "ab!"
    assert trace.events == ["open a", "between", "open b", "body", "close b", "close a"]


@pytest.mark.parametrize("way", WAYS)
async def test_dependency_receives_exception_of_handler(way: str, server: Server, trace: Trace) -> None:
    def fail() -> str:
        raise ToolError("no such thing")

    register(way, server, trace, fail)
    async with connect(server) as client:
        result = await client.call_tool("look")
    assert (result.is_error, result.text) == (True, "no such thing")
    assert trace.events[4:] == ["b receives ToolError", "close b", "a receives ToolError", "close a"]


def yields_never() -> Iterator[str]:
    return
    yield ""


def yields_twice() -> Iterator[str]:
    yield "a"
    yield "b"


async def yields_never_in_loop() -> AsyncIterator[str]:
    return
    yield ""


async def yields_twice_in_loop() -> AsyncIterator[str]:
    yield "a"
    yield "b"


async def yields_again_after_an_error() -> AsyncIterator[str]:
    try:
        yield "a"
    except ToolError:
        yield "b"


ONCE = "A dependency must yield exactly once"


@pytest.mark.parametrize(
    ("function", "fault"),
    [
        (yields_never, "yields_never has not yielded"),
        (yields_twice, "yields_twice has yielded more than once"),
        (yields_never_in_loop, "yields_never_in_loop has not yielded"),
        (yields_twice_in_loop, "yields_twice_in_loop has yielded more than once"),
        (yields_again_after_an_error, "yields_again_after_an_error has yielded more than once"),
    ],
)
async def test_dependency_must_yield_once(
    function: Any, fault: str, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    @server.tool
    async def look(value: Annotated[str, Depends(function)]) -> None:
        if "error" in function.__name__:
            raise ToolError("no such thing")

    async with connect(server) as client:
        result = await client.call_tool("look")
    assert result.text.startswith("Internal error (ref ")
    assert f"RuntimeError: {fault}. {ONCE}" in caplog.text


@pytest.fixture
def trace() -> Iterator[Trace]:
    with traced() as trace:
        yield trace


@pytest.fixture
def server() -> Server:
    return Server("s")


async def cancel(client: TestClient, trace: Trace, started: str) -> None:
    """Call `look`, and cancel it once something has happened; return when the call is over for its caller."""
    call = asyncio.create_task(client.call_tool("look"))
    await trace.reach(started)
    await over(call)
    assert call.cancelled()
    await settle()


@pytest.mark.parametrize("way", ["async all", "async mixed"])
async def test_dependency_receives_cancellation(way: str, server: Server, trace: Trace) -> None:
    a = trace.coroutine("a") if way == "async all" else trace.sync("a")

    @server.tool
    async def look(
        one: Annotated[str, Depends(a)], two: Annotated[str, Depends(trace.coroutine("b"))]
    ) -> None:
        trace.add("started")
        await asyncio.Event().wait()

    async with connect(server) as client:
        await cancel(client, trace, "started")
        await trace.reach("close a")
    assert trace.events[3:] == ["b receives CancelledError", "close b", "a receives CancelledError",
        "close a"]  # fmt: skip


@pytest.mark.parametrize("way", ["sync all", "sync mixed", "sync last"])
@pytest.mark.parametrize("outcome", ["returns", "raises"])
async def test_dependency_of_abandoned_thread_is_closed_on_return(
    way: str, outcome: str, server: Server, trace: Trace
) -> None:
    released = threading.Event()

    def body() -> str:
        trace.add("started")
        assert released.wait(10)
        if outcome == "raises":
            raise ValueError("late")
        return ""

    register(way, server, trace, body)
    async with connect(server) as client:
        await cancel(client, trace, "started")
        opened = ["open a", "between", "open b", "body", "started"]
        assert trace.events == opened
        released.set()
        await trace.reach("close a")
        if outcome == "raises":
            await trace.reach(
                "log a function in a worker thread failed after its call had ended. "
                "The client does not receive this exception: late"
            )
    assert len([event for event in trace.events if event.startswith("log")]) == (outcome == "raises")
    later = [event for event in trace.events[len(opened) :] if not event.startswith("log")]
    if outcome == "returns":
        assert later == ["close b", "close a"]
    else:
        assert later == ["b receives ValueError", "close b", "a receives ValueError", "close a"]
