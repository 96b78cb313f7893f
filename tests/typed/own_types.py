"""What type checkers know of types of an author's own: `mypy --strict` and pyright read this; nothing runs it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from typing_extensions import TypedDict, Unpack, assert_type

from mcpkit import Server
from mcpkit.types import json_type

server = Server("author")


class Money:
    cents = 0


@json_type(schema=int, encode=lambda tag: tag.number, decode=lambda number: Tag(number))
class Tag:
    def __init__(self, number: int) -> None:
        self.number = number


class Options(TypedDict, total=False):
    city: str
    days: int


def parse(text: str) -> Money:
    return Money()


assert_type(json_type(Money, schema=str, encode=lambda money: str(money.cents), decode=parse), type[Money])
assert_type(Tag(1), Tag)
json_type(Money, schema=str, encode=len)  # type: ignore[arg-type]  # pyright: ignore[reportCallIssue, reportArgumentType]


@server.tool(output_schema={"type": "object"})
def travel(by: str, **options: Unpack[Options]) -> dict[str, Any]:
    return {"by": by, **options}


@server.tool(output_schema=list[int])
async def stream() -> AsyncIterator[Tag]:
    yield Tag(1)


assert_type(travel("bus", city="Rome"), dict[str, Any])
