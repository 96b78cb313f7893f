"""`initialize` over HTTP with middleware: reports, failures and limits."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from mcpkit import Context, Memory, Server
from mcpkit.middleware import CallNext, Request, Result
from tests.helpers.raw_client import (
    PING,
    Answer,
    Client,
    Headers,
    Judge,
    Serve,
    initialize,
    session_keys,
    within,
)
from tests.helpers.work import Work

pytestmark = pytest.mark.anyio

OPENING = initialize(_meta={"progressToken": "opening"}, capabilities={"elicitation": {}})


class GatedStore(Memory):
    def __init__(self) -> None:
        super().__init__()
        self.is_written = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()

    async def write(self, key: str, changes: Mapping[str, str | None], ttl: float) -> None:
        await super().write(key, changes, ttl)
        self.is_written.set()
        await self.gate.wait()


@pytest.fixture
async def store() -> GatedStore:
    return GatedStore()


@pytest.fixture
def opening_server(store: GatedStore, work: Work) -> Server:
    opening_server = Server(
        "opened", secret="a secret of sixteen bytes and more", shared=store, max_running=1
    )

    @opening_server.tool
    async def wait(ctx: Context) -> str:
        await work.wait()
        return "waited"

    return opening_server


def post_initialize(client: Client, headers: Headers | None = None) -> Answer:
    return client.post(OPENING, headers, judge=Judge(client.folder, "2025-11-25"))


def is_stream_with_id(answer: Answer) -> bool:
    return answer.is_stream and "mcp-session-id" in answer.headers


async def status_under(client: Client, answer: Answer) -> int | None:
    return (await client.post(PING, {"mcp-session-id": answer.headers["mcp-session-id"]}).whole()).status


async def test_initialize_streams_progress_of_middleware(opening_server: Server, serve: Serve) -> None:
    @opening_server.middleware("initialize")
    async def report(request: Request, call_next: CallNext) -> Result:
        await request.ctx.progress(1, 2)
        result = await call_next(request)
        await request.ctx.progress(2, 2)
        return result

    async with serve(opening_server) as client:
        answer = await post_initialize(client).whole()
        assert is_stream_with_id(answer)
        *reports, response = await answer.messages()
        assert [each["params"]["progress"] for each in reports] == [1, 2]
        assert response["result"]["protocolVersion"] == "2025-11-25"
        assert await status_under(client, answer) == 200


@pytest.mark.parametrize("has_reported", [False, True])
async def test_failed_initialize_leaves_no_session(
    opening_server: Server, serve: Serve, store: GatedStore, has_reported: bool
) -> None:
    @opening_server.middleware("initialize")
    async def fail(request: Request, call_next: CallNext) -> Result:
        if has_reported:
            await request.ctx.progress(1, 2)
        await call_next(request)
        raise KeyError("afterwards")

    async with serve(opening_server) as client:
        answer = post_initialize(client)
        response = await answer.response()
        assert response["error"]["message"].startswith("Internal error (ref ")
        assert answer.is_stream is has_reported
        assert "mcp-session-id" not in answer.headers
        assert session_keys(store) == []


async def test_disconnect_cancels_initialize(
    opening_server: Server, serve: Serve, store: GatedStore, work: Work
) -> None:
    @opening_server.middleware("initialize")
    async def wait(request: Request, call_next: CallNext) -> Result:
        await request.ctx.progress(1, 2)
        await work.wait()
        return await call_next(request)

    async with serve(opening_server) as client:
        answer = await post_initialize(client).head()
        answer.disconnect()
        await within(work.cancelled.wait())
        await answer.whole()
        assert await status_under(client, answer) == 404
        assert session_keys(store) == []
