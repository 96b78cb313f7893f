"""The in-memory client gives up where the official clients do."""

from __future__ import annotations

from typing import Any

import pytest

from mcpkit import Context, ProtocolError, Server
from mcpkit.testing import connect

pytestmark = pytest.mark.anyio

server = Server("curious")


@server.tool
async def interview(count: int, ctx: Context) -> int:
    """Ask for one number after the other."""
    total = 0
    for number in range(count):
        total += (await ctx.elicit(f"Number {number}?", int)).value
    return total


def one(method: str, params: dict[str, Any]) -> dict[str, Any]:
    return {"action": "accept", "content": {"value": 1}}


async def test_ten_rounds_are_played() -> None:
    async with connect(server, answers=one) as client:
        assert (await client.call("interview", {"count": 10})).structured == 10


async def test_an_eleventh_round_is_an_error_that_says_what_to_do() -> None:
    async with connect(server, answers=one) as client:
        with pytest.raises(ProtocolError, match=r"in 10 rounds, and asks again: clients give up .* ctx\.ask"):
            await client.call("interview", {"count": 11})


async def test_a_session_has_no_rounds() -> None:
    async with connect(server, revision="2025-11-25", answers=one) as client:
        assert (await client.call("interview", {"count": 11})).structured == {"result": 11}
