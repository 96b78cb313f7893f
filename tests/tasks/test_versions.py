"""Versions of a server beside each other: who takes which tasks, and what becomes of those that nobody takes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from mcpkit import Memory, Server, Task, Tasks
from mcpkit.tasks import ledger, orphans
from mcpkit.testing import connect
from tests.helpers.task_client import KNOWS_TASKS, begin, look, until

pytestmark = pytest.mark.anyio

SECRET = "a secret of sixteen and more"


def before(engine: Any, **options: Any) -> Server:
    server = Server("lab", secret=SECRET, shared=engine, **options)

    @server.tool(task=True)
    def work(city: str) -> str:
        return f"{city}, by the version before"

    return server


def after(engine: Any, **options: Any) -> Server:
    server = Server("lab", secret=SECRET, shared=engine, **options)

    @server.tool(task=True)
    def work(city: str, country: str) -> str:
        return f"{city} in {country}"

    @server.tool(task=Task(rerun="safe"))
    def other() -> str:
        return "other"

    return server


async def test_a_task_is_run_by_the_version_that_it_was_made_for() -> None:
    engine = Memory()
    new = after(engine)
    async with connect(new, capabilities=KNOWS_TASKS) as client:
        async with connect(before(engine, tasks="workers"), capabilities=KNOWS_TASKS) as old:
            task = await begin(old, "work", {"city": "Ely"})
            await until(client, await begin(client, "other"), "completed")  # it has looked for some
            assert (await look(client, task))["status"] == "working"
        async with connect(before(engine), capabilities=KNOWS_TASKS) as old:
            done = await until(client, task, "completed")
            assert done["result"]["structuredContent"] == "Ely, by the version before"
            task = await begin(client, "work", {"city": "Ely", "country": "England"})
            done = await until(old, task, "completed")
            assert done["result"]["structuredContent"] == "Ely in England"


async def test_what_nobody_can_run_any_more_has_failed_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orphans, "_INTERVAL", 0.02)
    engine = Memory()
    async with connect(before(engine, tasks="workers"), capabilities=KNOWS_TASKS) as old:
        task = await begin(old, "work", {"city": "Ely"})
    new: Any = after(engine)
    new.engine.methods.tasks.runs.patience = 0.1
    async with connect(new, capabilities=KNOWS_TASKS) as client:
        failed = await until(client, task, "failed")
        assert failed["error"] == {
            "code": -32603,
            "message": "Nothing that runs tasks has this version of 'work'",
        }


async def test_a_record_of_a_later_version_is_left_alone_and_told_of_as_busy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from mcpkit import ProtocolError, Sqlite

    engine = Sqlite(tmp_path / "lab.db")
    with monkeypatch.context() as later:
        later.setattr(ledger, "FORMAT", ledger.FORMAT + 1)
        async with connect(before(engine, tasks="workers"), capabilities=KNOWS_TASKS) as new:
            task = await begin(new, "work", {"city": "Ely"})
    async with connect(before(engine, tasks=Tasks(lease=0.1)), capabilities=KNOWS_TASKS) as old:
        with pytest.raises(ProtocolError, match="cannot be reached") as caught:
            await look(old, task)
        assert caught.value.code == -32603
        await asyncio.sleep(0.3)
    with monkeypatch.context() as later:
        later.setattr(ledger, "FORMAT", ledger.FORMAT + 1)
        async with connect(before(engine), capabilities=KNOWS_TASKS) as new:
            await until(new, task, "completed")
    engine.close()
