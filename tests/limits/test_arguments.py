"""Bounds of what a request asks for: its arguments, what it names, and what a client carries between rounds."""

from __future__ import annotations

import asyncio
import copy
import itertools
import sys
from typing import Any

import pytest
from pydantic import BaseModel, model_validator

from mcpkit import Context, ProtocolError, Server
from mcpkit.calls.asking.multi_round import _MAX_ANSWERS, MAX_STATE
from mcpkit.common.errors import ArgumentsError
from mcpkit.components import completion as completions
from mcpkit.components.completion import MOST, MOST_COUNTED
from mcpkit.engine.methods import _MAX_URI_LENGTH
from mcpkit.schema.backtracking import MOST_LONG
from mcpkit.schema.problems import MOST_PROBLEMS
from mcpkit.schema.recursion import _MOST_TRIES
from mcpkit.schema.values import MOST_COLLISIONS
from mcpkit.testing import connect
from tests.limits.conftest import Ask
from tests.limits.ways import around, asking, limit

pytestmark = [pytest.mark.anyio, pytest.mark.long]


@limit("URI that is read")
@pytest.mark.parametrize("length", around(_MAX_URI_LENGTH))
async def test_uri(length: int, server: Server, ask: Ask) -> None:
    @server.resource("it://{name}")
    async def read(name: str) -> str:
        return "read"

    async with ask(server) as client:
        answer = await client.ask("resources/read", {"uri": "it://" + "a" * (length - 5)})
        if length <= _MAX_URI_LENGTH:
            assert answer.message["result"]["contents"][0]["text"] == "read"
        else:
            answer.refused(-32602, "uri: expected at most 8,192 characters")
        await client.goes_on()


@limit("problems of arguments that are told")
@pytest.mark.parametrize("count", sorted({*around(ArgumentsError.MOST), *around(MOST_PROBLEMS)}))
async def test_problems(count: int, server: Server, ask: Ask) -> None:
    @server.tool
    async def add(numbers: list[int]) -> int:
        return sum(numbers)

    @server.prompt
    async def plan(numbers: list[int]) -> str:
        return "plan"

    async with ask(server) as client:
        answer = await client.call("add", {"numbers": ["x"] * count})
        answer.refused(None, "numbers[0]: expected an integer")
        first, found = min(count, ArgumentsError.MOST), min(count, MOST_PROBLEMS)
        lines = answer.text.splitlines()
        assert len([line for line in lines if line.startswith("numbers[")]) == first
        assert lines[first:] == ([f"and {found - first} more"] if found > first else [])
        await client.goes_on()


@limit("steps of a pattern that looks around or refers back")
@pytest.mark.parametrize("count", around(MOST_LONG))
async def test_texts_that_take_long(count: int, server: Server, ask: Ask) -> None:
    text = {"type": "string", "pattern": "^(?:(?=a)a+)+$|^a*b$"}

    @server.tool(input_schema={"type": "object", "properties": {"texts": {"type": "array", "items": text}}})
    async def written(arguments: dict[str, Any]) -> str:
        return "fits"

    async with ask(server) as client:
        # Each takes some 4,000 steps, which are more than its length allows.
        answer = await client.call("written", {"texts": ["a" * 12 + "b"] * count})
        if count <= MOST_LONG:
            assert answer.text == "fits"
        else:
            answer.refused(None, "expected a string that matches")
        assert (await client.call("written", {"texts": ["a" * 12 + "b"]})).text == "fits"
        (await client.call("written", {"texts": ["a" * 40 + "b"]})).refused(
            None, "expected a string that matches"
        )
        await client.goes_on()


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


@pytest.mark.long
@limit("tries of the choices of a union that contains itself")
@pytest.mark.parametrize("depth", [1, 8, 12, 13, 14, 20, 60])
async def test_tries(depth: int, server: Server, ask: Ask) -> None:
    @server.tool
    async def take(value: First | Second | int) -> str:
        return "fits"

    def nested(leaf: Any, **more: int) -> Any:
        for _ in range(depth):
            leaf = {"inner": leaf, **more}
        return leaf

    async with ask(server) as client:
        assert (await client.call("take", {"value": nested(1)})).text == "fits"
        answer = await client.call(
            "take", {"value": nested(1, more=1)}
        )  # both choices are tried at each level
        if 2**depth <= _MOST_TRIES:
            assert answer.text == "fits"
        else:
            answer.refused(None, "expected a value that can be read in fewer tries")
        (await client.call("take", {"value": nested("wrong")})).refused(None, "expected ")
        await client.goes_on()


@limit("values of one hash")
@pytest.mark.parametrize("count", around(MOST_COLLISIONS))
async def test_hashes(count: int, server: Server, ask: Ask) -> None:
    @server.tool
    async def take(numbers: set[int]) -> int:
        return len(numbers)

    @server.tool
    async def look(places: dict[int, str]) -> int:
        return len(places)

    alike = [number * sys.hash_info.modulus for number in range(count)]
    async with ask(server) as client:
        for name, value in (
            ("take", {"numbers": alike}),
            ("look", {"places": {str(each): "" for each in alike}}),
        ):
            answer = await client.call(name, value)
            if count <= MOST_COLLISIONS:
                assert answer.text == str(count)
            else:
                answer.refused(None, "expected at most 100 values that have the same hash in Python")
        await client.goes_on()


