"""Tools: what may be one, what it is called, and how it is called."""

from __future__ import annotations

import asyncio
import functools
import pickle
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

from mcpkit import Context, RegistrationError, Server, ToolError, ToolResult
from mcpkit.testing import connect

pytestmark = pytest.mark.anyio


@pytest.fixture
def server() -> Server:
    return Server("s")


plain = Server("module-level")


@plain.tool
def decorated(x: int) -> int:
    """Double."""
    return 2 * x


def test_a_decorated_function_stays_an_ordinary_one() -> None:
    assert decorated(2) == 4
    assert decorated.__name__ == "decorated"
    assert pickle.loads(pickle.dumps(decorated)) is decorated


class Greeter:
    greeting = "Hello"

    def method(self, name: str) -> str:
        return f"{self.greeting}, {name}!"

    async def async_method(self, name: str) -> str:
        return f"{self.greeting}, {name}!"

    @classmethod
    def class_method(cls, name: str) -> str:
        return f"{cls.greeting}, {name}!"

    @staticmethod
    def static_method(name: str) -> str:
        return f"Hello, {name}!"

    def __call__(self, name: str) -> str:
        return f"{self.greeting}, {name}!"


class AsyncGreeter:
    async def __call__(self, name: str) -> str:
        return f"Hello, {name}!"


def greet(greeting: str, name: str) -> str:
    return f"{greeting}, {name}!"


async def async_greet(greeting: str, name: str) -> str:
    return f"{greeting}, {name}!"


def returns_awaitable(name: str):  # type: ignore[no-untyped-def]  # so that it shows at the call only
    return async_greet("Hello", name)


@functools.wraps(async_greet)
def wrapper(*args: Any, **kwargs: Any) -> Awaitable[str]:
    return async_greet(*args, **kwargs)


CALLABLES: dict[str, tuple[Any, str]] = {
    "method": (Greeter().method, "method"),
    "async method": (Greeter().async_method, "async_method"),
    "class method": (Greeter.class_method, "class_method"),
    "static method": (Greeter.static_method, "static_method"),
    "callable object": (Greeter(), "Greeter"),
    "async callable object": (AsyncGreeter(), "AsyncGreeter"),
    "partial": (functools.partial(greet, "Hello"), "greet"),
    "async partial": (functools.partial(async_greet, "Hello"), "async_greet"),
    "partial of a partial": (functools.partial(functools.partial(greet, "Hello")), "greet"),
    "returns an awaitable": (returns_awaitable, "returns_awaitable"),
    "wrapped": (functools.partial(wrapper, "Hello"), "async_greet"),
}


@pytest.mark.parametrize("what", CALLABLES)
async def test_any_callable_may_be_a_tool(server: Server, what: str) -> None:
    function, name = CALLABLES[what]
    assert server.tool(function) is function
    async with connect(server) as client:
        (listed,) = await client.list_tools()
        assert listed["name"] == name
        assert listed["inputSchema"]["properties"].keys() == {"name"}
        assert (await client.call(name, {"name": "Ada"})).text == "Hello, Ada!"


async def test_a_partials_keyword_is_a_default(server: Server) -> None:
    server.tool(functools.partial(greet, greeting="Hi"), name="hi")
    async with connect(server) as client:
        assert (await client.call("hi", {"name": "Ada"})).text == "Hi, Ada!"


def test_a_lambda_needs_a_name(server: Server) -> None:
    with pytest.raises(RegistrationError, match="name="):
        server.tool(lambda: "")
    server.tool(lambda: "", name="anonymous")
    assert "anonymous" in server.tools


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "x" * 128])
def test_good_names_are_taken(server: Server, name: str) -> None:
    server.tool(decorated, name=name)
    assert name in server.tools


@pytest.mark.parametrize("name", ["", "x" * 129, "a b", "a/b", "é", "a\n", "\u0661"])
def test_a_wrong_name_raises_with_the_rule(server: Server, name: str) -> None:
    with pytest.raises(RegistrationError, match="1 to 128 of the characters"):
        server.tool(decorated, name=name)


def test_a_function_whose_name_breaks_the_rule_needs_another(server: Server) -> None:
    def größe() -> str:  # noqa: PLC2401 - on purpose
        return ""

    with pytest.raises(RegistrationError, match="1 to 128"):
        server.tool(größe)
    server.tool(größe, name="size")


