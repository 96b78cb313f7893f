"""Ledgers: what clients and tools write down while all else is killed, and what is judged afterwards."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

Line = dict[str, Any]


class Ledger:
    """A file of JSON lines. Each is added whole and at once, whoever else adds to it, and outlives who has written it.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def write(self, what: str, **more: Any) -> None:
        """Add a line that says what has happened; the time is for who reads it, and nothing is judged by it."""
        line = {"what": what, **more, "time": time.monotonic()}
        os.write(self._descriptor, json.dumps(line).encode() + b"\n")

    def lines(self, what: str | None = None) -> list[Line]:
        """Return all lines so far, or those of one kind, in the order in which they were added."""
        found = [json.loads(line) for line in self.path.read_text().splitlines()]
        return [line for line in found if what is None or line["what"] == what]
