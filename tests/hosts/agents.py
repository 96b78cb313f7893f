"""An agent with servers in its own process; a scripted model has it call tools."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from models import calling

from tests.helpers.serving import in_thread

HERE = Path(__file__).parent
PYTHON = HERE.parents[1] / ".hosts" / "claude-agent-sdk" / "bin" / "python"
TIMEOUT = 180.0

CALLS: list[tuple[str, dict[str, Any], bool, str]] = [
    # a tool, its arguments, whether the result is an error, and its text
    ("mcp__shop__add", {"a": 2, "b": 3}, False, '{"result":5}'),
    ("mcp__shop__refuse", {}, True, "not today"),
    ("mcp__shop__ask", {}, True, "The client does not declare the required capability elicitation.form"),
    ("mcp__style__greet", {"name": "Ann"}, False, "Hello, Ann!"),
    ("mcp__style__greet", {}, True, "Input validation error: 'name' is a required property"),
    ("mcp__style__list_all", {}, False, "tea\n" * 50_000),
]


class ClaudeSdk:
    """The Agent SDK of Claude, in an environment of its own."""

    name = "Claude SDK"

    @property
    def version(self) -> str:
        script = "from importlib.metadata import version; print(version('claude-agent-sdk'))"
        return subprocess.run([PYTHON, "-c", script], capture_output=True, text=True).stdout.strip()

    def calls(self) -> tuple[bool, str]:
        """Run the agent; return whether all results are as expected, and its output."""
        tools = sorted({name for name, *_ in CALLS})
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        with in_thread(calling([(name, arguments) for name, arguments, *_ in CALLS])) as model:
            finished = subprocess.run(
                [PYTHON, str(HERE / "in_process.py"), model, *tools],
                capture_output=True,
                encoding="utf-8",
                env=inherited,
                stdin=subprocess.DEVNULL,
                timeout=TIMEOUT,
            )
        if finished.returncode != 0:
            return False, finished.stderr
        output = json.loads(finished.stdout)
        results = [(result["is_error"], _text(result["content"])) for result in output["results"]]
        is_right = sorted(output["tools"]) == tools and results == 2 * [tuple(call[2:]) for call in CALLS]
        return is_right, finished.stdout + finished.stderr


def _text(content: str | list[dict[str, Any]]) -> str:
    return content if isinstance(content, str) else "".join(block["text"] for block in content)
