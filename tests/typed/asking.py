"""What type checkers know of questions: `mypy --strict` and pyright read this; nothing runs it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field
from typing_extensions import assert_type

from mcpkit import Answer, Ask, Context, Elicit, FromHeader, FromState, ListRoots, Root, Sample, Sampled

Size = Literal["small", "large"]


@dataclass
class City:
    name: str


async def asks(ctx: Context) -> None:
    """Answers have the type of what was asked for."""
    assert_type(await ctx.elicit("Which?", City), Answer[City])
    assert_type((await ctx.elicit("Sure?", bool)).value, bool)
    assert_type((await ctx.elicit("Which?", Literal["a", "b"])).value, Literal["a", "b"])
    assert_type((await ctx.elicit("Which?", list[Size])).value, "list[Size]")
    assert_type((await ctx.elicit("How many?", Annotated[int, Field(ge=1)])).value, int)
    assert_type(await ctx.elicit("Which?", {"type": "object", "properties": {}}), Answer[dict[str, Any]])
    assert_type(Elicit("Which?", {"type": "object", "properties": {}}), Elicit[dict[str, Any]])
    city, sure, words = await ctx.ask(
        Elicit("Which?", City), Elicit("Sure?", bool), Sample("Hello", max_tokens=5, temperature=0.5)
    )
    assert_type(city, Answer[City])
    assert_type(sure, Answer[bool])
    assert_type(words, Sampled)
    sizes = await ctx.ask(
        Elicit("Which?", Literal["small", "large"]), Elicit("How many?", Annotated[int, Field(ge=1)])
    )
    assert_type(sizes, tuple[Answer[Literal["small", "large"]], Answer[int]])
    (roots,) = await ctx.ask(ListRoots())
    assert_type(roots, list[Root])
    await ctx.sample("Hello", max_tokens=5, tool_choice="always")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


async def picks(ctx: Context) -> Size:
    """What was chosen is what is returned, without a cast."""
    return (await ctx.elicit("Which?", Size)).value


def filled(
    db: dict[str, int] = FromState(),
    tenant: str | None = FromHeader("X-Tenant"),
    city: City = Ask("Which city?"),
) -> int:
    """Marks may stand as default values of parameters of any type."""
    return len(f"{db}{tenant}{city}")


def asks_in_a_thread(ctx: Context) -> None:
    """The same without `await`."""
    assert_type(ctx.sync.elicit("Which?", City), Answer[City])
    assert_type(ctx.sync.elicit("Which?", {"type": "object"}), Answer[dict[str, Any]])
    assert_type(ctx.sync.elicit("Which?", Size), Answer[Size])
    assert_type(ctx.sync.once("order", lambda: 7), int)
