"""The official conformance suite against `DevAuth` and `OAuthProxy`, with a program in the part of the user."""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest

from mcpkit import Server
from mcpkit.auth import DevAuth
from tests.conformance.run import FAILED, NODE_MODULES, find_node, free_port
from tests.helpers.browser import Browser
from tests.helpers.oauth_flow import PageForms
from tests.helpers.serving import in_thread_at
from tests.integration.auth.servers import serve_proxy

pytestmark = pytest.mark.skipif(
    os.environ.get("MCPKIT_TEST_NODE") == "0", reason="left out on purpose: MCPKIT_TEST_NODE=0"
)

SUITE = NODE_MODULES / "conformance-0-2" / "dist" / "index.js"
PATIENCE = 120.0
PASSED = {"authorization-server-metadata", "authorization-server-metadata-cimd", "authorization-code-grant"}
PAGE = re.compile(r"^(http://\S+/authorize\?\S+)\s*$", re.MULTILINE)


def test_dev_auth_suite_has_no_failure_or_warning(tmp_path: Path) -> None:
    server = Server("notes", auth=DevAuth(users=["ada"]), scopes={"notes:read": "Read notes"})
    with in_thread_at(lambda origin: server.asgi(public_url=f"{origin}/mcp")) as origin:
        assert judged(origin, allow, tmp_path) == PASSED


@pytest.mark.parametrize(("path", "names_resource"), [("", True), ("", False), ("/login", True)])
def test_oauth_proxy_suite_has_no_failure_or_warning(
    browser: Browser, tmp_path: Path, path: str, names_resource: bool
) -> None:
    with serve_proxy(issuer=path) as proxy, browser.profile() as page:
        issuer = proxy.url.removesuffix("/mcp") + path
        options = ["--resource", proxy.url] if names_resource else []
        assert judged(issuer, lambda url: page.log_in(url, "bob"), tmp_path, *options) == PASSED
        proxy.check_legs(logins=1, issuer=path)


def judged(issuer: str, log_in: Callable[[str], object], results: Path, *options: str) -> set[str]:
    """Have the suite look at an authorization server, at which a user logs in, and return what it finds good."""
    metadata = {"redirect_uris": ["http://127.0.0.1/callback"], "token_endpoint_auth_method": "none"}
    client_id = httpx2.post(f"{issuer}/register", json=metadata).json()["client_id"]
    command = [find_node(), str(SUITE), "authorization", "--url", issuer, "--client-id", client_id, *options]
    command += ["-p", str(free_port()), "--output-dir", str(results)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as suite:
        # It ends by itself; this is for when nobody answers its question.
        watchdog = threading.Timer(PATIENCE, suite.kill)
        watchdog.start()
        assert suite.stdout is not None
        shown = ""
        for line in suite.stdout:
            shown += line
            if page := PAGE.match(line):
                log_in(page[1])
        status = suite.wait()
        watchdog.cancel()
    assert status == 0, shown
    checks = [check for file in results.rglob("checks.json") for check in json.loads(file.read_text("utf-8"))]
    assert [check for check in checks if check["status"] in FAILED] == []
    return {check["id"] for check in checks if check["status"] == "SUCCESS"}


def allow(page: str) -> None:
    """Click as a user does, and let the browser follow."""
    with httpx2.Client(follow_redirects=True) as browser:
        shown = browser.get(page)
        answered = browser.post(page.partition("?")[0], data=PageForms(shown.text).forms[0])
    assert answered.text == "OK. You can close this page."
