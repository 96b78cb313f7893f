"""One server in several processes, and a process that starts again when its program is edited."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest
from mcp import Client as OfficialClient
from mcp.client.streamable_http import streamable_http_client

from mcpkit import SyncClient
from tests.helpers.processes import free_port
from tests.helpers.servers.full import SECRET
from tests.helpers.serving import Served, from_file

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="the processes are killed by signals"),
    pytest.mark.long,
]


UNSHARED_PROGRAM = """
from mcpkit import Server
from mcpkit.storage import Memory
from starlette.applications import Starlette
from starlette.routing import Mount

app = Server("s", secret_key="s" * 32, storage=Memory()).asgi()
mounted = Starlette(routes=[Mount("/x", app)])
"""


def test_uvicorn_workers_warn_once_without_shared_store(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(UNSHARED_PROGRAM)
    options = ["--app-dir", str(tmp_path), "--port", "0", "--workers", "2", "program:mounted"]
    with Served([sys.executable, "-m", "uvicorn", *options]) as served:
        served.wait_for("Application startup complete", times=2)
        served.stop()
    assert served.notes.count("2 worker processes serve clients without a shared engine") == 1
    assert "Server(storage=Sqlite(" in served.notes


def on_port(port: int) -> Served:
    server = Served([*from_file("tests.helpers.servers.slow:app"), "--port", str(port)], MCPKIT_SECRET=SECRET)
    server.wait_for("Uvicorn running on")
    return server


@pytest.mark.anyio
@pytest.mark.filterwarnings("ignore:.*deprecated")
async def test_official_client_call_succeeds_after_process_restart() -> None:
    port = free_port()
    with on_port(port) as first:
        transport = streamable_http_client(f"http://127.0.0.1:{port}/mcp")
        async with OfficialClient(transport, mode="legacy") as client:
            before = await client.call_tool("who", {})
            first.signal(signal.SIGKILL)
            assert first.wait() == -signal.SIGKILL
            with on_port(port) as second:
                after = await client.call_tool("who", {})
                name = before.content[0].text.partition(" ")[2]
                assert before.content[0].text == f"{first.process.pid} {name}"
                assert after.content[0].text == f"{second.process.pid} {name}"


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
