"""A process that serves and runs tasks hands them back when it is told to end, however it serves."""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mcpkit.testing import connect
from tests.helpers.lab import Lab
from tests.helpers.redis_server import free_port
from tests.helpers.task_client import KNOWS_TASKS, begin, look, until

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform == "win32", reason="has other signals"),
    pytest.mark.long,
]

RUN = "from tests.helpers.lab_server import server; server.run({})"

WAYS = {
    "run": ["-c", RUN.format("'http', port={port}, grace=4")],
    "uvicorn": ["-m", "uvicorn", "tests.helpers.lab_server:app", "--port", "{port}"],
    "uvicorn workers": [
        "-m",
        "uvicorn",
        "tests.helpers.lab_server:app",
        "--port",
        "{port}",
        "--workers",
        "2",
    ],
    "gunicorn": [
        *("-m", "gunicorn", "tests.helpers.lab_server:app", "-k", "uvicorn_worker.UvicornWorker"),
        *("-w", "2", "-b", "127.0.0.1:{port}"),
    ],
    "stdio": ["-c", RUN.format("grace=4")],
    "closed stdio": ["-c", RUN.format("grace=4")],
}


SEVERAL = ("uvicorn workers", "gunicorn")


@pytest.fixture
async def lab(tmp_path: Path) -> AsyncIterator[Lab]:
    lab = Lab("sqlite", tmp_path)
    yield lab
    await lab.close()


async def serve(lab: Lab, way: str) -> Any:
    """Start what serves and runs tasks."""
    port = free_port()
    secret = {"MCPKIT_SECRET": "a secret of sixteen and more"}
    return await lab.start(*(each.format(port=port) for each in WAYS[way]), LAB_TASKS="replicas", **secret)


async def end(lab: Lab, way: str, process: Any) -> int:
    """Tell it to end, and return its status."""
    if way == "closed stdio":
        process.stdin.close()
    else:
        process.send_signal(signal.SIGTERM)
    return (await lab.ended(process))[0]


@pytest.mark.parametrize("way", WAYS)
async def test_it_hands_back_what_may_be_run_again_and_finishes_the_rest(way: str, lab: Lab) -> None:
    async with connect(lab.replica(), capabilities=KNOWS_TASKS) as client:
        serving = await serve(lab, way)
        again = await begin(client, "wait", {"label": "a"})
        never = await begin(client, "once", {"label": "b", "seconds": 1})
        await lab.noted("a begins 1")
        await lab.noted("b begins")
        assert await end(lab, way, serving) in {0, 128 + signal.SIGTERM, -signal.SIGTERM}
        seen = await look(client, never)
        assert seen["result"]["structuredContent"] == "b is done"
        if way not in SEVERAL:  # else the other one may have had it at once
            assert (await look(client, again))["status"] == "working"
        await lab.worker()
        seen = await until(client, again, "completed")
    assert re.match("a in attempt [23] by [0-9]+ entered", seen["result"]["structuredContent"])
    entered, left = (sum(line.endswith(what) for line in lab.lines()) for what in (" enters", " leaves"))
    assert entered == left + 1


@pytest.mark.parametrize("way", WAYS)
async def test_what_does_not_end_is_over_with_its_process(way: str, lab: Lab) -> None:
    async with connect(lab.replica(), capabilities=KNOWS_TASKS) as client:
        serving = await serve(lab, way)
        await begin(client, "stubborn", {"label": "a"})
        again = await begin(client, "wait", {"label": "b"})
        await lab.noted("a begins 1")
        await lab.noted("b begins 1")
        await end(lab, way, serving)
        await lab.worker()
        seen = await until(client, again, "completed")
    assert seen["result"]["structuredContent"].startswith("b in attempt 2")
