"""Completion of the arguments of prompts (templates are in test_resources)."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Iterator
from enum import Enum, IntEnum
from typing import Annotated, Any, Literal

import pytest

from mcpkit import Complete, ProtocolError, RegistrationError, Server, current_context
from mcpkit.testing import Client, connect

pytestmark = pytest.mark.anyio


@pytest.fixture
def server() -> Server:
    return Server("s")


async def complete(client: Client, argument: str, value: str, **arguments: str) -> dict[str, Any]:
    params: dict[str, Any] = {
        "ref": {"type": "ref/prompt", "name": "plan"},
        "argument": {"name": argument, "value": value},
    }
    if arguments:
        params["context"] = {"arguments": arguments}
    return (await client.request("completion/complete", params))["completion"]


class Unit(Enum):
    CELSIUS = "celsius"
    FAHRENHEIT = "fahrenheit"


async def cities(value: str, arguments: dict[str, str]) -> list[str]:
    return [f"{arguments['country']}-{value}"]


class Size(IntEnum):
    SMALL = 1
    BIG = 12


async def test_choices_complete_with_no_code(server: Server) -> None:
    @server.prompt
    def plan(
        unit: Unit,
        size: Size,
        kind: Literal["short", "long"] | None = None,
        exact: Annotated[Literal[True, False], "exactly"] = True,
    ) -> str:
        return ""

    async with connect(server) as client:
        assert (await complete(client, "unit", ""))["values"] == ["celsius", "fahrenheit"]
        assert (await complete(client, "unit", "F"))["values"] == ["fahrenheit"]
        assert (await complete(client, "size", "1"))["values"] == ["1", "12"]
        assert (await complete(client, "kind", "lo"))["values"] == ["long"]
        assert (await complete(client, "exact", "t"))["values"] == ["true"]
        assert (await complete(client, "kind", "x")) == {"values": [], "total": 0, "hasMore": False}


async def test_what_begins_with_the_text_comes_before_what_contains_it(server: Server) -> None:
    server.prompt(lambda city: "", name="plan", complete={"city": ["New York", "York", "Rome"]})
    async with connect(server) as client:
        assert (await complete(client, "city", "yo"))["values"] == ["York", "New York"]


async def test_a_function_gets_the_text_and_the_other_arguments(server: Server) -> None:
    @server.prompt
    def plan(country: str, city: Annotated[str, Complete(cities)]) -> str:
        return ""

    async with connect(server) as client:
        assert (await complete(client, "city", "ro", country="it"))["values"] == ["it-ro"]


async def test_a_function_that_is_not_async_runs_in_a_thread(server: Server) -> None:
    def cities(value: str) -> list[str]:
        return [str(threading.current_thread() is threading.main_thread()), current_context().method]

    server.prompt(lambda city: "", name="plan", complete={"city": cities})
    async with connect(server) as client:
        assert (await complete(client, "city", ""))["values"] == ["False", "completion/complete"]


@pytest.mark.parametrize(
    ("count", "has_more"), [(0, False), (99, False), (100, False), (101, True), (5000, True)]
)
async def test_at_most_100_values_are_sent(server: Server, count: int, has_more: bool) -> None:
    server.prompt(
        lambda n: "", name="plan", complete={"n": lambda value: (str(number) for number in range(count))}
    )
    async with connect(server) as client:
        completion = await complete(client, "n", "")
        assert completion["values"] == [str(number) for number in range(min(count, 100))]
        assert completion["total"] == count
        assert completion["hasMore"] is has_more


async def test_values_that_are_no_text_are_told_as_text(server: Server) -> None:
    server.prompt(lambda x: "", name="plan", complete={"x": lambda value: [1, True, Unit.CELSIUS]})
    async with connect(server) as client:
        assert (await complete(client, "x", ""))["values"] == ["1", "true", "celsius"]


async def test_an_argument_that_nobody_completes_has_no_values(server: Server) -> None:
    server.prompt(lambda city, day: "", name="plan", complete={"city": ["Rome"]})
    async with connect(server) as client:
        assert await complete(client, "day", "") == {"values": [], "total": 0, "hasMore": False}


@pytest.mark.parametrize("completer", [5, "abc", lambda value, arguments, third: []])
def test_what_cannot_complete_is_refused(server: Server, completer: Any) -> None:
    with pytest.raises(RegistrationError, match=r"argument 'city': .*complete"):

        @server.prompt(complete={"city": completer})
        def plan(city: str) -> str:
            return city


def test_what_cannot_complete_is_refused_in_an_annotation_too(server: Server) -> None:
    with pytest.raises(RegistrationError, match=r"argument 'city': .*complete"):

        @server.prompt
        def plan(city: Annotated[str, Complete("Oslo")]) -> str:
            return city


@pytest.mark.parametrize("values", [None, "Oslo"])
async def test_a_function_that_returns_no_list_is_an_error(
    server: Server, caplog: pytest.LogCaptureFixture, values: Any
) -> None:
    @server.prompt(complete={"city": lambda value: values})
    def plan(city: str) -> str:
        return city

    async with connect(server) as client:
        with pytest.raises(ProtocolError, match="Internal error"):
            await complete(client, "city", "")
    (record,) = caplog.records
    assert "'ref/prompt'" in record.getMessage()
    assert record.exc_info
    assert "returns a list of strings" in str(record.exc_info[1])


def test_completing_an_argument_that_does_not_exist_is_refused(server: Server) -> None:
    with pytest.raises(RegistrationError, match=r"'town'.*city"):
        server.prompt(lambda city: "", name="plan", complete={"town": ["Rome"]})


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"ref": {}},
        {"ref": {"type": "ref/prompt"}},
        {"ref": {"type": "ref/prompt", "name": "unheard"}},
        {"ref": {"type": "ref/resource", "uri": "data://unheard/{x}"}},
        {"ref": {"type": "ref/tool", "name": "plan"}},
        {"ref": {"type": "ref/prompt", "name": "plan"}, "argument": {"name": "town", "value": ""}},
        {"ref": {"type": "ref/prompt", "name": "plan"}, "argument": {"name": "city"}},
        {"ref": {"type": "ref/prompt", "name": "plan"}, "argument": {"name": "city", "value": 3}},
        {"ref": {"type": "ref/prompt", "name": "plan"}, "argument": []},
        {"context": []},
        {"context": {"arguments": {"x": 3}}},
        {"context": {"arguments": []}},
    ],
)
async def test_malformed_requests_are_invalid_params(server: Server, params: dict[str, Any]) -> None:
    server.prompt(lambda city: "", name="plan", complete={"city": ["Rome"]})
    given: dict[str, Any] = {"argument": {"name": "city", "value": ""}}
    if "context" in params:
        given["ref"] = {"type": "ref/prompt", "name": "plan"}
    async with connect(server) as client:
        with pytest.raises(ProtocolError) as caught:
            await client.request("completion/complete", given | params)
        assert caught.value.code == -32602


async def test_the_capability_is_declared_when_something_completes(server: Server) -> None:
    server.prompt(lambda city: "", name="plain")
    async with connect(server) as client:
        assert "completions" not in client.server_capabilities
    server.prompt(lambda city: "", name="plan", complete={"city": ["Rome"]})
    async with connect(server) as client:
        assert client.server_capabilities["completions"] == {}


async def test_a_completion_can_be_cancelled(server: Server) -> None:
    started, ended = asyncio.Event(), asyncio.Event()

    async def slow(value: str) -> list[str]:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return []

    server.prompt(lambda city: "", name="plan", complete={"city": slow})
    async with connect(server) as client:
        request = asyncio.ensure_future(complete(client, "city", ""))
        await started.wait()
        request.cancel()
        await asyncio.wait_for(ended.wait(), 10)


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize("timeout", [0.01, None], ids=["of the server", "of its own"])
@pytest.mark.parametrize("is_async", [True, False], ids=["async", "in a thread"])
async def test_a_completion_has_a_time_limit(
    monkeypatch: pytest.MonkeyPatch, revision: str, timeout: float | None, is_async: bool
) -> None:
    monkeypatch.setattr("mcpkit.components.completion.TIMEOUT", 0.01)
    server = Server("slow", timeout=timeout)
    released = threading.Event()

    async def never(value: str) -> list[str]:
        await asyncio.Event().wait()
        return []

    def block(value: str) -> list[str]:
        released.wait(30)
        return []

    @server.prompt(complete={"word": never if is_async else block})
    async def say(word: str) -> str:
        return word

    params = {"ref": {"type": "ref/prompt", "name": "say"}, "argument": {"name": "word", "value": ""}}
    async with connect(server, revision=revision) as client:
        with pytest.raises(ProtocolError, match=r"timed out after 0\.01 s"):
            await client.request("completion/complete", params)
        released.set()


async def test_values_may_be_generated_where_the_function_runs_and_without_end() -> None:
    server = Server("endless")
    threads: set[int] = set()

    def numbers(value: str) -> Iterator[int]:
        for number in itertools.count():
            threads.add(threading.get_ident())
            yield number

    @server.prompt(complete={"number": numbers})
    async def count(number: int) -> str:
        return str(number)

    params = {"ref": {"type": "ref/prompt", "name": "count"}, "argument": {"name": "number", "value": ""}}
    async with connect(server) as client:
        completion = (await client.request("completion/complete", params))["completion"]
    assert completion == {"values": [str(number) for number in range(100)], "hasMore": True}
    assert threading.get_ident() not in threads
