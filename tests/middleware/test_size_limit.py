"""Results of tools that are too large are an error that a model can act on."""

from __future__ import annotations

import pytest

from mcpkit import Server
from mcpkit.middlewares import SizeLimit
from mcpkit.testing import connect

pytestmark = pytest.mark.anyio

EVERY = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]


def make(limit: SizeLimit) -> Server:
    server = Server("limited")
    server.middleware(limit)

    @server.tool(structured=False)
    async def repeat(times: int, word: str = "x") -> str:
        return word * times

    @server.tool(structured=False)
    async def everything() -> str:
        return "x" * 5000

    @server.resource("limited://large")
    async def large() -> str:
        return "x" * 5000

    return server


@pytest.mark.parametrize("revision", EVERY)
async def test_a_result_that_is_too_large_says_so_and_what_to_do(revision: str) -> None:
    async with connect(make(SizeLimit(2000)), revision=revision) as client:
        small = await client.call("repeat", {"times": 1000})
        large = await client.call("repeat", {"times": 10_000})
    assert (small.is_error, small.text) == (False, "x" * 1000)
    assert large.is_error
    assert large.text.startswith("The result is too large: 10,")
    assert large.text.endswith(" bytes, of at most 2,000. Ask for less, with its arguments: times, word")


async def test_the_whole_result_counts_to_the_byte() -> None:
    server = make(SizeLimit(10_000))
    async with connect(server, revision="2025-11-25") as client:
        frame = len(b'{"content":[{"type":"text","text":""}]}')
        assert not (await client.call("repeat", {"times": 10_000 - frame})).is_error
        refused = await client.call("repeat", {"times": 10_001 - frame})
    assert refused.text.startswith("The result is too large: 10,001 bytes, of at most 10,000. ")


async def test_other_results_pass() -> None:
    async with connect(make(SizeLimit(2000))) as client:
        assert len((await client.read("limited://large"))[0]["text"]) == 5000
