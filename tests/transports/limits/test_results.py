"""Limits of the arguments and the result of a call: at the bound and just above."""

from __future__ import annotations

import asyncio
import copy
import itertools
import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel, model_validator

from mcpkit import Context, LogHandler, Server
from mcpkit.calls.reports import BURST, MOST_UNREAD, MOST_WAITING
from mcpkit.common.errors import ArgumentsError
from mcpkit.components.completion import MOST, MOST_COUNTED
from mcpkit.content.lazy import MOST_ITEMS
from mcpkit.content.plain import DEEPEST
from mcpkit.engine.methods import _MAX_URI_LENGTH
from mcpkit.middlewares import SizeLimit
from mcpkit.schema.backtracking import MOST_LONG
from mcpkit.schema.problems import MOST_PROBLEMS
from mcpkit.schema.recursion import _MOST_TRIES
from mcpkit.schema.values import MOST_COLLISIONS
from mcpkit.testing import connect
from tests.helpers.log_records import author_log, calling
from tests.transports.limits.conftest import Outcome, Wire, limit, limit_client, peak

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


# Arguments


@limit("URI that is read")
@pytest.mark.parametrize("excess", [0, 1])
async def test_uri_above_limit_is_invalid_params(excess: int, server: Server) -> None:
    server.resource("it://{name}", name="it")(lambda name: "read")
    async with limit_client(server) as client:
        uri = "it://" + "a" * (_MAX_URI_LENGTH - 5 + excess)
        result = await client.request("resources/read", {"uri": uri})
        if excess:
            assert isinstance(result, Outcome)
            result.check_error(-32602, "uri: expected at most 8,192 characters")
        else:
            assert isinstance(result, dict)
            assert result["contents"][0]["text"] == "read"


@limit("problems of arguments that are told")
@pytest.mark.parametrize(
    "count", sorted({ArgumentsError.MOST, ArgumentsError.MOST + 1, MOST_PROBLEMS, MOST_PROBLEMS + 1})
)
async def test_argument_problems_above_limit_are_counted(count: int, server: Server) -> None:
    @server.tool
    async def add_up(numbers: list[int]) -> int:
        return sum(numbers)

    async with limit_client(server) as client:
        result = await client.call("add_up", {"numbers": ["x"] * count})
        result.check_error(None, "numbers[0]: expected an integer")
        first, found = min(count, ArgumentsError.MOST), min(count, MOST_PROBLEMS)
        lines = result.text.splitlines()
        assert len([line for line in lines if line.startswith("numbers[")]) == first
        assert lines[first:] == ([f"and {found - first} more"] if found > first else [])


@limit("steps of a pattern that looks around or refers back")
@pytest.mark.parametrize("count", [MOST_LONG, MOST_LONG + 1])
async def test_pattern_steps_above_limit_fail_validation(count: int, server: Server) -> None:
    text = {"type": "string", "pattern": "^(?:(?=a)a+)+$|^a*b$"}

    @server.tool(input_schema={"type": "object", "properties": {"texts": {"type": "array", "items": text}}})
    async def match(arguments: dict[str, Any]) -> str:
        return "valid"

    async with limit_client(server) as client:
        # Each text takes some 4,000 steps, more than its length allows.
        result = await client.call("match", {"texts": ["a" * 12 + "b"] * count})
        if count == MOST_LONG:
            assert result.text == "valid"
        else:
            result.check_error(None, "expected a string that matches")
        too_long = await client.call("match", {"texts": ["a" * 40 + "b"]})
        too_long.check_error(None, "expected a string that matches")


class Copied(BaseModel):
    @model_validator(mode="before")
    @classmethod
    def copy_it(cls, value: Any) -> Any:
        return copy.deepcopy(value)


class First(Copied):
    inner: First | Second | int


class Second(Copied):
    inner: First | Second | int
    more: int = 0


