"""The first half of the laboratory: what is said of tools, and what they take."""

import datetime as dt
import decimal
import enum
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from fastmcp import Context, FastMCP
from fastmcp.tools import Tool
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


@mcp.tool("renamed")
def _named(a: str) -> str:
    return a


def given(a: str = "y") -> str:
    """Registered by a call."""
    return a


mcp.tool(given, name="given_name", tags={"b", "a"}, meta={"k": 1})
mcp.add_tool(Tool.from_function(given, name="from-function", description="Said otherwise."))


@mcp.tool(
    name="said",
    title="All That Is Said",
    description="Described.",
    tags={"x"},
    annotations={"readOnlyHint": True, "title": "Hinted"},
    meta={"unit": "m"},
    version="2",
)
def said() -> str:
    """Not this."""
    return "said"


@mcp.tool(annotations={"title": "Only a hint"})
def hinted() -> None:
    return None


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


@mcp.tool
def returns_model() -> Point:
    return Point(x=1, label="a")


@mcp.tool
def returns_models() -> list[Point]:
    return [Point(x=1), Point(x=2)]


@mcp.tool
def returns_tree() -> Tree:
    return Tree(value=1, children=[Tree(value=2)])


@mcp.tool
def returns_row() -> Row:
    return {"name": "a", "amount": decimal.Decimal("1.5")}


@mcp.tool
def returns_person() -> Person:
    return Person("Ada", dt.date(1815, 12, 10))


@mcp.tool
def returns_dict() -> dict:
    return {"a": None, "b": [1, {"c": None}]}


@mcp.tool
def returns_dict_of() -> dict[str, int]:
    return {"a": 1}
