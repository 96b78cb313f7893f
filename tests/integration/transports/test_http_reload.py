"""`server.run("http", reload=True)`: the program starts anew when one of its files is edited."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from mcpkit import SyncClient
from tests.helpers.processes import free_port
from tests.helpers.serving import Served

pytestmark = pytest.mark.long

PROGRAM = """
import os
import sys
from mcpkit import Server

server = Server("edited")


@server.tool
def version() -> str:
    return "first"


if __name__ == "__main__":
    folder = os.path.dirname(__file__)
    server.run("http", port=int(sys.argv[1]), reload=True, reload_dirs=[folder], reload_delay=0.05)
"""


def test_edited_program_is_served_anew_with_its_arguments(tmp_path: Path) -> None:
    file, port = tmp_path / "server.py", free_port()
    file.write_text(PROGRAM)
    with Served([sys.executable, str(file), str(port)]) as served:
        served.wait_for("Uvicorn running on")
        with SyncClient(f"http://127.0.0.1:{port}/mcp") as client:
            assert client.call_tool("version").text == "first"
        file.write_text(PROGRAM.replace("first", "second"))
        served.wait_for("the program is started again")
        served.wait_for("Uvicorn running on", times=2)
        with SyncClient(f"http://127.0.0.1:{port}/mcp") as client:
            assert client.call_tool("version").text == "second"
        served.stop(signal.SIGTERM)
        assert "will not reload" not in served.notes
