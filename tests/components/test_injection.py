"""Hidden parameters: dependencies, state, headers and questions to the user."""

import asyncio
import functools
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Annotated, Any

import pytest

from mcpkit import Ask, Context, Depends, FromHeader, FromState, ProtocolError, Server, ToolError
from mcpkit.elicitation import ElicitationResult
from mcpkit.exceptions import RegistrationError
from mcpkit.testing import connect
from tests.helpers.pipe import settle
from tests.helpers.tables import each_row
from tests.helpers.waiting import over, until


@pytest.fixture
def server() -> Server:
    return Server("s")


def plain() -> str:
    return "plain"


async def coroutine() -> str:
    return "coroutine"


def generator() -> Iterator[str]:
    yield "generator"


async def async_generator() -> AsyncIterator[str]:
    yield "async generator"


class Factory:
    def method(self) -> str:
        return "method"

    async def __call__(self) -> str:
        return "callable"


class Settings:
    def __init__(self, based_on: Annotated[str, Depends(plain)]) -> None:
        self.based_on = based_on

    def __str__(self) -> str:
        return f"on {self.based_on}"


def with_a_name(name: str) -> str:
    return name


KINDS: list[tuple[Callable[..., Any], str]] = [
    (plain, "plain"), (coroutine, "coroutine"), (generator, "generator"), (async_generator, "async generator"),
    (Factory().method, "method"), (Factory(), "callable"), (Settings, "on plain"), (lambda: coroutine(), "coroutine"),
    (functools.wraps(coroutine)(lambda: coroutine()), "coroutine"), (lambda: "lambda", "lambda"),
    (functools.partial(with_a_name, name="named"), "named"), (functools.partial(with_a_name, "first"), "first"),
]  # fmt: skip


@each_row(("function", "text"), KINDS)
async def test_depends_on_any_callable_in_any_tool(function: Callable[[], Any], text: str) -> None:
    server = Server("s")

    @server.tool
    async def a_in_the_loop(times: int, value: Annotated[Any, Depends(function)]) -> str:
        return str(value) * times

    @server.tool
    async def b_by_default(times: int, value: Any = Depends(function)) -> str:
        return str(value) * times

    @server.tool
    def c_in_a_thread(times: int, value: Annotated[Any, Depends(function)]) -> str:
        return str(value) * times

    @server.tool(run_in="loop")
    def d_not_in_a_thread(times: int, value: Annotated[Any | None, Depends(function)]) -> str:
        return str(value) * times

    async with connect(server) as client:
        tools = await client.list_tools()
        results = [(await client.call_tool(each["name"], {"times": 2})).text for each in tools]
    assert [list(each["inputSchema"]["properties"]) for each in tools] == [["times"]] * 4
    assert results == [text * 2] * 4


async def test_depends_is_called_once_per_request(server: Server) -> None:
    calls: list[int] = []

    def count() -> int:
        calls.append(1)
        return len(calls)

    async def left(count: Annotated[int, Depends(count)]) -> int:
        return count

    @server.tool
    async def observe(
        first: Annotated[int, Depends(left)],
        second: Annotated[int, Depends(count)],
        alone: Annotated[int, Depends(count, cached=False)],
        alone_too: Annotated[int, Depends(count, cached=False)],
    ) -> list[int]:
        return [first, second, alone, alone_too]

    async with connect(server) as client:
        assert (await client.call_tool("observe")).structured_content == [1, 1, 2, 3]
        assert (await client.call_tool("observe")).structured_content == [4, 4, 5, 6]


async def test_depends_receives_context_and_state() -> None:
    @asynccontextmanager
    async def lifespan(_: Server) -> AsyncGenerator[str, None]:
        yield "state"

    async def from_context(ctx: Context[str]) -> str:
        return f"{ctx.state} in {ctx.method}"

    def from_state(db: Annotated[str, FromState()], default: int = 3) -> str:
        return db * default

    server = Server("s", lifespan=lifespan)

    @server.tool
    def observe(
        one: Annotated[str, Depends(from_context)], two: Annotated[str, Depends(from_state)], ctx: Context
    ) -> list[str]:
        return [one, two, ctx.method]

    async with connect(server) as client:
        data = (await client.call_tool("observe")).data
    assert data == ["state in tools/call", "statestatestate", "tools/call"]


