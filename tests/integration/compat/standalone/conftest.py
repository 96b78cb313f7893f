from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.compat.standalone.requests import told

HERE = Path(__file__).parent
ROOT = HERE.parents[3]
REFERENCE = ROOT / ".servers/fastmcp/bin/python"
LAB = str(HERE / "lab.py")


@pytest.fixture(scope="session")
def theirs() -> dict[str, Any]:
    """What fastmcp 4 tells."""
    if not REFERENCE.exists():
        pytest.skip("`make setup` makes the environment with fastmcp")
    return asyncio.run(told([str(REFERENCE), LAB], "2025-11-25"))


@pytest.fixture(scope="session", params=["2025-11-25", "2026-07-28"])
def ours(request: pytest.FixtureRequest) -> dict[str, Any]:
    """What mcpkit tells in its place, in either era."""
    os.environ.setdefault("PYTHONPATH", str(ROOT))
    return asyncio.run(told([sys.executable, "-m", "mcpkit.compat", LAB], request.param))
