"""Mappings and sequences of an author's own class: whoever goes through them runs the author's code."""

# Without `from __future__ import annotations`: the annotations name what is local to a test, which strings cannot.
import asyncio
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from itertools import count
from typing import Any, Generic, TypeVar

import pytest

from mcpkit import Server
from mcpkit.testing import connect

pytestmark = pytest.mark.anyio

T = TypeVar("T")


class Own(Collection[T], Generic[T]):
    """Goes through what it is given, and says a length that may be none of its own."""

    def __init__(self, items: Any, length: int = 1) -> None:
        self.items_given = items
        self.length = length
        self.threads: set[int] = set()

    def __iter__(self) -> Iterator[T]:
        self.threads.add(threading.get_ident())
        for item in self.items_given:
            self.threads.add(threading.get_ident())
            yield item

    def __len__(self) -> int:
        return self.length

    def __contains__(self, item: object) -> bool:
        return True


class OwnMapping(Own[str], Mapping[str, Any]):
    def __getitem__(self, key: str) -> int:
        return 1


class OwnSequence(Own[Any], Sequence[Any]):
    def __getitem__(self, index: Any) -> Any:
        return index


class OwnSet(Own[Any], Set[Any]):
    pass


class OwnList(list[Any]):
    def __iter__(self) -> Iterator[Any]:
        return count()


class OwnDict(dict[str, Any]):
    def items(self) -> Any:
        return ((str(number), 1) for number in count())


def names() -> Iterator[str]:
    return map(str, count())


@pytest.fixture
def server() -> Server:
    return Server("s")


ENDLESS = [
    lambda: OwnMapping(names()),
    lambda: OwnSequence(count()),
    lambda: OwnSet(count()),
    lambda: OwnMapping(names()).keys(),
    lambda: OwnMapping(names()).items(),
    lambda: OwnList(),
    lambda: OwnDict(),
]
PLACES: list[Any] = [lambda made: made, lambda made: [made], lambda made: {"a": (made,)}]


@pytest.mark.slow
@pytest.mark.parametrize("make", ENDLESS)
@pytest.mark.parametrize("place", PLACES)
async def test_what_goes_on_and_on_is_refused(make: Any, place: Any, server: Server) -> None:
    @server.tool
    async def tool() -> Any:
        return place(make())

    @server.tool
    async def typed() -> dict[str, int]:
        made: Any = place(make()) if type(make()) is not OwnDict else [make()]
        return made

    async with connect(server) as client:
        for name in ("tool", "typed"):
            result = await asyncio.wait_for(client.call(name), 60)
            assert result.is_error
            assert "100,000 items; is it endless?" in result.text


@pytest.mark.parametrize("kind", [OwnMapping, OwnSequence, OwnSet])
@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_it_is_gone_through_in_a_thread(kind: Any, revision: str, server: Server) -> None:
    made: list[Any] = []

    @server.tool
    async def tool() -> Any:
        made.append(kind(["1", "2"], 2))
        return made[-1]

    @server.tool
    async def model() -> Mapping[str, int]:
        made.append(kind(["1", "2"], 2))
        return {"a": 1} if kind is not OwnMapping else made[-1]

    @server.resource("a://b")
    async def resource() -> Any:
        made.append(kind(["1", "2"], 2))
        return made[-1]

    async with connect(server, revision=revision) as client:
        expected = '{"1":1,"2":1}' if kind is OwnMapping else '["1","2"]'
        assert (await client.call("tool")).text == expected
        assert (await client.call("model")).text in (expected, '{"a":1}')
        assert (await client.read("a://b"))[0]["text"] == expected
    for each in made:
        assert threading.get_ident() not in each.threads
