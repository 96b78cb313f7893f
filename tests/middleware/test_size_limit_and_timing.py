"""Size limits and timing: results that are too large are errors that a model can act on; requests are timed."""

from __future__ import annotations

import asyncio

import pytest

from mcpkit import ProtocolError, ResultOptions, Server
from mcpkit.middleware import RequestTiming, SizeLimit, Timing
from mcpkit.testing import connect

pytestmark = pytest.mark.anyio

REVISIONS = ["2025-11-25", "2026-07-28"]


def make(limit: SizeLimit) -> Server:
    server = Server("limited")
    server.middleware(limit)

    @server.tool(result=ResultOptions(structured=False))
    async def repeat(times: int, word: str = "x") -> str:
        return word * times

    @server.resource("limited://large")
    async def large() -> str:
        return "x" * 5000

    return server


@pytest.mark.parametrize("revision", REVISIONS)
async def test_result_above_the_size_limit_is_an_error_with_advice(revision: str) -> None:
    async with connect(make(SizeLimit(2000)), protocol_version=revision) as client:
        small = await client.call_tool("repeat", {"times": 1000})
        large = await client.call_tool("repeat", {"times": 10_000})
    assert (small.is_error, small.text) == (False, "x" * 1000)
    assert large.is_error
    assert large.text.startswith("The result is too large: it has 10,")
    assert large.text.endswith(
        " bytes, and the limit is 2,000. Request less data with its arguments: times, word"
    )


async def test_size_limit_counts_the_whole_result() -> None:
    server = make(SizeLimit(10_000))
    async with connect(server, protocol_version="2025-11-25") as client:
        frame = len(b'{"content":[{"type":"text","text":""}]}')
        assert not (await client.call_tool("repeat", {"times": 10_000 - frame})).is_error
        refused = await client.call_tool("repeat", {"times": 10_001 - frame})
    assert refused.text.startswith("The result is too large: it has 10,001 bytes, and the limit is 10,000. ")


async def test_other_results_pass() -> None:
    async with connect(make(SizeLimit(2000))) as client:
        assert len((await client.read_resource("limited://large"))[0]["text"]) == 5000


async def test_each_request_is_reported_with_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0

    class Clock:
        @staticmethod
        def perf_counter() -> float:
            return now

    monkeypatch.setattr("mcpkit.middleware.timing.time", Clock)
    reported: list[RequestTiming] = []
    server = Server("timed")
    server.middleware(Timing(reported.append))

    @server.tool
    async def work() -> str:
        nonlocal now
        now += 2.5
        await asyncio.sleep(0)
        return "done"

    @server.prompt
    async def fail() -> str:
        nonlocal now
        now += 1.5
        raise KeyError

    async with connect(server) as client:
        await client.call_tool("work")
        with pytest.raises(ProtocolError):
            await client.get_prompt("fail")
    assert [(timed.request.method, timed.seconds, timed.outcome, timed.code) for timed in reported] == [
        ("server/discover", 0, "ok", None),
        ("tools/call", 2.5, "ok", None),
        ("prompts/get", 1.5, "error", -32603),
    ]
    assert isinstance(reported[2].error, KeyError)
