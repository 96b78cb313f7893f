"""Agents whose SDKs take servers into their own process; a model of ours has them call tools."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from models import calling

from tests.helpers.serving import in_thread

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
TIME_OUT = 180.0

STEPS: list[tuple[str, dict[str, Any]]] = [
    ("mcp__shop__add", {"a": 2, "b": 3}),
    ("mcp__shop__refuse", {}),
    ("mcp__shop__ask", {}),
    ("mcp__style__greet", {"name": "Ann"}),
    ("mcp__style__greet", {}),
    ("mcp__style__ledger", {}),
]
"""What the model calls."""

SAID = [
    (False, '{"result":5}'),
    (True, "not today"),
    (True, "The client does not declare the required capability elicitation.form"),
    (False, "Hello, Ann!"),
    (True, "Input validation error: 'name' is a required property"),
    (False, "tea\n" * 50_000),
]
"""What comes of it."""


@dataclass(frozen=True)
class Agent:
    """An SDK, in an environment of its own.

    Attributes:
        name: What it is called.
        sdk: What `in_process.py` calls it.
        package: Its package on PyPI.
        goal: What comes of it.
    """

    name: str
    sdk: str
    package: str
    goal: str

    @property
    def _python(self) -> str:
        return str(ROOT / ".hosts" / self.package / "bin" / "python")

    @property
    def version(self) -> str:
        """The version that is installed."""
        script = f"from importlib.metadata import version; print(version({self.package!r}))"
        return subprocess.run([self._python, "-c", script], capture_output=True, text=True).stdout.strip()

    def reaches_its_goal(self) -> tuple[bool, str]:
        """Run it; say whether all came as it should, and what came."""
        tools = sorted({name for name, _ in STEPS})
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        with in_thread(calling(STEPS)) as model:
            finished = subprocess.run(
                [self._python, str(HERE / "in_process.py"), self.sdk, model, *tools],
                capture_output=True,
                encoding="utf-8",
                env=inherited,
                stdin=subprocess.DEVNULL,
                timeout=TIME_OUT,
            )
        if finished.returncode != 0:
            return False, finished.stderr
        account = json.loads(finished.stdout)
        if self.sdk == "qoder":
            return "problem" in account or all(
                each["status"] == "connected" for each in account["status"]["mcpServers"]
            ), finished.stdout
        said = [(result["is_error"], _text(result["content"])) for result in account["results"]]
        is_right = sorted(account["tools"]) == tools and said == 2 * SAID
        return is_right, finished.stdout + finished.stderr


def _text(content: str | list[dict[str, Any]]) -> str:
    return content if isinstance(content, str) else "".join(block["text"] for block in content)


AGENTS = [
    Agent("Claude SDK", "claude", "claude-agent-sdk", "called"),
    Agent("Qoder SDK", "qoder", "qoder-agent-sdk", "wants login"),
]
