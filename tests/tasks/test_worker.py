"""`python -m mcpkit worker`: a process that runs tasks, and hands them back when it ends."""

from __future__ import annotations

import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mcpkit.testing import Client, connect
from tests.helpers.engines import ENGINES
from tests.helpers.lab import Lab
from tests.helpers.task_client import KNOWS_TASKS, begin, look, until

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform == "win32", reason="has other signals"),
    pytest.mark.long,
]


@pytest.fixture(params=[name for name in ENGINES if name != "memory"])
async def lab(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Lab]:
    lab = Lab(request.param, tmp_path)
    yield lab
    await lab.close()


def knowing(lab: Lab, **options: Any) -> Any:
    """A client that knows tasks, of a replica that runs none."""
    return connect(lab.replica(**options), capabilities=KNOWS_TASKS)


async def result(client: Client, task: dict[str, Any]) -> Any:
    """Wait for the result of a task."""
    seen = await until(client, task, "completed")
    assert not seen["result"].get("isError"), seen
    return seen["result"]["structuredContent"]


async def test_it_runs_what_replicas_take(lab: Lab) -> None:
    async with knowing(lab) as client:
        before = await begin(client, "who")
        worker = await lab.worker()
        later = await begin(client, "who")
        for task in (before, later):
            assert (await result(client, task))["process"] == worker.pid
    status, said = await lab.end(worker)
    assert status == 0
    assert "a worker of lab has ended" in said
    mine = [line for line in lab.lines() if line.startswith(f"{worker.pid} ")]
    assert mine == [f"{worker.pid} enters", f"{worker.pid} leaves"]


async def test_it_says_what_it_is_and_runs_so_many_at_a_time(lab: Lab) -> None:
    async with knowing(lab) as client:
        tasks = [await begin(client, "who", {"seconds": 0.1}) for _ in range(12)]
        worker = await lab.start("-m", "mcpkit", "worker", "tests.helpers.lab_server:server", "--slots", "3")
        line = await lab.heard(worker, b"is ready")
        assert b"a worker of lab is ready: 3 slots, " in line
        assert (b"Sqlite(" in line) is not (b"Redis(" in line)
        most = [(await result(client, task))["most"] for task in tasks]
        assert max(most) == 3


async def test_a_worker_of_a_server_whose_replicas_run_tasks_has_one_runner(lab: Lab) -> None:
    async with knowing(lab) as client:
        tasks = [await begin(client, "who", {"seconds": 0.1}) for _ in range(12)]
        await lab.worker("--slots", "3", LAB_TASKS="replicas")
        assert max([(await result(client, task))["most"] for task in tasks]) == 3


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
@pytest.mark.usefixtures("hear_interrupts")
async def test_a_signal_hands_back_what_runs(number: int, lab: Lab) -> None:
    async with knowing(lab) as client:
        first = await lab.worker()
        task = await begin(client, "wait", {"label": "a"})
        await lab.noted("a begins 1")
        assert (await lab.end(first, number))[0] == 0
        assert (await look(client, task))["status"] == "working"
        second = await lab.worker()
        assert await result(client, task) == f"a in attempt 2 by {second.pid} entered"


async def test_what_is_never_run_again_may_finish(lab: Lab) -> None:
    async with knowing(lab) as client:
        worker = await lab.worker()
        task = await begin(client, "once", {"label": "a", "seconds": 1})
        await lab.noted("a begins")
        assert (await lab.end(worker))[0] == 0
        assert await result(client, task) == "a is done"


@pytest.mark.parametrize(("tool", "status"), [("stubborn", 143), ("sleep", 0)])
async def test_what_does_not_end_is_ended_with_the_process(tool: str, status: int, lab: Lab) -> None:
    async with knowing(lab) as client:
        worker = await lab.worker("--grace", "1")
        await begin(client, tool, {"label": "a"})
        await lab.noted("a begins 1")
        ended, said = await lab.end(worker)
    assert (ended, "something still runs 1 s after SIGTERM" in said) == (status, status == 143)
    assert "Traceback" not in said


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
@pytest.mark.usefixtures("hear_interrupts")
async def test_a_second_signal_ends_it_at_once(number: int, lab: Lab) -> None:
    async with knowing(lab) as client:
        worker = await lab.worker("--grace", "600")
        await begin(client, "stubborn", {"label": "a"})
        await lab.noted("a begins 1")
        worker.send_signal(signal.SIGTERM)
        await lab.noted("a goes on")
        status, _ = await lab.end(worker, number)
    assert status == 128 + signal.SIGTERM


async def test_the_tasks_of_a_worker_that_is_killed_are_run_by_others(lab: Lab) -> None:
    async with knowing(lab) as client:
        first = await lab.worker(LAB_LEASE="1")
        task = await begin(client, "wait", {"label": "a"})
        await lab.noted("a begins 1")
        await lab.end(first, signal.SIGKILL)
        second = await lab.worker(LAB_LEASE="1")
        assert await result(client, task) == f"a in attempt 2 by {second.pid} entered"


