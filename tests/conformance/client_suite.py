"""Has the official conformance suites start the client, and reads what they have found."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from tests.conformance.run import FAILED, NODE_MODULES, find_node

CLIENT = Path(__file__).parent / "client.py"
OLD, NEW = "conformance-0-1", "conformance-0-2"


class Run(NamedTuple):
    """One scenario, at one revision where the suite knows several."""

    suite: str
    scenario: str
    revision: str = ""


def problems_of(run: Run, results: Path) -> list[str]:
    """Let the suite start the client, and return the problems, a line for each."""
    arguments = ["client", "--command", shlex.join([sys.executable, str(CLIENT)]), "--scenario", run.scenario]
    arguments += ["--spec-version", run.revision] if run.revision else []
    ended = suite(run.suite, *arguments, "--output-dir", str(results))
    [found] = results.rglob("checks.json")
    checks = json.loads(found.read_text("utf-8"))
    assert any(check["status"] == "SUCCESS" for check in checks), f"nothing was checked:\n{ended.stderr}"
    problems = [
        f"{check['status']} {check['id']}: {check.get('errorMessage') or check.get('description')}"
        for check in checks
        if check["status"] in FAILED
    ]
    if ended.returncode != 0 or "Client exited with" in ended.stderr:
        problems.append(f"{ended.stdout}\n{ended.stderr}")
    return problems


def suite(package: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command of the suite."""
    return subprocess.run(
        [find_node(), str(NODE_MODULES / package / "dist" / "index.js"), *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
