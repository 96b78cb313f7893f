"""The types of supported.py: what becomes of a value of each is what docs/reference/types.md says."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow


def test_the_page_says_what_happens() -> None:
    script = runpy.run_path(str(Path(__file__).parents[2] / "bench" / "types_page.py"))
    assert script["PAGE"].read_text("utf-8") == script["page"](), "run python bench/types_page.py"
