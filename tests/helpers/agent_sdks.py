"""The environments in which agent SDKs are tried: each SDK with the versions of `mcp` that it takes.

Of the SDKs it is the code alone: the programs that they bring are 500 MB, and `make hosts` is there for them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SDKS = ROOT / ".servers" / "agent-sdks"
SCRIPTS = "Scripts" if sys.platform == "win32" else "bin"
TIME_OUT = 120.0


@dataclass(frozen=True)
class Environment:
    """An SDK, in a Python that has one version of `mcp`."""

    sdk: str
    mcp: int

    def __str__(self) -> str:
        """Name it."""
        return f"{self.sdk}-mcp{self.mcp}"

    @property
    def python(self) -> Path:
        """The interpreter: this one, or that of the environment of `mcp` 1.x."""
        return Path(sys.executable) if self.mcp == 2 else ROOT / ".servers" / "mcp1" / SCRIPTS / "python"

    def outcomes(self, script: Path, *arguments: str) -> dict[str, Any]:
        """Run a script with the name of the SDK, once; return what it has printed, which is JSON."""
        return _outcomes(self, script, arguments)


@cache
def _outcomes(environment: Environment, script: Path, arguments: tuple[str, ...]) -> dict[str, Any]:
    if os.environ.get("MCPKIT_TEST_NODE") == "0":
        pytest.skip("left out on purpose, with the other clients of others: MCPKIT_TEST_NODE=0")
    for needed in (SDKS / ".installed", environment.python):
        if not needed.exists():
            pytest.fail(f"{needed} is not there: run `make setup`", pytrace=False)
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    path = (ROOT, SDKS)
    finished = subprocess.run(
        [environment.python, script, environment.sdk, *arguments],
        capture_output=True,
        encoding="utf-8",
        env={**inherited, "PYTHONPATH": os.pathsep.join(map(str, path))},
        stdin=subprocess.DEVNULL,
        timeout=TIME_OUT,
    )
    assert finished.returncode == 0, finished.stderr
    outcomes: dict[str, Any] = json.loads(finished.stdout)
    return outcomes


AGENTS = [Environment("claude", 2), Environment("claude", 1), Environment("qoder", 1)]
"""The last does not take `mcp` 2.x."""
