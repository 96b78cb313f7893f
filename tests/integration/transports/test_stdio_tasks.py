"""Tasks of a server over pipes that are kept in a file: they outlive the server, and the host that has asked."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.helpers.process_client import HELPERS, PATIENCE, ROOT, environment

pytestmark = pytest.mark.long

HOST = HELPERS / "servers" / "tasks.py"


def start(folder: Path) -> subprocess.Popen[bytes]:
    """Start the host, and by it the server, in a group of their own."""
    paths = {"PYTHONPATH": ROOT, "FOLDER": folder}
    return subprocess.Popen(
        [sys.executable, str(HOST), "poll", str(folder)], env=environment(**paths), start_new_session=True
    )


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it has not come true"
        time.sleep(0.01)


def ledger(folder: Path) -> list[str]:
    file = folder / "ledger"
    return file.read_text().splitlines() if file.exists() else []


@pytest.mark.skipif(sys.platform == "win32", reason="the host is killed as on POSIX")
@pytest.mark.parametrize("kills_server", [False, True], ids=["the host is killed", "both are killed"])
def test_a_task_ends_though_its_host_is_killed_and_started_again(tmp_path: Path, kills_server: bool) -> None:
    first = start(tmp_path)
    try:
        wait_for(lambda: "begun 1" in ledger(tmp_path))
        if kills_server:
            os.killpg(first.pid, signal.SIGKILL)
        else:
            first.kill()
    finally:
        first.kill()
        first.wait()
    with start(tmp_path) as second:
        try:
            wait_for(lambda: any(line.startswith("begun") and line != "begun 1" for line in ledger(tmp_path)))
            (tmp_path / "go").touch()
            assert second.wait(PATIENCE) == 0
        finally:
            second.kill()
    end = json.loads((tmp_path / "end").read_text())
    assert end["status"] == "completed"
    assert end["result"]["content"][0]["text"] == "a cake, well done"
    assert ledger(tmp_path).count("heated") == 1
