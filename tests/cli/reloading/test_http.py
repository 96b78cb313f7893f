"""Servers at a port are edited while their clients stay."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mcpkit import Client
from tests.helpers.serving import Served

pytestmark = pytest.mark.anyio

SOURCE = """
import asyncio, os
from mcpkit import Server
shop = Server("shop")

@shop.tool
def one() -> str:
    return "first"

@shop.tool
def end() -> None:
    os._exit(3)
"""


def command(file: Path) -> list[str]:
    return [sys.executable, "-m", "mcpkit", "run", str(file), "--http", "--port", "0", "--reload"]


async def test_a_session_lives_on_and_requests_wait(tmp_path: Path) -> None:
    file = tmp_path / "server.py"
    file.write_text(SOURCE)
    with Served(command(file)) as served:
        async with (
            Client(f"{served.origin}/mcp", revision="2025-11-25") as client,
            Client(f"{served.origin}/mcp") as stateless,
        ):
            both = (client, stateless)
            async with client.watch(tools=True) as changes:
                assert [await each.call("one", into=str) for each in both] == ["first", "first"]
                file.write_text(SOURCE.replace("first", "second").replace("def end", "def finish"))
                served.wait_for("server.py edited")
                changed = await anext(aiter(changes))
            assert "tools" in repr(changed)
            assert [each["name"] for each in await client.list_tools()] == ["one", "finish"]
            served.wait_for("restarted after")
            assert [await each.call("one", into=str) for each in both] == ["second", "second"]

            file.write_text("def broken(:\n")
            served.wait_for("restarted after", times=2)
            for each in both:
                result = await each.call("one")
                assert result.is_error
                assert "server.py:1: SyntaxError: invalid syntax" in result.text
            file.write_text(SOURCE)
            served.wait_for("restarted after", times=3)
            assert [await each.call("one", into=str) for each in both] == ["first", "first"]

            with pytest.raises(ConnectionError):
                await client.call("end")
            served.wait_for("the process has ended with status 3")
            assert "it has ended with status 3" in (await client.call("one")).text
            file.write_text(SOURCE.replace("first", "third"))
            served.wait_for("restarted after", times=4)
            assert [await each.call("one", into=str) for each in both] == ["third", "third"]
        served.stop()
