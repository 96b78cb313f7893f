"""The engines that servers share, and threads that take turns as often as they can."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mcpkit import Sqlite
from tests.helpers.clock import Clock
from tests.helpers.engines import ENGINES, Engine, close, make_engine


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Iterator[Engine]:
    """Each engine, empty, by a clock that the test moves."""
    made = make_engine(request.param, tmp_path, clock)
    yield made
    close(made)


@pytest.fixture(params=ENGINES)
def engine_of_the_world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    """Each engine, empty, by its own clock."""
    made = make_engine(request.param, tmp_path)
    yield made
    close(made)


@pytest.fixture
def frequent_switches() -> Iterator[None]:
    """Have the interpreter switch threads all the time."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the file of `shared` is."""
    return tmp_path / "shared.db"


@pytest.fixture
def shared(path: Path) -> Iterator[Sqlite]:
    """A file that processes share."""
    with closing(Sqlite(path)) as made:
        yield made