def asking_server() -> Server:
    server = Server("asking", secret="a secret of sixteen bytes")

    @server.tool
    async def book(ctx: Context, size: int = 0) -> str:
        await ctx.once("kept", lambda: "x" * size)
        first = await ctx.elicit("First?", str, key="first")
        second = await ctx.elicit("Second?", str, key="second")
        return f"{first} {second}" if size == 0 else "booked"

    return server


def said(value: str) -> dict[str, Any]:
    return {"action": "accept", "content": {"value": value}}


META = {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}}}


@limit("`requestState` that a client brings")
@pytest.mark.parametrize("length", around(MAX_STATE))
async def test_state_that_comes(length: int, schema_dir: Any) -> None:
    for way in ("a pipe, stateless", "HTTP, stateless"):
        async with asking(way, asking_server(), schema_dir) as client:
            params = {"name": "book", "arguments": {}, "requestState": "A" * length}
            answer = await client.ask("tools/call", params, **META)
            answer.refused(-32602, "it is none that this server has given", 400)
            await client.goes_on()


@limit("`requestState` that a client brings")
async def test_state_that_leaves() -> None:
    async with connect(asking_server(), capabilities={"elicitation": {}}) as client:

        async def book(size: int, **params: Any) -> dict[str, Any]:
            named = {"name": "book", "arguments": {"size": size}}
            result: dict[str, Any] = await client.request("tools/call", named | params)
            return result

        async def is_refused(size: int) -> bool:
            with pytest.raises(ProtocolError, match="Internal error") as error:
                await book(size)
            return error.value.code == -32603 and len(error.value.message) < 100

        room = (MAX_STATE - len((await book(8000))["requestState"])) // 4 * 3 + 8000
        slack = 12  # bytes by which states of one size differ, as the time in them is a number
        state = (await book(room - slack))["requestState"]
        assert MAX_STATE - 3 * slack <= len(state) <= MAX_STATE
        assert await is_refused(room + slack)
        answers = {"first": said("a"), "second": said("b")}
        assert (await book(room - slack, requestState=state, inputResponses=answers))[
            "resultType"
        ] == "complete"
        assert await is_refused(2 * room)
        assert await is_refused(100 * room)
        assert await client.request("tools/list")


@limit("answers where more is asked")
@pytest.mark.parametrize("excess", [-1, 0, 1, _MAX_ANSWERS, 99 * _MAX_ANSWERS])
async def test_answers(excess: int) -> None:
    overhead = len('{"first":["0123456789abcdef",{"action":"accept","content":{"value":""}}]}')
    async with connect(asking_server(), capabilities={"elicitation": {}}) as client:
        responses = {"first": said("x" * (_MAX_ANSWERS - overhead + excess))}
        params = {"name": "book", "arguments": {}, "inputResponses": responses}
        if excess <= 0:
            assert (await client.request("tools/call", params))["resultType"] == "input_required"
        else:
            with pytest.raises(ProtocolError, match="at most 8,192 bytes where more is asked") as error:
                await client.request("tools/call", params)
            assert error.value.code == -32602
        assert await client.request("tools/list")


@limit("values that complete an argument")
@pytest.mark.parametrize("count", sorted({*around(MOST), *around(MOST_COUNTED)}))
async def test_completion(count: int, server: Server, ask: Ask) -> None:
    taken = itertools.count()

    @server.prompt(complete={"city": lambda value: (str(next(taken)) for _ in range(count))})
    async def plan(city: str) -> str:
        return city

    async with ask(server) as client:
        params = {"ref": {"type": "ref/prompt", "name": "plan"}, "argument": {"name": "city", "value": ""}}
        found = (await client.ask("completion/complete", params)).message["result"]["completion"]
        assert len(found["values"]) == min(count, MOST)
        assert found["hasMore"] == (count > MOST)
        assert found.get("total") == (count if count <= MOST_COUNTED else None)
        assert next(taken) == min(count, MOST_COUNTED + 1), "no more is taken from what may have no end"
        await client.goes_on()


@limit("time of a completion")
@pytest.mark.parametrize("is_in_time", [True, False])
async def test_completion_time(
    is_in_time: bool, server: Server, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(completions, "TIMEOUT", 3600 if is_in_time else 0.05)

    async def cities(value: str) -> list[str]:
        if not is_in_time:
            await asyncio.Event().wait()
        return ["Paris"]

    @server.prompt(complete={"city": cities})
    async def plan(city: str) -> str:
        return city

    async with ask(server) as client:
        params = {"ref": {"type": "ref/prompt", "name": "plan"}, "argument": {"name": "city", "value": ""}}
        answer = await client.ask("completion/complete", params)
        if not is_in_time:
            answer.refused(-32603, "timed out after 0.05 s")
        else:
            assert answer.message["result"]["completion"]["values"] == ["Paris"]
        await client.goes_on()


@limit("page of a list")
@pytest.mark.parametrize("count", [1, 2, 3, 200])
@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_page(count: int, revision: str) -> None:
    server = Server("paged", page_size=2)
    for number in range(count):
        server.tool(_tool(), name=f"tool_{number}")
    async with connect(server, revision=revision) as client:
        page = await client.request("tools/list")
        assert len(page["tools"]) == min(count, 2)
        assert ("nextCursor" in page) == (count > 2)


def _tool() -> Any:
    async def tool() -> str:
        return ""

    return tool
