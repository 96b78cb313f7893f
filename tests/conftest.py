from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def schema_dir() -> Path:
    """The folder with the official wire schemas, one `<revision>/schema.json` each."""
    folder = Path(os.environ.get("MCP_SCHEMA_DIR", ROOT.parent / "shared" / "schema"))
    if not folder.is_dir():
        pytest.skip(f"no official wire schemas in {folder}: say where they are with MCP_SCHEMA_DIR")
    return folder


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Async tests run in asyncio, the one event loop that the package is for."""
    return "asyncio"


@pytest.fixture
def hear_interrupts() -> Iterator[None]:
    """Let the children hear SIGINT, also where this process was started in the background and ignores it."""
    before = signal.getsignal(signal.SIGINT)
    if before == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