def test_an_unknown_annotation_names_those_there_are(server: Server) -> None:
    with pytest.raises(RegistrationError, match="readOnlyHint"):
        server.tool(decorated, annotations={"readonly": True})  # type: ignore[typeddict-unknown-key]


@pytest.mark.parametrize("content", ["text", None, 3])
def test_an_unknown_content_option_is_refused(server: Server, content: Any) -> None:
    with pytest.raises(RegistrationError, match="content must be"):
        server.tool(decorated, content=content)


async def test_the_description_is_the_docstring_without_its_sections(server: Server) -> None:
    @server.tool
    def forecast(city: str) -> str:
        """Tell the weather.

        It is always sunny.

        Args:
            city: Where.
        """
        return "sunny"

    @server.tool(description="Mine")
    def other() -> str:
        """Not this."""
        return ""

    async with connect(server) as client:
        first, second = await client.list_tools()
        assert first["description"] == "Tell the weather.\n\nIt is always sunny."
        assert first["inputSchema"]["properties"]["city"]["description"] == "Where."
        assert second["description"] == "Mine"


async def test_the_context_is_injected_and_stays_out_of_the_schema(server: Server) -> None:
    @server.tool
    def first(ctx: Context, x: int) -> str:
        return f"{ctx.request_id is not None} {x}"

    @server.tool
    async def last(x: int, *, request: Context | None = None) -> str:
        return f"{request is not None} {x}"

    @server.tool
    async def noted(x: int, request: Annotated[Context[Any], "the request"]) -> str:
        return f"{request.method} {x}"

    async with connect(server) as client:
        for tool in await client.list_tools():
            assert tool["inputSchema"]["properties"].keys() == {"x"}
        assert (await client.call("first", {"x": 1})).text == "True 1"
        assert (await client.call("last", {"x": 2})).text == "True 2"
        assert (await client.call("noted", {"x": 3})).text == "tools/call 3"


async def test_the_injected_parameter_cannot_be_given_by_the_client(server: Server) -> None:
    @server.tool
    async def f(ctx: Context) -> str:
        return ctx.method

    async with connect(server) as client:
        result = await client.call("f", {"ctx": "mine"})
        assert result.is_error
        assert "ctx" in result.text


class Place(TypedDict):
    city: str


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        Place,
        {"city": Annotated[str, "Where"]},
    ],
)
async def test_with_an_explicit_schema_the_function_takes_one_dict(server: Server, schema: Any) -> None:
    @server.tool(input_schema=schema)
    async def forecast(arguments: dict[str, Any], ctx: Context) -> str:
        return f"sunny in {arguments['city']}"

    async with connect(server) as client:
        assert (await client.call("forecast", {"city": "Rome"})).text == "sunny in Rome"
        result = await client.call("forecast", {"city": 3.5})
        assert result.is_error
        assert "city" in result.text


def test_an_explicit_schema_wants_exactly_one_parameter(server: Server) -> None:
    with pytest.raises(RegistrationError, match="one dict"):
        server.tool(greet, input_schema={"type": "object"})


def test_a_result_without_a_form_in_json_is_refused_under_the_name_of_the_tool(server: Server) -> None:
    def count() -> Iterator[Callable[[], int]]:
        yield from ()

    async def stream() -> AsyncIterator[Callable[[], int]]:
        yield int

    with pytest.raises(RegistrationError, match=r"count: result: .*(Callable|list has no form)"):
        server.tool(count)
    with pytest.raises(RegistrationError, match=r"stream: result: .*(Callable|list has no form)"):
        server.tool(stream)


@pytest.mark.parametrize(
    ("error", "text"), [(ToolError(), "did not say why"), (ToolError("no such city"), "^no such city$")]
)
async def test_the_model_always_has_something_to_read(server: Server, error: ToolError, text: str) -> None:
    @server.tool
    def fail() -> None:
        raise error

    async with connect(server) as client:
        result = await client.call("fail")
        assert result.is_error
        assert re.search(text, result.text)