async def test_from_state_without_lifespan_is_error(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    @server.tool
    async def need(db: Annotated[str, FromState()]) -> str:
        return db

    async with connect(server) as client:
        assert (await client.call_tool("need")).text.startswith("Internal error")
    assert "the server has no lifespan state. Pass Server(lifespan=...)" in caplog.text


def takes_by_position(ctx: Context, /) -> str:
    return ctx.method


def takes_header(tenant: Annotated[str, FromHeader("X-Tenant")]) -> None: ...


def takes_what_takes(value: Annotated[str, Depends(with_a_name)]) -> str:
    return value


def egg(hen: "Annotated[Any, Depends(hen)]") -> Any: ...


def hen(egg: "Annotated[Any, Depends(egg)]") -> Any: ...


@contextmanager
def managed() -> Iterator[int]:
    yield 1


@each_row(("mark", "message"), [
    (Depends(with_a_name), "value: the dependency with_a_name has the parameter 'name' without"),
    (Depends(takes_by_position), "takes_by_position has the parameter 'ctx' without"),
    (Depends(takes_what_takes), "value: takes_what_takes: value: the dependency with_a_name has the parameter"),
    (Depends(hen), "circular dependency: hen -> egg -> hen"),
    (Depends(managed), r"managed is a decorated generator function.*@contextmanager"),
    (Depends, r"Write Depends\(...\)"), (FromState, r"Write FromState\(...\)"),
    (FromHeader("X-Tenant"),
     r"value: the value of a header is a string. Annotate the parameter as `str \| None`, not `int`"),
    (Depends(takes_header), "the header X-Tenant may be missing"),
    (Ask(3), "'observe': value: message must be a string, got 3"),  # type: ignore[arg-type]  # the mistake
    (Ask("How long?", key=""), "'observe': value: key must be a string of 1 to 100 characters, got ''"),
    (Ask, "observe: value: Annotated contains the class Ask. Write Ask"),
])  # fmt: skip
def test_hidden_parameter_wrong_mark_is_refused(mark: Any, message: str) -> None:
    async def observe(value: Annotated[int, mark]) -> None: ...

    with pytest.raises(RegistrationError, match=message):
        Server("s").tool(observe)


# Questions to the user

REVISIONS = ["2025-11-25", "2026-07-28"]


@dataclass
class City:
    name: str


@pytest.fixture
def form_server(server: Server) -> Server:
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


PARIS = {"action": "accept", "content": {"name": "Paris"}}
THREE = {"action": "accept", "content": {"value": 3}}
NO = {"action": "decline"}


@each_row(("tool", "answers", "text"), [
    ("plan", [PARIS, THREE], "Hello: 3 days in Paris"), ("plan", [PARIS, NO], "The user declined"),
    ("in_a_thread", [PARIS], "Paris"), ("perhaps", [PARIS], "Paris"), ("perhaps", [NO], "nowhere"),
    ("whole", [PARIS], "accept Paris"), ("whole", [NO], "decline -"),
])  # fmt: skip
async def test_ask_fills_parameter(revision, tool, answers, text, form_server) -> None:
    arguments = {"greeting": "Hello"} if tool == "plan" else {}
    left = iter(answers)
    async with connect(
        form_server, protocol_version=revision, request_handler=lambda *_: next(left)
    ) as client:
        assert (await client.call_tool(tool, arguments)).text == text


@pytest.mark.parametrize("revision", ["2024-11-05", *REVISIONS])
async def test_ask_without_elicitation(revision: str, form_server: Server) -> None:
    lacks = "The client does not declare the required capability elicitation.form"
    async with connect(form_server, protocol_version=revision) as client:
        assert (await client.call_tool("perhaps")).text == "nowhere"
        if revision == REVISIONS[-1]:
            with pytest.raises(ProtocolError, match=lacks):
                await client.call_tool("whole")
        else:
            assert (await client.call_tool("whole")).text == lacks


# Lifetime of dependencies


class Trace(list[str]):
    """Events in order, and dependencies that record when they open and close and which exceptions they receive."""

    @contextmanager
    def recorded(self, name: str) -> Iterator[str]:
        self.append(f"open {name}")
        try:
            yield name
        except BaseException as error:
            self.append(f"{name} receives {type(error).__name__}")
            raise
        finally:
            self.append(f"close {name}")

    def sync(self, name: str) -> Callable[[], Iterator[str]]:
        def generator() -> Iterator[str]:
            with self.recorded(name):
                yield name

        return generator

    def coroutine(self, name: str) -> Callable[[], AsyncIterator[str]]:
        async def generator() -> AsyncIterator[str]:
            with self.recorded(name):
                yield name

        return generator


@pytest.fixture
def trace() -> Trace:
    return Trace()


def register(way: str, server: Server, trace: Trace, body: Callable[[], str]) -> None:
    """Register a tool that depends on `a` and `b`: one function in five ways, with `body` in it."""
    a = trace.coroutine("a") if way in {"async all", "sync mixed", "sync last"} else trace.sync("a")
    b = trace.coroutine("b") if way in {"async all", "async mixed", "sync mixed"} else trace.sync("b")

    def between(value: Annotated[str, Depends(a)]) -> str:
        trace.append("between")
        return value

    async def between_in_the_loop(value: Annotated[str, Depends(a)]) -> str:
        return between(value)

    middle = between_in_the_loop if way == "async all" else between

    def in_a_thread(one: Annotated[str, Depends(middle)], two: Annotated[str, Depends(b)]) -> str:
        trace.append("body")
        return one + two + body()

    async def in_the_loop(one: Annotated[str, Depends(middle)], two: Annotated[str, Depends(b)]) -> str:
        return in_a_thread(one, two)

    server.tool(in_the_loop if way.startswith("async") else in_a_thread, name="observe")


@pytest.mark.parametrize("way", ["async all", "async mixed", "sync all", "sync mixed", "sync last"])
async def test_dependencies_are_closed_in_reverse_order(way: str, server: Server, trace: Trace) -> None:
    def fail() -> str:
        raise ToolError("no such thing")

    register(way, server, trace, lambda: fail() if len(trace) > 4 else "!")
    async with connect(server) as client:
        assert (await client.call_tool("observe")).text == "ab!"
        opened = ["open a", "between", "open b", "body"]
        assert trace == [*opened, "close b", "close a"]
        result = await client.call_tool("observe")
    assert (result.is_error, result.text) == (True, "no such thing")
    received = ["b receives ToolError", "close b", "a receives ToolError", "close a"]
    assert trace[6:] == [*opened, *received]


def yields_never() -> Iterator[str]:
    yield from ()


def yields_twice() -> Iterator[str]:
    yield from "ab"


async def yields_never_in_loop() -> AsyncIterator[str]:
    for each in "":
        yield each


async def yields_twice_in_loop() -> AsyncIterator[str]:
    for each in "ab":
        yield each


async def yields_again_after_an_error() -> AsyncIterator[str]:
    try:
        yield "a"
    except ToolError:
        yield "b"


@each_row(("function", "fault"), [
    (yields_never, "has not yielded"), (yields_twice, "has yielded more than once"),
    (yields_never_in_loop, "has not yielded"), (yields_twice_in_loop, "has yielded more than once"),
    (yields_again_after_an_error, "has yielded more than once"),
])  # fmt: skip
async def test_dependency_yields_once(function: Any, fault: str, caplog: pytest.LogCaptureFixture) -> None:
    server = Server("s")

    @server.tool
    async def observe(value: Annotated[str, Depends(function)]) -> None:
        if function is yields_again_after_an_error:
            raise ToolError("no such thing")

    async with connect(server) as client:
        result = await client.call_tool("observe")
    assert result.text.startswith("Internal error (ref ")
    expected = f"RuntimeError: {function.__name__} {fault}. A dependency must yield exactly once"
    assert expected in caplog.text


@pytest.mark.parametrize("way", ["coroutine", "sync"])
async def test_dependency_receives_cancellation(way: str, server: Server, trace: Trace) -> None:
    a, b = getattr(trace, way)("a"), trace.coroutine("b")

    @server.tool
    async def observe(one: Annotated[str, Depends(a)], two: Annotated[str, Depends(b)]) -> None:
        trace.append("started")
        await asyncio.Event().wait()

    async with connect(server) as client:
        call = asyncio.create_task(client.call_tool("observe"))
        await until(lambda: "started" in trace)
        await over(call)
        await until(lambda: "close a" in trace)
    assert call.cancelled()
    assert trace[3:] == ["b receives CancelledError", "close b", "a receives CancelledError", "close a"]


@pytest.mark.parametrize("way", ["sync all", "sync mixed", "sync last"])
@pytest.mark.parametrize("outcome", ["returns", "raises"])
async def test_dependency_of_abandoned_thread_is_closed_on_return(way, outcome, server, trace, caplog):
    released = threading.Event()

    def body() -> str:
        trace.append("started")
        assert released.wait(30)
        if outcome == "raises":
            raise ValueError("late")
        return ""

    register(way, server, trace, body)
    async with connect(server) as client:
        call = asyncio.create_task(client.call_tool("observe"))
        await until(lambda: "started" in trace)
        await over(call)
        await settle()
        opened = ["open a", "between", "open b", "body", "started"]
        assert trace == opened
        released.set()
        await until(lambda: "close a" in trace)
        await until(lambda: len(caplog.records) == (outcome == "raises"))
    closing = ["b receives ValueError", "close b", "a receives ValueError", "close a"]
    assert trace[len(opened) :] == (closing if outcome == "raises" else closing[1::2])
    late = "a function in a worker thread failed after its call had ended. The client does not"
    assert all(record.getMessage().startswith(late) for record in caplog.records)