@limit("tries of the choices of a union that contains itself")
@pytest.mark.parametrize("depth", [12, 13])
async def test_recursive_union_above_limit_fails_validation(depth: int, server: Server) -> None:
    @server.tool
    async def take(value: First | Second | int) -> str:
        return "valid"

    def nested(leaf: Any, **more: int) -> Any:
        for _ in range(depth):
            leaf = {"inner": leaf, **more}
        return leaf

    async with limit_client(server) as client:
        assert (await client.call("take", {"value": nested(1)})).text == "valid"
        result = await client.call("take", {"value": nested(1, more=1)})  # tries both types at each level
        if 2**depth <= _MOST_TRIES:
            assert result.text == "valid"
        else:
            result.check_error(None, "expected a value that can be read in fewer tries")
        (await client.call("take", {"value": nested("wrong")})).check_error(None, "expected ")


@limit("values of one hash")
@pytest.mark.parametrize("count", [MOST_COLLISIONS, MOST_COLLISIONS + 1])
async def test_colliding_hashes_above_limit_fail_validation(count: int, server: Server) -> None:
    @server.tool
    async def numbers(numbers: set[int]) -> int:
        return len(numbers)

    @server.tool
    async def places(places: dict[int, str]) -> int:
        return len(places)

    values = [number * sys.hash_info.modulus for number in range(count)]
    async with limit_client(server) as client:
        for name, value in (("numbers", values), ("places", {str(each): "" for each in values})):
            result = await client.call(name, {name: value})
            if count <= MOST_COLLISIONS:
                assert result.text == str(count)
            else:
                result.check_error(None, "expected at most 100 values that have the same hash in Python")


@limit("values that complete an argument")
@limit("time of a completion")
@pytest.mark.parametrize("count", [MOST, MOST + 1, MOST_COUNTED, MOST_COUNTED + 1])
async def test_completion_values_above_limit_are_cut(count: int, server: Server) -> None:
    values = itertools.count()

    @server.prompt(complete={"city": lambda value: (str(next(values)) for _ in range(count))})
    async def plan(city: str) -> str:
        return city

    async with limit_client(server) as client:
        params = {"ref": {"type": "ref/prompt", "name": "plan"}, "argument": {"name": "city", "value": ""}}
        result = await client.request("completion/complete", params)
        assert isinstance(result, dict)
        found = result["completion"]
        assert len(found["values"]) == min(count, MOST)
        assert found["hasMore"] == (count > MOST)
        assert found.get("total") == (count if count <= MOST_COUNTED else None)
        assert next(values) == min(count, MOST_COUNTED + 1), "an endless iterator is not read to its end"


@limit("page of a list")
@pytest.mark.parametrize("count", [2, 3])
async def test_list_above_page_size_has_next_cursor(count: int) -> None:
    server = Server("paged", page_size=2)
    for number in range(count):
        server.tool(lambda: "", name=f"tool_{number}")
    async with connect(server) as client:
        page = await client.request("tools/list")
        assert (len(page["tools"]), "nextCursor" in page) == (2, count > 2)


# Results


@limit("items of an iterator")
@pytest.mark.parametrize("count", [MOST_ITEMS, MOST_ITEMS + 1, None])
async def test_iterator_above_limit_fails_and_is_closed(count: int | None, server: Server) -> None:
    closed = []

    @server.tool(structured=False)
    def numbers() -> Iterator[int]:
        try:
            yield from itertools.repeat(7) if count is None else itertools.repeat(7, count)
        finally:
            closed.append(True)

    async with limit_client(server) as client:
        result = await client.call("numbers")
        if count == MOST_ITEMS:
            assert not result.is_error
        else:
            result.check_error(None, "a generator of more than 100,000 items; is it endless?")
        assert closed


def nest(levels: int, container: str) -> Any:
    value: Any = {} if container == "dict" else []
    for _ in range(levels - 1):
        value = {"a": value} if container == "dict" else [value]
    return value


