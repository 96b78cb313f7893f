"""Asks a process of Node what the TypeScript clients make of a schema, a value or a pattern."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.node import node_search_path

SCRIPT = Path(__file__).with_suffix(".mjs")


class NodeJudge:
    """The process; it answers one question at a time."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def objection(self, schema: Any, value: Any) -> str | None:
        """Return why ajv refuses a value, set up as each of the clients does it; None where it does not."""
        answer = self._ask({"schema": schema, "value": value})
        return None if answer["fits"] else answer["why"]

    def matches(self, pattern: str, texts: Sequence[str]) -> list[bool]:
        """Return which texts an ECMA-262 pattern with `u` matches.

        Raises:
            ValueError: It is none.
        """
        return self._ask({"pattern": pattern, "texts": texts})["fits"]

    def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        if "error" in answer:
            raise ValueError(answer["error"])
        return answer


@contextmanager
def node_judge() -> Iterator[NodeJudge]:
    """Start the process, and end it."""
    if os.environ.get("MCPKIT_TEST_NODE") == "0":
        pytest.skip("left out on purpose: MCPKIT_TEST_NODE=0")
    node = shutil.which("node", path=node_search_path())
    if node is None or not (SCRIPT.parents[2] / "node_modules" / "ajv-8").is_dir():
        pytest.fail(
            "ajv is not installed: run `make setup`, or leave it out with MCPKIT_TEST_NODE=0", pytrace=False
        )
    with subprocess.Popen(
        [node, SCRIPT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
    ) as process:
        yield NodeJudge(process)
        assert process.stdin is not None
        process.stdin.close()
