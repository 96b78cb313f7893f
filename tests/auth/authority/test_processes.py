"""`DevAuth` in several processes, none of which is there for long."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.helpers.authority_site import CALLBACK, Forms, Login, code_of
from tests.helpers.pipe import stateless_meta
from tests.helpers.serving import Served, from_file

pytestmark = pytest.mark.long


class Site:
    """Workers at one address, which may be killed and started again."""

    def __init__(self, folder: Path, port: int) -> None:
        self.origin = f"http://127.0.0.1:{port}"
        self._command = from_file("tests.helpers.dev_auth_server:app", "--workers", "2", "--port", str(port))
        self._settings = {"ORIGIN": self.origin, "FILE": folder / "shared.db"}

    @contextmanager
    def running(self) -> Iterator[None]:
        """Serve until the end of the block, at which everything is killed at once."""
        with Served(self._command, **self._settings) as served:
            served.wait_for("Application startup complete", times=2)
            yield
            served.signal(signal.SIGKILL, group=True)

    def post(self, path: str, form: Any, **options: Any) -> httpx2.Response:
        """Send a form on a connection of its own, to whichever worker takes it."""
        return httpx2.post(self.origin + path, data=form, **options)

    def whoami(self, token: str) -> httpx2.Response:
        """Call the tool."""
        params = {"name": "whoami", "arguments": {}, "_meta": stateless_meta()}
        headers = {
            "Accept": "application/json, text/event-stream",
            "Authorization": f"Bearer {token}",
            "MCP-Protocol-Version": "2026-07-28",
            "Mcp-Method": "tools/call",
            "Mcp-Name": "whoami",
        }
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        return httpx2.post(f"{self.origin}/mcp", json=message, headers=headers)


@pytest.fixture
def site(tmp_path: Path, unused_port: int) -> Site:
    return Site(tmp_path, unused_port)


@pytest.fixture
def unused_port() -> int:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    return port


def test_a_login_survives_that_all_is_killed_between_its_steps(site: Site) -> None:
    with site.running():
        metadata = {
            "redirect_uris": [CALLBACK],
            "token_endpoint_auth_method": "none",
            "grant_types": ["authorization_code", "refresh_token"],
        }
        login = Login(
            httpx2.post(f"{site.origin}/register", json=metadata).json()["client_id"], resource=None
        )
    browser = httpx2.Client(base_url=site.origin)
    with site.running():
        page = browser.get("/authorize", params=login.query)
    with site.running():
        code = code_of(browser.post("/authorize", data=Forms(page.text).forms[0]))
    with site.running():
        # To whichever worker each of them comes: one gets tokens.
        with ThreadPoolExecutor(10) as pool:
            answers = list(pool.map(lambda _: site.post("/token", login.form(code)), range(10)))
        assert sorted(answer.status_code for answer in answers) == [200] + [400] * 9
        [tokens] = [answer.json() for answer in answers if answer.status_code == 200]
    refresh = {"grant_type": "refresh_token", "client_id": login.client_id}
    with site.running():
        form = {**refresh, "refresh_token": tokens["refresh_token"]}
        with ThreadPoolExecutor(10) as pool:
            answers = list(pool.map(lambda _: site.post("/token", form), range(10)))
        assert {answer.status_code for answer in answers} == {200}
        [successor] = {answer.json()["refresh_token"] for answer in answers}
    with site.running():
        tokens = site.post("/token", {**refresh, "refresh_token": successor}).json()
    with site.running():
        seen = [site.whoami(tokens["access_token"]) for _ in range(4)]
        assert {answer.json()["result"]["content"][0]["text"].split()[0] for answer in seen} == {"ada"}
        revoked = {"token": tokens["refresh_token"], "client_id": login.client_id}
        assert site.post("/revoke", revoked).status_code == 200
    with site.running():
        assert site.whoami(tokens["access_token"]).status_code == 401
    browser.close()
