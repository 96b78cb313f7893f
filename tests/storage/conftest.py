"""Storage engines, a clock that the test moves, and threads that switch as often as they can."""

import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mcpkit.storage import Memory, Sqlite
from tests.helpers.engines import Engine, close, make_engine
from tests.helpers.waiting import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(scope="session", params=["memory", "sqlite"])
def engine_name(request: pytest.FixtureRequest) -> str:
    """The engines of the contract tests; tests/integration/storage runs them with Redis."""
    return str(request.param)


@pytest.fixture
def engine(engine_name: str, tmp_path: Path, clock: Clock) -> Iterator[Engine]:
    """Each engine, empty, with the clock of the test."""
    engine = make_engine(engine_name, tmp_path, clock)
    yield engine
    close(engine)


@pytest.fixture
def frequent_switches() -> Iterator[None]:
    """Let the interpreter switch threads as often as it can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.fixture
def turns(engine: Engine) -> int:
    """Repetitions in each thread of a test."""
    return 100 if isinstance(engine, Memory) else 20


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The database file of `shared`."""
    return tmp_path / "shared.db"


@pytest.fixture
def shared(path: Path) -> Iterator[Sqlite]:
    with closing(Sqlite(path)) as shared:
        yield shared
