from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from asgi_client import Client, Serve, serving
from mcpkit import Server


@pytest.fixture
def serve(schema_dir: Path) -> Serve:
    """Run a server's ASGI app in this process: `async with serve(server, **options) as client`."""

    def run(server: Server, **options: Any) -> AbstractAsyncContextManager[Client]:
        return serving(server, schema_dir, **options)

    return run
