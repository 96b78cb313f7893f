"""The real library, in one process for all tests."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from . import judged

PYTHON = Path(__file__).parents[4] / ".servers" / "mcp1" / "bin" / "python"

Cases = list[dict[str, Any]]


@pytest.fixture(scope="session")
def theirs() -> Iterator[Callable[[Cases], Callable[[], list[Any]]]]:
    """What becomes of cases in mcp 1.x: to be asked for, while it is busy with them."""
    if not PYTHON.exists():
        pytest.skip("mcp 1.x is not there: `make setup` installs it")
    command = [str(PYTHON), judged.__file__]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        if json.loads(process.stdout.readline()) != json.loads(json.dumps(judged.versions())):
            pytest.skip("mcp 1.x is there with another Python, or another pydantic")

        def ask(cases: Cases) -> Callable[[], list[Any]]:
            process.stdin.write(json.dumps(cases) + "\n")
            process.stdin.flush()
            return lambda: json.loads(process.stdout.readline())

        yield ask
        process.stdin.close()


@pytest.fixture(scope="session")
def ours() -> Callable[[Cases], list[Any]]:
    """What becomes of cases here."""
    return lambda cases: judged.judged(judged.OURS, cases)
