"""The engines in which tasks wait to be worked on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mcpkit import Memory, Sqlite
from mcpkit.tasks import runner
from tests.helpers.engines import ENGINES, close, make_engine
from tests.helpers.handshake_tasks import Speak, speaking


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Memory | Sqlite]:
    """Each engine, empty."""
    made = make_engine(request.param, tmp_path)
    yield made
    close(made)


@pytest.fixture
def no_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a runner look for nothing by itself: it has to be told."""
    monkeypatch.setattr(runner, "_INTERVAL", 3600.0)


@pytest.fixture
def speak(schema_dir: Path) -> Speak:
    """Connect a judged pipe of somebody who fills in forms: `async with speak(server, ADA) as pipe`."""
    return speaking(schema_dir)
