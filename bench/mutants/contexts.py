"""A pytest plugin that records which lines and branches of `mcpkit/` each test function runs.

It uses `sys.monitoring` (Python 3.12 and newer), so a test runs at nearly its usual speed: a line reports itself once
per test function. Load it with `-p bench.mutants.contexts`; the folder in `MCPKIT_CONTEXTS` receives one JSON file for
each process of pytest-xdist. Child processes that a test starts are not recorded.
"""

from __future__ import annotations

import json
import os
import sys
from collections import defaultdict
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

PACKAGE = str(Path(__file__).parents[2] / "mcpkit") + os.sep
TOOL = 3
"""The id of a tool of `sys.monitoring` that Python assigns to no kind of tool."""

_lines: dict[str, set[tuple[str, int]]] = defaultdict(set)
_branches: dict[tuple[str, str, int, int], set[int]] = defaultdict(set)
_current: set[tuple[str, int]] = _lines["import"]
_function = "import"


def _on_line(code: CodeType, line: int) -> Any:
    if code.co_filename.startswith(PACKAGE) and line:
        _current.add((code.co_filename[len(PACKAGE) :], line))
    return sys.monitoring.DISABLE


def _on_branch(code: CodeType, offset: int, destination: int) -> Any:
    if not code.co_filename.startswith(PACKAGE):
        return sys.monitoring.DISABLE
    name = code.co_filename[len(PACKAGE) :]
    seen = _branches[name, code.co_qualname, code.co_firstlineno, offset]
    seen.add(destination)
    return sys.monitoring.DISABLE if len(seen) > 1 else None


def _start() -> None:
    monitoring = sys.monitoring
    monitoring.use_tool_id(TOOL, "contexts")
    monitoring.register_callback(TOOL, monitoring.events.LINE, _on_line)
    monitoring.register_callback(TOOL, monitoring.events.BRANCH, _on_branch)
    monitoring.set_events(TOOL, monitoring.events.LINE | monitoring.events.BRANCH)


if "MCPKIT_CONTEXTS" in os.environ:
    _start()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> None:
    """Begin the context of the next test function."""
    global _current, _function  # noqa: PLW0603
    name = item.nodeid.split("[")[0]
    if name != _function:
        _function = name
        _current = _lines[name]
        sys.monitoring.restart_events()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    """Write what this process has recorded."""
    sys.monitoring.free_tool_id(TOOL)
    found: dict[str, dict[str, list[int]]] = {}
    for function, lines in _lines.items():
        by_file = found.setdefault(function, {})
        for name, line in sorted(lines):
            by_file.setdefault(name, []).append(line)
    worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
    branches = [[*key, sorted(seen)] for key, seen in sorted(_branches.items())]
    folder = Path(os.environ["MCPKIT_CONTEXTS"])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{worker}.json").write_text(json.dumps({"lines": found, "branches": branches}))