async def test_a_coroutine_that_nobody_awaited_says_so_in_the_log(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    pending = asyncio.get_running_loop().create_future()

    @server.tool
    async def forecast() -> Any:
        return pending

    async with connect(server) as client:
        result = await client.call("forecast")
    assert result.is_error
    assert result.text.startswith(
        "the tool ran, but result has no form in JSON: a Future that nobody awaited"
    )
    (record,) = caplog.records
    assert record.getMessage() == f"tools/call 'forecast': {result.text}"


async def test_arguments_may_be_left_out(server: Server) -> None:
    @server.tool
    def f() -> str:
        return "called"

    async with connect(server) as client:
        for params in ({"name": "f"}, {"name": "f", "arguments": None}, {"name": "f", "arguments": {}}):
            assert (await client.request("tools/call", params))["content"][0]["text"] == "called"


async def test_unknown_arguments_are_an_error_that_suggests_the_right_name(server: Server) -> None:
    @server.tool
    def forecast(latitude: float = 0) -> str:
        return "sunny"

    async with connect(server) as client:
        result = await client.call("forecast", {"lattitude": 3})
        assert result.is_error
        assert "latitude" in result.text


@pytest.mark.parametrize("schema", [None, {"days": int}])
async def test_unknown_arguments_are_dropped_where_a_tool_says_so(server: Server, schema: Any) -> None:
    calls: list[Any] = []

    if schema is None:

        @server.tool(extra="ignore")
        def plan(days: int) -> None:
            calls.append(days)
    else:

        @server.tool(extra="ignore", input_schema=schema)
        def plan(arguments: dict[str, Any]) -> None:
            calls.append(arguments["days"])
            assert arguments == {"days": 3}

    async with connect(server) as client:
        (tool,) = await client.list_tools()
        assert tool["inputSchema"]["additionalProperties"] is True
        result = await client.call("plan", {"days": 3, "daze": 4, "reason": {"a": 1}})
        assert not result.is_error
        result = await client.call("plan", {"daze": "4"})
        assert result.text == "days: expected an integer, but it is missing"
    assert calls == [3]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"extra": "allow"}, r"""tool 'f': extra must be "forbid" or "ignore", got 'allow'"""),
        ({"extra": "ignore", "input_schema": {"type": "object"}}, r'write `"additionalProperties": true`'),
        ({"extra": "ignore"}, r'f: extra="ignore" drops what \*\*kwargs takes'),
    ],
)
def test_what_contradicts_extra_is_refused(server: Server, options: dict[str, Any], message: str) -> None:
    def f(x: Any = None, **rest: Any) -> None: ...

    with pytest.raises(RegistrationError, match=message):
        server.tool(**options)(f)


async def test_the_function_does_not_run_with_wrong_arguments(server: Server) -> None:
    ran = []

    @server.tool
    def f(x: int) -> None:
        ran.append(x)

    async with connect(server) as client:
        assert (await client.call("f", {"x": "one"})).is_error
        assert not (await client.call("f", {"x": 1})).is_error
    assert ran == [1]


async def test_none_is_an_answer_without_content(server: Server) -> None:
    @server.tool
    def f() -> None:
        return None

    async with connect(server) as client:
        result = await client.call("f")
        assert (result.content, result.structured, result.is_error) == ([], None, False)


async def test_a_tool_result_is_sent_as_it_is(server: Server) -> None:
    @server.tool
    def f() -> ToolResult:
        return ToolResult("text", structured={"x": 1}, is_error=True, meta={"example.com/x": 2})

    async with connect(server) as client:
        result = await client.call("f")
        assert result.text == "text"
        assert result.structured == {"x": 1}
        assert result.is_error
        assert result.meta["example.com/x"] == 2


async def test_a_subclass_of_tool_result_is_one(server: Server) -> None:
    class Verdict(ToolResult):
        pass

    @server.tool
    def f() -> Verdict:
        return Verdict("text", is_error=True)

    async with connect(server) as client:
        result = await client.call("f")
    assert (result.text, result.is_error) == ("text", True)


async def test_a_tool_result_must_keep_what_the_output_schema_promises(server: Server) -> None:
    @server.tool
    def f(broken: bool) -> int:
        return ToolResult("text") if broken else ToolResult("text", structured=1)  # type: ignore[return-value]

    async with connect(server) as client:
        assert (await client.call("f", {"broken": False})).structured == 1
        refused = await client.call("f", {"broken": True})
    assert refused.is_error
    assert (
        refused.text == "the tool ran, but its type promises structured data: pass structured= to ToolResult"
    )
