"""What type checkers know of questions: `mypy --strict` and pyright read this; nothing runs it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field
from typing_extensions import assert_type

from mcpkit import Answer, Context, Elicit, ListRoots, Root, Sample, Sampled


@dataclass
class City:
    name: str


async def asks(ctx: Context) -> None:
    """Answers have the type of what was asked for; what is no class has any."""
    assert_type(await ctx.elicit("Which?", City), Answer[City])
    assert_type((await ctx.elicit("Sure?", bool)).value, bool)
    assert_type((await ctx.elicit("Which?", Literal["a", "b"])).value, Any)
    assert_type((await ctx.elicit("How many?", Annotated[int, Field(ge=1)])).value, Any)
    city, sure, words = await ctx.ask(
        Elicit("Which?", City), Elicit("Sure?", bool), Sample("Hello", max_tokens=5, temperature=0.5)
    )
    assert_type(city, Answer[City])
    assert_type(sure, Answer[bool])
    assert_type(words, Sampled)
    (roots,) = await ctx.ask(ListRoots())
    assert_type(roots, list[Root])
    await ctx.sample("Hello", max_tokens=5, tool_choice="always")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def asks_in_a_thread(ctx: Context) -> None:
    """The same without `await`."""
    assert_type(ctx.sync.elicit("Which?", City), Answer[City])
    assert_type(ctx.sync.once("order", lambda: 7), int)
