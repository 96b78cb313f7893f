"""A server written for `fastmcp`, which runs on fastmcp and on mcpkit; each component is for one thing."""

import asyncio
import datetime as dt
import decimal
import enum
import threading
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from fastmcp import Context, FastMCP
from fastmcp.dependencies import CurrentContext, Depends
from fastmcp.exceptions import NotFoundError, ResourceError, ToolError
from fastmcp.prompts import Message, PromptResult
from fastmcp.resources import ResourceContent, ResourceResult, TextResource
from fastmcp.server.dependencies import get_context, get_http_headers
from fastmcp.tools import Tool, ToolResult
from fastmcp.utilities.types import Audio, File, Image
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

PIXEL = b"\x89PNG\r\n\x1a\n"


@asynccontextmanager
async def life(server: FastMCP) -> AsyncIterator[dict[str, Any]]:
    yield {"database": f"of {server.name}"}


mcp = FastMCP(
    "lab", instructions="Try things.", version="1.2", lifespan=life, website_url="https://example.com"
)


class Color(enum.Enum):
    """A colour."""

    RED = "red"
    BLUE = "blue"


class Point(BaseModel):
    """Somewhere."""

    x: float
    y: float = 0.0
    label: str | None = Field(default=None, description="What it is called", title="The label")


class Line(BaseModel):
    start: Point
    end: Annotated[Point, Field(description="Where it ends")]


class Tree(BaseModel):
    value: int
    children: list["Tree"] = []


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"
    name: str


class Row(TypedDict, total=False):
    name: str
    amount: decimal.Decimal


@dataclass
class Person:
    name: str
    born: dt.date


# What is said of tools


