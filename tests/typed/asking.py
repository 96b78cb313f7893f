"""What type checkers know of questions: `mypy --strict` and pyright read this; nothing runs it."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import Field
from typing_extensions import assert_type

from mcpkit import Ask, Context, FromHeader, FromState
from mcpkit.elicitation import (
    ElicitationResult,
    ElicitRequest,
    ListRootsRequest,
    Root,
    SamplingRequest,
    SamplingResult,
)

Size = Literal["small", "large"]


@dataclass
class City:
    name: str


async def asks(ctx: Context) -> None:
    """Answers have the type of what was asked for."""
    assert_type(await ctx.elicit("Which?", City), ElicitationResult[City])
    assert_type((await ctx.elicit("Sure?", bool)).value, bool)
    assert_type((await ctx.elicit("Which?", Literal["a", "b"])).value, Literal["a", "b"])
    assert_type((await ctx.elicit("Which?", list[Size])).value, "list[Size]")
    assert_type((await ctx.elicit("How many?", Annotated[int, Field(ge=1)])).value, int)
    assert_type(
        await ctx.elicit("Which?", {"type": "object", "properties": {}}), ElicitationResult[dict[str, Any]]
    )
    assert_type(ElicitRequest("Which?", {"type": "object", "properties": {}}), ElicitRequest[dict[str, Any]])
    city, sure, words = await ctx.ask(
        ElicitRequest("Which?", City),
        ElicitRequest("Sure?", bool),
        SamplingRequest("Hello", max_tokens=5, temperature=0.5),
    )
    assert_type(city, ElicitationResult[City])
    assert_type(sure, ElicitationResult[bool])
    assert_type(words, SamplingResult)
    sizes = await ctx.ask(
        ElicitRequest("Which?", Literal["small", "large"]),
        ElicitRequest("How many?", Annotated[int, Field(ge=1)]),
    )
    assert_type(sizes, tuple[ElicitationResult[Literal["small", "large"]], ElicitationResult[int]])
    (roots,) = await ctx.ask(ListRootsRequest())
    assert_type(roots, list[Root])
    await ctx.sample("Hello", max_tokens=5, tool_choice="always")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


async def order(what: str = "tea") -> int:
    return len(what)


async def nothing() -> None:
    pass


class Shop:
    async def order(self) -> list[str]:
        return ["tea"]


def returns_either() -> int | Awaitable[int]:
    return 7


async def runs_side_effects(ctx: Context, shop: Shop) -> None:
    """`once` returns what its function returns, awaited, for functions of every kind."""
    assert_type(await ctx.once("function", order), int)
    assert_type(await ctx.once("lambda", lambda: order("tea")), int)
    assert_type(await ctx.once("partial", partial(order, "tea")), int)
    assert_type(await ctx.once("method", shop.order), list[str])
    assert_type(await ctx.once("not async", lambda: 7), int)
    assert_type(await ctx.once("either", returns_either), int)
    stored: dict[str, int] = await ctx.once("dict", lambda: {"tea": 7})
    assert_type(stored, dict[str, int])
    await ctx.once("None", nothing)
    await ctx.once("takes an argument", len)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]


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
    assert_type(ctx.sync.elicit("Which?", City), ElicitationResult[City])
    assert_type(ctx.sync.elicit("Which?", {"type": "object"}), ElicitationResult[dict[str, Any]])
    assert_type(ctx.sync.elicit("Which?", Size), ElicitationResult[Size])
    assert_type(ctx.sync.once("order", lambda: 7), int)
