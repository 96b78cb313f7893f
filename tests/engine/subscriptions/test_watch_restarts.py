"""A watch that raises, returns or is slow to end, and when it starts again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from mcpkit import Server
from mcpkit.engine.subscriptions import watching as module
from tests.helpers.listening import Ear, updated
from tests.helpers.pipe import settle
from tests.helpers.watched import Source, read, watched_server

pytestmark = pytest.mark.anyio


@pytest.fixture
def source() -> Source:
    return Source()


class Clock:
    """asyncio, but without the waiting."""

    def __init__(self) -> None:
        self.delays: list[float] = []

    async def sleep(self, delay: float) -> None:
        self.delays.append(delay)

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)


@pytest.fixture
def delays(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Let no watch wait before it starts again; say how long each would have."""
    clock = Clock()
    monkeypatch.setattr(module, "asyncio", clock)
    return clock.delays


async def test_one_that_raises_is_logged_and_started_again(
    source: Source, delays: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    server, ear = watched_server(source), Ear()
    server.engine.hubs.here().want(ear, updated("data://x"))
    for _ in range(8):
        await source.fail()
    assert delays == [1, 2, 4, 8, 16, 32, 60, 60]
    assert source.story == [*["start fixed", "stop fixed"] * 8, "start fixed"]
    assert "the watch of data://x failed; it starts again in 1 s" in caplog.text
    assert "OSError: the source is gone" in caplog.text
    await source.update()
    assert ear.uris == ["data://x"]
    await source.fail()
    assert delays[8:] == [1]
    server.engine.hubs.here().forget(ear)


async def test_one_that_returns_is_not_started_again() -> None:
    starts: list[None] = []

    async def watch() -> AsyncIterator[None]:
        starts.append(None)
        yield

    server, ear = Server("s"), Ear()
    server.resource("data://x", watch=watch)(read)
    server.engine.hubs.here().want(ear, updated("data://x"))
    await settle()
    assert len(starts) == 1
    server.engine.hubs.here().forget(ear)


@pytest.mark.parametrize("is_stubborn", [False, True])
async def test_watch_that_fails_or_ignores_closing_ends(
    is_stubborn: bool, caplog: pytest.LogCaptureFixture
) -> None:
    story: list[str] = []

    async def watch() -> AsyncIterator[None]:
        story.append("start")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if not is_stubborn:
                raise OSError("cannot close") from None
            yield
        story.append("after the end")

    server, ear = Server("s"), Ear()
    server.resource("data://x", watch=watch)(read)
    server.engine.hubs.here().want(ear, updated("data://x"))
    await settle()
    server.engine.hubs.here().forget(ear)
    await settle()
    assert story == ["start"]
    assert ("the watch of data://x failed; it has ended" in caplog.text) is not is_stubborn
    assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("mcpkit-watch")]
