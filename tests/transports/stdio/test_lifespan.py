"""A lifespan that cannot be entered ends the process: without it there is nothing to serve."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.helpers.process_client import PATIENCE, environment

PROGRAM = """
import asyncio
from contextlib import asynccontextmanager
from mcpkit import Server

@asynccontextmanager
async def lifespan(server):
    {before}
    yield
    {after}

Server("failing", lifespan=lifespan).run()
"""


def run(tmp_path: Path, *, before: str = "pass", after: str = "pass", close_input: bool) -> tuple[int, str]:
    program = tmp_path / "server.py"
    program.write_text(PROGRAM.format(before=before, after=after))
    process = subprocess.Popen(
        [sys.executable, str(program)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=environment(),
        text=True,
    )
    try:
        assert process.stdin is not None
        assert process.stderr is not None
        if close_input:
            process.stdin.close()
        return process.wait(PATIENCE), process.stderr.read()
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stderr):
            pipe.close()


def test_failing_to_enter_ends_the_process_with_the_authors_traceback(tmp_path: Path) -> None:
    status, notes = run(tmp_path, before='raise OSError("no database")', close_input=False)
    assert status == 1
    assert "OSError: no database" in notes


def test_failing_to_enter_later_ends_the_process_too(tmp_path: Path) -> None:
    late = 'await asyncio.sleep(0.05); raise OSError("no database")'
    status, notes = run(tmp_path, before=late, close_input=False)
    assert status == 1
    assert "OSError: no database" in notes


def test_failing_to_leave_is_told_too(tmp_path: Path) -> None:
    status, notes = run(tmp_path, after='raise OSError("no flush")', close_input=True)
    assert status == 1
    assert "OSError: no flush" in notes