RESULTS: dict[str, tuple[Any, str | None]] = {
    "lists": (nest(DEEPEST, "list"), None),
    "one list more": (nest(DEEPEST + 1, "list"), "more than 190 levels of arrays and objects"),
    "dicts": (nest(DEEPEST, "dict"), None),
    "one dict more": (nest(DEEPEST + 1, "dict"), "more than 190 levels of arrays and objects"),
    "integer": (2**1024 - 1, None),
    "integer above": (2**1024, "an integer of 1,025 bits, which few can read; return a string"),
    "negative integer": (1 - 2**1024, None),
    "negative integer below": (-(2**1024), "an integer of 1,025 bits, which few can read; return a string"),
}


@limit("nesting of a result")
@limit("integer in a result")
@pytest.mark.parametrize(("value", "error"), RESULTS.values(), ids=RESULTS)
async def test_result_above_limit_is_an_error(value: Any, error: str | None, server: Server) -> None:
    @server.tool
    async def give() -> Any:
        return value

    async with limit_client(server) as client:
        result = await client.call("give")
        if error is None:
            assert json.loads(result.text) == value
        else:
            result.check_error(None, error)
            assert "the tool ran" in result.text


@limit("size of a tool's result")
@pytest.mark.parametrize("excess", [0, 1])
async def test_result_size_above_limit_is_an_error(excess: int) -> None:
    sizes: list[int] = []
    text = ["x"]

    class Measured(SizeLimit):
        async def __call__(self, request: Any, call_next: Any) -> Any:
            result = await call_next(request)
            if request.method == "tools/call":
                sizes.append(len(result.rendered()))
            return result

    def make(middleware: SizeLimit) -> Server:
        server = Server("limited")
        server.middleware(middleware)
        server.tool(lambda: text[0], name="repeat", structured=False)
        return server

    async with limit_client(make(Measured(1))) as client:
        await client.call("repeat")
    text[0] += "x" * (1000 + excess - sizes[0])
    async with limit_client(make(SizeLimit(1000))) as client:
        result = await client.call("repeat")
        if excess:
            result.check_error(None, "The result is too large: 1,001 bytes, of at most 1,000")
        else:
            assert result.text == text[0]


@limit("progress of a call")
@pytest.mark.parametrize("count", [BURST, BURST + 1])
async def test_progress_above_burst_sends_latest_before_response(
    count: int, server: Server, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    @server.tool
    async def work(ctx: Context) -> str:
        for done in range(count):
            await ctx.progress(done + 1)
        return "done"

    async with wire(server) as pipe:
        loop = asyncio.get_running_loop()
        instants = itertools.count(loop.time(), 1e-7)
        with monkeypatch.context() as patch:
            patch.setattr(loop, "time", lambda: next(instants))  # it nearly stands still
            pipe.start("tools/call", {"name": "work"}, progressToken="p")
            *notifications, _ = await pipe.answered()
        assert [each["params"]["progress"] for each in notifications] == list(range(1, count + 1))


@limit("log records that wait for a client")
@pytest.mark.parametrize("part", [0.9, 1.1, 5])
async def test_log_backlog_above_limit_drops_records(part: float, caplog: pytest.LogCaptureFixture) -> None:
    server = Server("logging", offers={"logging"})
    line = "x" * 1000
    count = int(part * MOST_WAITING / len(line))
    with author_log(LogHandler()) as log:

        @server.tool
        async def write() -> str:
            for _ in range(count):
                log.info(line)
            return "written"

        async with calling(server, "write", ready=asyncio.Event().wait) as (connection, sent):
            with peak() as allocated:
                await connection.drain()
                assert part < 5 or allocated() < 4 * count * len(line)  # caplog keeps the records
    assert b"written" in sent[-1]
    assert sum(map(len, sent)) < MOST_WAITING + MOST_UNREAD + 3 * len(line)
    dropped = [record.getMessage() for record in caplog.records if "dropped" in record.getMessage()]
    if part < 1:
        assert (dropped, len(sent)) == ([], count + 1)
    else:
        assert [each.split()[0] for each in dropped] == [str(count - (len(sent) - 1))]
