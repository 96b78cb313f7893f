"""An engine in memory, and pipes of clients of 2025-11-25 that check messages against the schema."""

from pathlib import Path

import pytest

from mcpkit.storage import Memory
from tests.helpers.handshake_tasks import OpenPipe, pipe_opener


@pytest.fixture
def engine() -> Memory:
    return Memory()


@pytest.fixture
def open_pipe(schema_dir: Path) -> OpenPipe:
    return pipe_opener(schema_dir)
