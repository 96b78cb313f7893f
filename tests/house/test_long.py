"""What `tests/conftest.py` names as long is there: a file that has moved would be run by `make test-fast`."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]


def test_every_file_that_is_named_as_long_is_there() -> None:
    named = re.findall(r'"([\w/]+\.py)"', (TESTS / "conftest.py").read_text("utf-8"))
    assert named
    assert [name for name in named if not (TESTS / name).is_file()] == []
