"""The official conformance suite against `DevAuth`, with a program in the part of the user."""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
from pathlib import Path

import httpx2
import pytest

from authority_site import Forms
from conformance.run import FAILED, NODE_MODULES, find_node, free_port
from mcpkit import Server
from mcpkit.auth import DevAuth
from serving import in_thread_at

pytestmark = pytest.mark.skipif(
    os.environ.get("MCPKIT_TEST_NODE") == "0", reason="left out on purpose: MCPKIT_TEST_NODE=0"
)

SUITE = NODE_MODULES / "conformance-0-2" / "dist" / "index.js"
PATIENCE = 120.0
PAGE = re.compile(r"^(http://\S+/authorize\?\S+)\s*$", re.MULTILINE)


def test_the_suite_finds_neither_a_failure_nor_a_warning(tmp_path: Path) -> None:
    server = Server("notes", auth=DevAuth(users=["ada"]), scopes={"notes:read": "Read notes"})
    with in_thread_at(lambda origin: server.asgi(public_url=f"{origin}/mcp")) as origin:
        port = free_port()
        metadata = {
            "redirect_uris": ["http://127.0.0.1/callback"],
            "token_endpoint_auth_method": "none",
        }
        client_id = httpx2.post(f"{origin}/register", json=metadata).json()["client_id"]
        command = [find_node(), str(SUITE), "authorization", "--url", origin, "--client-id", client_id]
        command += ["-p", str(port), "--output-dir", str(tmp_path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as suite:
            # It ends by itself; this is for when nobody answers its question.
            watchdog = threading.Timer(PATIENCE, suite.kill)
            watchdog.start()
            assert suite.stdout is not None
            shown = ""
            for line in suite.stdout:
                shown += line
                if page := PAGE.match(line):
                    allow(page[1])
            status = suite.wait()
            watchdog.cancel()
    assert status == 0, shown
    checks = [
        check for file in tmp_path.rglob("checks.json") for check in json.loads(file.read_text("utf-8"))
    ]
    assert [check for check in checks if check["status"] in FAILED] == []
    assert {check["id"] for check in checks if check["status"] == "SUCCESS"} == {
        "authorization-server-metadata",
        "authorization-server-metadata-cimd",
        "authorization-code-grant",
    }


def allow(page: str) -> None:
    """Click as a user does, and let the browser follow."""
    with httpx2.Client(follow_redirects=True) as browser:
        shown = browser.get(page)
        answered = browser.post(page.partition("?")[0], data=Forms(shown.text).forms[0])
    assert answered.text == "OK. You can close this page."
