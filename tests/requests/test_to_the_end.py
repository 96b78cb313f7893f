"""What is done to its end, whoever waits for it."""

from __future__ import annotations

import asyncio
import logging

import pytest

from mcpkit.common.to_the_end import to_the_end

pytestmark = pytest.mark.anyio


async def failing(go_on: asyncio.Event) -> None:
    await go_on.wait()
    raise OSError("the store does not answer")


async def test_whoever_waits_hears_what_has_failed(caplog: pytest.LogCaptureFixture) -> None:
    go_on = asyncio.Event()
    go_on.set()
    with pytest.raises(OSError, match="does not answer"):
        await to_the_end(failing(go_on))
    assert not caplog.records


async def test_what_fails_when_nobody_waits_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    go_on = asyncio.Event()
    before = asyncio.all_tasks()
    waiting = asyncio.ensure_future(to_the_end(failing(go_on)))
    await asyncio.sleep(0)
    (work,) = asyncio.all_tasks() - before - {waiting}
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    with caplog.at_level(logging.ERROR, "mcpkit"):
        go_on.set()
        await asyncio.wait([work], timeout=60)
        await asyncio.sleep(0)  # for what is told of it
    assert "the store does not answer" in caplog.text