async def test_a_worker_that_was_stopped_past_its_leases_goes_on_with_other_tasks(lab: Lab) -> None:
    async with knowing(lab) as client:
        first = await lab.worker("--slots", "1", LAB_LEASE="1")
        task = await begin(client, "wait", {"label": "a"})
        await lab.noted("a begins 1")
        first.send_signal(signal.SIGSTOP)
        second = await lab.worker(LAB_LEASE="1")
        assert await result(client, task) == f"a in attempt 2 by {second.pid} entered"
        assert (await lab.end(second))[0] == 0
        first.send_signal(signal.SIGCONT)
        later = await begin(client, "who")
        assert (await result(client, later))["process"] == first.pid
        assert await result(client, task) == f"a in attempt 2 by {second.pid} entered"


async def test_a_function_that_hangs_keeps_its_task_no_longer_than_the_task_may_take(lab: Lab) -> None:
    async with knowing(lab) as client:
        first = await lab.worker(LAB_LEASE="1")
        task = await begin(client, "hang", {"label": "a"})
        await lab.noted("a begins 1")
        await lab.worker(LAB_LEASE="1")
        seen = await until(client, task, "failed")
        assert "timed out" in seen["error"]["message"]
        assert first.returncode is None


APPS = """
import os
from contextlib import asynccontextmanager
from mcpkit import Memory, Server, Sqlite

@asynccontextmanager
async def broken(server):
    raise LookupError("it is not there")
    yield

shared = {"shared": Sqlite("lab.db"), "secret": "a secret of sixteen and more"}
alone = Server("alone")
idle = Server("idle", **shared)
failing = Server("failing", lifespan=broken, **shared)
number = 3

@alone.tool(task=True)
@failing.tool(task=True)
def tool() -> None: ...
"""

REFUSED = {
    "apps": (1, "a server is named as FILE.py, FILE.py:OBJECT or MODULE:OBJECT, got 'apps'"),
    ":alone": (1, "a server is named as FILE.py, FILE.py:OBJECT or MODULE:OBJECT, got ':alone'"),
    "apps.py": (2, "apps.py has 3 servers: write apps.py:alone or apps.py:idle or apps.py:failing"),
    "apps.py:alon": (2, "apps has no alon; did you mean apps.py:alone?"),
    "absent.py": (2, "there is no absent.py in "),
    "absent:alone": (2, "there is no module absent in "),
    "absent.inside:alone": (2, "there is no module absent in "),
    "apps:alon": (2, "apps has no alon; did you mean apps:alone?"),
    "apps:number": (2, "apps:number is no Server but of type int; did you mean apps:"),
    "apps:idle.name": (2, "apps:idle.name is no Server but of type str"),
    "json:dumps": (
        2,
        "dumps() has parameters without defaults. Name a function that can be called without any",
    ),
    "json:dump.__name__": (2, "json:dump.__name__ is no Server but of type str, nor has json any"),
    "apps:alone": (1, "alone keeps its tasks in its own process"),
    "apps.py:idle": (1, "idle has no tool that may be a task: write @server.tool(task=True)"),
}


@pytest.fixture
async def apps(tmp_path: Path) -> AsyncIterator[Lab]:
    (tmp_path / "apps.py").write_text(APPS)
    (tmp_path / "lacking.py").write_text("import absent_library")
    lab = Lab("sqlite", tmp_path)
    yield lab
    await lab.close()


@pytest.mark.parametrize("name", REFUSED)
async def test_what_is_no_server_with_tasks_is_refused(name: str, apps: Lab) -> None:
    status, said = await apps.ended(await apps.start("-m", "mcpkit", "worker", name))
    expected, told = REFUSED[name]
    assert status == expected
    assert said.startswith("mcpkit: ")
    assert told in said
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("work",), "there is no command work; did you mean worker?"),
        (("worker",), "Missing argument 'SERVER'"),
        (("worker", "apps:alone", "--slots", "0"), "slots must be at least 1"),
        (("worker", "apps:alone", "--slots", "many"), "'many' is not a valid integer"),
        (("worker", "apps:alone", "--grace", "-1"), "grace must be a number of seconds from 0"),
        (("worker", "apps:alone", "--grace", "nan"), "grace must be a number of seconds from 0"),
    ],
)
async def test_what_is_no_command_is_refused(arguments: tuple[str, ...], told: str, apps: Lab) -> None:
    status, said = await apps.ended(await apps.start("-m", "mcpkit", *arguments))
    assert status == 1
    assert told in said
    assert said.startswith("Usage: mcpkit ")


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("lacking:server", "No module named 'absent_library'"),
        ("apps:failing", "LookupError: it is not there"),
    ],
)
async def test_what_fails_by_itself_is_told_as_it_is(name: str, told: str, apps: Lab) -> None:
    status, said = await apps.ended(await apps.start("-m", "mcpkit", "worker", name))
    assert status == 1
    assert told in said
    assert "is ready" not in said
