"""One server in several processes."""

from __future__ import annotations

import signal
import socket
import sys
import threading
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client as OfficialClient
from mcp.client.streamable_http import streamable_http_client

from tests.helpers.fake_idp import KeyIssuer, serve_keys
from tests.helpers.raw_client import call_params, request, standard_headers
from tests.helpers.servers.full import SECRET
from tests.helpers.serving import DEFAULT_TIMEOUT, Served, from_file
from tests.helpers.signed_tokens import Signer

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="the processes are killed by signals"),
    pytest.mark.long,
]

WARNING = "worker processes serve clients without a shared engine"


UNSHARED_PROGRAM = """
import os
from mcpkit import Server
from mcpkit.storage import Memory
from starlette.applications import Starlette
from starlette.routing import Mount

class Lasting(Memory):
    is_persistent = True

server = Server("s", secret_key="s" * 32, storage=Lasting() if os.environ.get("SHARED") else Memory())
app = server.asgi()
mounted = Starlette(routes=[Mount("/x", app)])
"""


@pytest.fixture
def unshared_folder(tmp_path: Path) -> Path:
    (tmp_path / "program.py").write_text(UNSHARED_PROGRAM)
    return tmp_path


def notes_of(folder: Path, app: str, **settings: str) -> str:
    """Return standard error of two uvicorn workers at their start."""
    options = ["--app-dir", str(folder), "--port", "0", "--workers", "2", f"program:{app}"]
    with Served([sys.executable, "-m", "uvicorn", *options], **settings) as served:
        served.wait_for("Application startup complete", times=2)
        served.stop()
        return served.notes


def test_uvicorn_workers_warn_once_without_shared_store(unshared_folder: Path) -> None:
    notes = notes_of(unshared_folder, "mounted")
    assert notes.count(f"2 {WARNING}") == 1
    assert "Server(storage=Sqlite(" in notes


ACCEPT = {"Accept": "application/json, text/event-stream"}


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def on_port(port: int) -> Served:
    server = Served([*from_file("tests.helpers.servers.slow:app"), "--port", str(port)], MCPKIT_SECRET=SECRET)
    server.wait_for("Uvicorn running on")
    return server


def kill(server: Served) -> None:
    server.signal(signal.SIGKILL)
    assert server.wait() == -signal.SIGKILL


@pytest.mark.anyio
@pytest.mark.filterwarnings("ignore:.*deprecated")
async def test_official_client_call_succeeds_after_process_restart() -> None:
    port = free_port()
    with on_port(port) as first:
        transport = streamable_http_client(f"http://127.0.0.1:{port}/mcp")
        async with OfficialClient(transport, mode="legacy") as client:
            before = await client.call_tool("who", {})
            kill(first)
            with on_port(port) as second:
                after = await client.call_tool("who", {})
                name = before.content[0].text.partition(" ")[2]
                assert before.content[0].text == f"{first.process.pid} {name}"
                assert after.content[0].text == f"{second.process.pid} {name}"


WORKERS = 2


CALL = request("tools/call", call_params("whoami"))
HEADERS = ACCEPT | standard_headers("tools/call", "whoami")


def call_with_token(url: str, provider: KeyIssuer, signer: Signer, **changes: Any) -> httpx2.Response:
    now = time.time()
    claims = {
        "iss": provider.url,
        "iat": now,
        "exp": now + 600,
        "jti": f"{now} {threading.get_ident()}",
        **changes,
    }
    headers = {**HEADERS, "Authorization": f"Bearer {signer.token(**claims)}"}
    return httpx2.post(f"{url}/mcp", json=CALL, headers=headers, timeout=DEFAULT_TIMEOUT, verify=False)


def start_workers(provider: KeyIssuer) -> Served:
    served = Served([*from_file("tests.helpers.jwt_app:app"), "--workers", str(WORKERS)], ISSUER=provider.url)
    served.wait_for("Application startup complete", times=WORKERS)
    return served


def test_key_rotation_loses_no_request() -> None:
    signers = [Signer("ES256", f"key {number}") for number in range(5)]
    with serve_keys(signers[0]) as provider, start_workers(provider) as served:
        answers: Counter[int] = Counter()
        pids: set[str] = set()
        current = signers[0]
        is_over = threading.Event()
        done = [0] * 4

        def load(number: int) -> None:
            while not is_over.is_set():
                answer = call_with_token(served.origin, provider, current)
                answers[answer.status_code] += 1
                if answer.status_code == 200:
                    pids.add(answer.json()["result"]["content"][0]["text"].partition(" ")[2])
                done[number] += 1

        threads = [threading.Thread(target=load, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for older, newer in pairwise(signers):
            provider.publish(older, newer)  # requests in transit may use the older key
            current = newer
            before = list(done)
            deadline = time.monotonic() + DEFAULT_TIMEOUT
            while any(now < then + 4 for now, then in zip(done, before, strict=True)):
                assert time.monotonic() < deadline
                time.sleep(0.01)
        is_over.set()
        for thread in threads:
            thread.join()
        assert set(answers) == {200}
        assert len(pids) == WORKERS
        assert provider.fetches <= len(signers) * WORKERS

        before_flood = provider.fetches
        for number in range(30):
            refused = call_with_token(served.origin, provider, current, header={"kid": f"unknown {number}"})
            assert refused.status_code == 401
            assert 'error="invalid_token"' in refused.headers["www-authenticate"]
        assert provider.fetches - before_flood <= WORKERS
        assert call_with_token(served.origin, provider, current).status_code == 200
        served.stop()
