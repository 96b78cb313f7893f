"""Mappings and sequences of an author's own class: whoever goes through them runs the author's code."""

# Without `from __future__ import annotations`: the annotations name what is local to a test, which strings cannot.
import asyncio
import json
import threading
from collections import ChainMap, OrderedDict, UserDict, UserList, deque
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from itertools import count
from types import MappingProxyType
from typing import Any, Generic, TypeVar

import pytest
from pydantic_core import ValidationError

from mcpkit import Server
from mcpkit.common.errors import OutputError
from mcpkit.content.lazy import MOST_ITEMS, LeaveLoop, is_held
from mcpkit.schema import from_schema
from mcpkit.schema.output import Output
from mcpkit.testing import connect
from tests.helpers.waiting import LoopClock, until

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


async def test_it_ends_with_the_time_of_its_call() -> None:
    server = Server("s", timeout=600)
    given: list[int] = []
    go_on = threading.Semaphore(0)

    def waiting() -> Iterator[str]:
        for number in count():
            given.append(number)
            yield str(number)
            go_on.acquire(timeout=10)

    @server.tool
    async def tool() -> Any:
        return OwnMapping(waiting())

    async with connect(server) as client:
        call = asyncio.ensure_future(client.call("tool"))
        await until(lambda: given)
        LoopClock().ahead = 600
        assert "timed out after 600 s" in (await call).text
        assert server.engine.runtime.threads.given_up == 1
        go_on.release()
        await until(lambda: server.engine.runtime.threads.given_up == 0)
    assert len(given) == 2


async def test_one_that_knows_its_length_may_be_longer(server: Server) -> None:
    @server.tool
    async def tool() -> Any:
        return OwnSequence(range(MOST_ITEMS + 1), MOST_ITEMS + 1)

    async with connect(server) as client:
        assert json.loads((await client.call("tool")).text) == list(range(MOST_ITEMS + 1))


async def test_what_is_no_result_is_gone_through_where_it_is(server: Server) -> None:
    @server.tool
    async def tool(options: Mapping[str, int] = OwnMapping(["1"], 1)) -> str:
        return str(dict(options))

    async with connect(server) as client:
        (tool_listed,) = await client.list_tools()
        assert tool_listed["inputSchema"]["properties"]["options"]["default"] == {"1": 1}


@pytest.mark.parametrize(
    "value",
    [
        {}, [], (), set(), deque(), frozenset(), range(3), {}.keys(), {}.values(), {}.items(), UserDict(), UserList(),
        OrderedDict(), OrderedDict().items(), ChainMap(), MappingProxyType({}), type("Named", (dict,), {})(),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
async def test_what_holds_its_items_does_not_leave_the_loop(value: Any) -> None:
    assert is_held(type(value))


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (list[int], [float("nan")] * 1000),
        (list[dict[str, int]], [{"a": "x"}] * 1000),
        (dict[str, int], {str(number): "x" for number in range(1000)}),
    ],
)
async def test_what_does_not_fit_is_explained_out_of_the_loop(annotation: Any, value: Any) -> None:
    output = Output.of(annotation)
    assert output is not None
    with pytest.raises(LeaveLoop):
        output.dump(value)
    with pytest.raises(OutputError):
        await asyncio.get_running_loop().run_in_executor(None, output.dump, value)


@pytest.mark.parametrize("annotation", [list[int], dict[str, int], list[list[int]]])
async def test_the_check_of_a_result_ends_at_the_first_that_does_not_fit(annotation: Any) -> None:
    output = Output.of(annotation)
    assert output is not None
    items: Any = ["x"] * 1000
    value: Any = (
        {str(index): item for index, item in enumerate(items)} if annotation == dict[str, int] else items
    )
    with pytest.raises(ValidationError) as caught:
        from_schema.validator(output.schema).validate_python(value)
    assert caught.value.error_count() <= 2  # for each choice of a number
