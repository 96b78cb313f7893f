"""SystemExit, GeneratorExit and KeyboardInterrupt that a function raises end its call alone, wherever it runs."""

# Without `from __future__ import annotations`: the annotations name what is local to a test, which strings cannot.
import asyncio
from typing import Any

import pytest

from mcpkit import ProtocolError, Server
from mcpkit.testing import connect
from tests.helpers import process_work as work
from tests.helpers.exits import failing, functions, unretrieved

__all__ = ["unretrieved"]

pytestmark = [pytest.mark.anyio, pytest.mark.long]

ERAS = pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])

NAMES = list(functions(lambda: None))
FAILURES: list[Any] = [
    *((name, error) for name in NAMES for error in (SystemExit, GeneratorExit)),
    *((name, KeyboardInterrupt) for name in NAMES if name.startswith("thread")),
]


@ERAS
@pytest.mark.parametrize(("name", "error"), FAILURES)
async def test_it_ends_its_call_alone(
    name: str, error: type[BaseException], revision: str, unretrieved: list[dict[str, Any]]
) -> None:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: unretrieved.append(context))
    async with connect(failing(name, error), revision=revision) as client:
        result = await client.call("fail")
        assert result.is_error
        assert result.text.startswith("Internal error (ref ")
        for ask in (client.read("data://fail"), client.get_prompt("fail")):
            with pytest.raises(ProtocolError, match=r"Internal error \(ref ") as caught:
                await ask
            assert caught.value.code == -32603
        assert (await client.call("well")).text == "well"


@pytest.mark.parametrize("error", [SystemExit, GeneratorExit])
async def test_a_middleware_or_a_completer_that_raises_it_is_answered(error: type[BaseException]) -> None:
    server = Server("s")

    async def fail(*_: Any) -> Any:
        raise error

    @server.prompt(complete={"a": fail})
    async def asked(a: str) -> str:
        return a

    server.middleware("prompts/list")(fail)
    async with connect(server) as client:
        with pytest.raises(ProtocolError, match="Internal error"):
            await client.list_prompts()
        with pytest.raises(ProtocolError, match="Internal error"):
            await client.complete("asked", "a", "x")
        assert (await client.get_prompt("asked", {"a": "well"}))[0]["content"]["text"] == "well"


async def test_it_ends_no_worker_process() -> None:
    server = Server("s", processes=1)
    server.tool(process=True)(work.fail)
    server.tool(process=True)(work.where)
    async with connect(server) as client:
        place = (await client.call("where")).structured
        for how in ("exit", "interrupt", "stop", "close"):
            assert (await client.call("fail", {"how": how})).text.startswith("Internal error (ref ")
        assert (await client.call("where")).structured == place
