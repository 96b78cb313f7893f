"""Ordinary values arrive as sent, with the official client over stdio: those that bench/values.py counts."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

VALUES = runpy.run_path(str(Path(__file__).parents[2] / "bench" / "values.py"))

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore:.*deprecated")]


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_each_arrives_as_it_was_sent(mode: str) -> None:
    found = await VALUES["count"](sys.executable, "mcpkit", mode)
    assert len(found) == 375
    assert {name: why for name, why in found.items() if why} == {}
