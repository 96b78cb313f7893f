"""Commands begin with consoles of their own, as in a process of their own."""

from __future__ import annotations

import pytest

from mcpkit.cli.output import written


@pytest.fixture(autouse=True)
def consoles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget the consoles of the test before, and how wide its terminal was."""
    monkeypatch.delenv("COLUMNS", raising=False)
    for console in (written.results, written.remarks):
        console.cache_clear()
