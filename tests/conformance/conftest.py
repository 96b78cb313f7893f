from pathlib import Path

import pytest

from tests.helpers.handshake_tasks import OpenPipe, pipe_opener


@pytest.fixture
def speak(schema_dir: Path) -> OpenPipe:
    """Connect a validated pipe of a client that answers forms: `async with speak(server, ADA) as pipe`."""
    return pipe_opener(schema_dir)