@mcp.tool
def bare(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


@mcp.tool()
def called(a, b="x"):
    """Without types."""
    return [a, b]


def with_default(a: str = "y") -> str:
    """Registered by a call."""
    return a


mcp.tool("renamed")(with_default)
mcp.tool(with_default, name="given_name", tags={"b", "a"}, meta={"k": 1})
mcp.add_tool(Tool.from_function(with_default, name="from-function", description="Said otherwise."))


@mcp.tool(
    name="said",
    title="All That Is Said",
    description="Described.",
    tags={"x"},
    annotations={"readOnlyHint": True, "title": "Hinted"},
    meta={"unit": "m"},
    version="2",
)
def titled() -> str:
    """Not this."""
    return "said"


mcp.tool(lambda: None, name="hinted", annotations={"title": "Only a hint"})


@mcp.tool
def google(city: str, days: int = 3, *, units: str = "metric") -> str:
    """Forecast the weather.

    It may rain.

    Args:
        city: The city.
            It may be far away.
        days (int): How many days: at least one.
        units: Units.

    Returns:
        A text.

    Example:
        >>> google("Oslo")
    """
    return f"{city} {days} {units}"


@mcp.tool
def numpy_style(x: float, y: float = 1) -> float:
    """Multiply.

    Parameters
    ----------
    x : float
        The one.
    y : float
        The other.

    Returns
    -------
    float
        The product.
    """
    return x * y


@mcp.tool
def sphinx_style(x: float) -> float:
    """Halve.

    :param x: What to halve.
    :returns: The half.
    """
    return x / 2


@mcp.tool
def with_note(x: int) -> int:
    """Count.

    Note:
        Slowly.

    Usage: count(1)
    """
    return x


@mcp.tool
def described(
    a: Annotated[int, "A text"],
    b: Annotated[float, Field(ge=0, le=10, description="Bounded")] = 1,
    c: Annotated[str, Field(title="Own Title", pattern="^a")] = "a",
    d: str = Field(default="d", description="By a default", examples=["e"]),
    e: Literal["x", "y"] = "x",
) -> dict[str, Any]:
    return {"a": a, "b": b, "c": c, "d": d, "e": e}


@mcp.tool
def takes_models(
    line: Line, shape: Cat | Dog, color: Color = Color.RED, more: list[Point] | None = None
) -> str:
    return f"{line!r} {shape!r} {color!r} {more!r}"


@mcp.tool
def discriminated(pet: Annotated[Cat | Dog, Field(discriminator="kind")]) -> str:
    return repr(pet)


@mcp.tool
def takes_tree(tree: Tree) -> int:
    return tree.value


@mcp.tool
def takes_kinds(
    when: dt.datetime,
    how_long: dt.timedelta,
    what: uuid.UUID,
    where: Path,
    data: bytes = b"",
    several: set[int] = {1},
    pair: tuple[int, str] = (1, "a"),
    anything: Any = None,
    mapping: dict[str, list[int]] = {},
    title: str = "a property",
) -> str:
    return repr((when, how_long, what, where, data, several, pair, anything, mapping, title))


@mcp.tool
def loose(a: str = None, ctx: Context = None) -> str:  # noqa: RUF013 - as many authors write it
    return f"{a} {ctx is None}"


# What tools return

UNTYPED = object()
IMAGE = Image(data=PIXEL, format="jpg")
FILES = [File(data=b"a,b", format="csv", name="table"), File(data=b"\x00", format="pdf")]
VALUES: list[Any] = [
    *(None, "text", 1.5, float("nan"), True, [1, "a"], [], (1, 2), {"a": 1}, {1}, b"abc", b"\xff"),
    *(Point(x=1), dt.date(2020, 1, 2), IMAGE, Audio(data=b"a", format="mp3"), *FILES, ["a", IMAGE, {"b": 1}]),
]
RETURNED: dict[str, tuple[Any, Any]] = {
    "model": (Point, Point(x=1, label="a")), "models": (list[Point], [Point(x=1), Point(x=2)]),
    "tree": (Tree, Tree(value=1, children=[Tree(value=2)])),
    "row": (Row, {"name": "a", "amount": decimal.Decimal("1.5")}),
    "person": (Person, Person("Ada", dt.date(1815, 12, 10))),
    "dict": (dict, {"a": None, "b": [1, {"c": None}]}), "dict_of": (dict[str, int], {"a": 1}),
    "list": (list, [1, {"a": 2}]), "strings": (list[str], ["a", "b"]), "tuple": (tuple[int, str], (1, "a")),
    "enum": (Color, Color.BLUE), "date": (dt.datetime, dt.datetime(2020, 1, 2, 3, 4)),
    "bytes": (bytes, b"abc"), "image": (Image, Image(data=PIXEL)), "none": (None, None),
    "sequence": (Sequence[Any], [1]),
    "discriminated": (Annotated[Cat | Dog, Field(discriminator="kind")], Cat(lives=9)),
    "structured": (ToolResult, ToolResult(structured_content={"a": [1, Point(x=1)]})),
    "result": (ToolResult, ToolResult(content="short", structured_content={"a": 1}, meta={"m": 2})),
    "error": (ToolResult, ToolResult(content="short", structured_content={"a": 1}, is_error=True)),
    "untyped": (UNTYPED, {"a": Point(x=1)}), "optional": (int | None, 1), "optional_none": (int | None, None),
    "union": (int | str, 1), "union_text": (int | str, "a"), "wrong": (int, "no number"),
    **{f"any_{number}": (Any, value) for number, value in enumerate(VALUES)},
}  # fmt: skip
"""The return type and the value of tools without parameters."""


def add_returning(name: str, annotation: Any, value: Any, **options: Any) -> None:
    def function():
        return value

    function.__name__ = f"returns_{name}"
    if annotation is not UNTYPED:
        function.__annotations__["return"] = annotation
    mcp.tool(function, **options)


for each, (annotation, value) in RETURNED.items():
    add_returning(each, annotation, value)
schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
add_returning("own_schema", dict[str, int], {"a": 1}, output_schema=schema)
add_returning("no_schema", int, 1, output_schema=None)


@mcp.tool
def generates() -> list[int]:
    yield 1  # type: ignore[misc]
    yield 2


@mcp.tool
def returns_coroutine():
    async def later():
        return 1

    return later()


# What goes wrong


@mcp.tool
def fails(how: str) -> str:
    if how == "tool":
        raise ToolError("Said so")
    if how == "validation":
        Point(x="a")  # type: ignore[arg-type]
    if how == "not found":
        raise NotFoundError("nowhere")
    raise ValueError("a value")


@mcp.tool(timeout=0.05)
async def slow() -> str:
    await asyncio.sleep(10)
    return "late"


# What functions are given


async def user(config: dict = Depends(lambda: {"a": 1})) -> str:
    return f"user {config['a']}"


@mcp.tool
async def injected(a: int, who: str = Depends(user), ctx: Context = CurrentContext()) -> str:
    return f"{a} {who} {ctx.fastmcp.name} {get_http_headers()} {get_context() is ctx}"


@mcp.tool
async def in_context(ctx: Context, a: int = 1) -> dict[str, Any]:
    return {"a": a, "server": ctx.fastmcp.name, "life": ctx.lifespan_context, "client": ctx.client_id}


@mcp.tool
def sync_context(ctx: Context | None = None) -> str:
    return f"{ctx.fastmcp.name} {threading.current_thread() is threading.main_thread()}"


@mcp.tool(run_in_thread=False)
def in_loop() -> bool:
    return threading.current_thread() is threading.main_thread()


@mcp.tool
async def notifies(ctx: Context) -> str:
    for level in ("debug", "warning", "error"):
        await getattr(ctx, level)(level)
    await ctx.info("i", logger_name="mine", extra={"a": 1})
    await ctx.log("n", level="notice")
    await ctx.report_progress(1, 2, "half")
    return "told"


@mcp.tool
async def remembers(key: str, ctx: Context, value: str | None = None) -> Any:
    if value is not None:
        await ctx.set_state(key, value)
    await ctx.set_state("object", object(), serializable=False)
    return [await ctx.get_state(key), type(await ctx.get_state("object")).__name__]


@mcp.tool
async def reads(uri: str, ctx: Context) -> Any:
    return [each.content for each in (await ctx.read_resource(uri)).contents]


@dataclass
class Form:
    name: str
    age: int = 3


KINDS: dict[str, Any] = {
    **{kind.__name__: kind for kind in (str, int, bool)}, "choices": ["a", "b"],
    "titled": {"a": {"title": "The A"}, "b": {"title": "The B"}}, "several": [["a", "b"]],
    "several titled": [{"a": {"title": "The A"}, "b": {"title": "The B"}}], "literal": Literal["a", "b"],
    "enum": Color, "form": Form, "model": Point, "list": list[Literal["a", "b"]], "nested": Line,
}  # fmt: skip


@mcp.tool
async def asks(kind: str, ctx: Context, title: str | None = None) -> str:
    result = await ctx.elicit(f"Which {kind}?", KINDS[kind], response_title=title)
    return f"{result.data!r}" if result.action == "accept" else result.action


# Resources


@mcp.resource("data://plain")
def plain() -> str:
    """A text.

    With more.
    """
    return "plain"


@mcp.resource(
    "data://said",
    name="Said",
    title="T",
    description="D",
    mime_type="application/json",
    tags={"r"},
    meta={"m": 1},
    annotations={"audience": ["user"], "priority": 0.5},
)
async def json_resource() -> dict[str, Any]:
    return {"a": 1}


@mcp.resource("data://bytes", mime_type="image/png")
def bytes_resource() -> bytes:
    return PIXEL


@mcp.resource("data://several")
def several() -> ResourceResult:
    return ResourceResult([ResourceContent({"a": 1}), ResourceContent(b"b", meta={"x": 1})], meta={"y": 2})


mcp.resource("data://wrong", name="wrong")(lambda: object())


@mcp.resource("data://fails/{how}")
def failing(how: str) -> str:
    if how == "said":
        raise ResourceError("Said so")
    raise ValueError("a value")


@mcp.resource("data://cities/{city}/days/{days}")
def template(city: str, days: int, ctx: Context) -> str:
    """The weather."""
    return f"{city} {days!r} {ctx.fastmcp.name}"


@mcp.resource("files://{path*}{?upper,limit}", mime_type="text/markdown", name="files", tags={"f"})
def files(path: str, upper: bool = False, limit: int = 10) -> str:
    return f"{path} {upper!r} {limit!r}"


mcp.add_resource(TextResource(uri="data://object", text="an object", name="object"))


# Prompts


@mcp.prompt
def simple(topic: str) -> str:
    """Explain a topic.

    Args:
        topic: What to explain.
    """
    return f"Explain {topic}"


@mcp.prompt(name="full", title="Full", description="All of it", tags={"p"}, meta={"m": 1})
async def full(
    a: int,
    names: list[str],
    ctx: Context,
    b: Annotated[float, Field(description="A number")] = 1.5,
    c: str | None = None,
) -> list[Any]:
    text = f"{a!r} {names!r} {b!r} {c!r} {ctx.fastmcp.name}"
    return [text, Message("Yes?", role="assistant"), Message({"k": 1})]


@mcp.prompt("result")
def result_prompt() -> PromptResult:
    return PromptResult([Message("a")], description="of the result", meta={"m": 1})


mcp.prompt(lambda: 1, name="wrong_prompt")


@mcp.prompt
def failing_prompt() -> str:
    raise ValueError("a value")


@mcp.completion
def complete(ref: Any, argument: Any, context: Any) -> list[str] | None:
    return [each for each in ("Oslo", "Odessa", "Rome") if each.startswith(argument.value)] or None


child = FastMCP("child")
child.resource("data://inner", name="inner_resource")(lambda: "inner")
child.prompt(lambda: "inner", name="inner_prompt")


@child.tool
def inner(ctx: Context) -> str:
    return ctx.fastmcp.name


@child.resource("data://inner/{a}")
def inner_template(a: str) -> str:
    return f"inner {a}"


mcp.mount(child, namespace="sub")

if __name__ == "__main__":
    mcp.run(show_banner=False)
