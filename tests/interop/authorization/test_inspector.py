"""The official inspector logs in by the browser: its command line, and its page, which asks for more as well."""

from __future__ import annotations

import json
import re
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.helpers.node import node_search_path
from tests.helpers.serving import Served

LAUNCHER = Path(__file__).parents[3] / "node_modules/inspector-2/clients/launcher/build/index.js"
ERAS = ["legacy", "modern"]
TIME_OUT = 60


def environment(home: Path, path: str, **more: str) -> dict[str, str]:
    return {"HOME": str(home), "MCP_INSPECTOR_SECRET_STORE": "file", "NO_COLOR": "1", "PATH": path, **more}


@pytest.mark.parametrize("era", ERAS)
def test_the_command_line(guarded, user, launched, tmp_path, era):
    options = ["--protocol-era", era, "--quiet", "--callback-url", "http://127.0.0.1:0/oauth/callback"]
    command = ["node", LAUNCHER, "--cli", guarded.url, *options, "--method", "tools/call", "--tool-name"]

    def call(tool: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*command, tool, *arguments],
            capture_output=True,
            cwd=tmp_path,
            encoding="utf-8",
            env=environment(
                tmp_path,
                launched.path(node_search_path()),
                MCP_AUTO_OPEN_ENABLED="true",
                **launched.environment,
            ),
            stdin=subprocess.DEVNULL,
            timeout=TIME_OUT,
        )

    with user.answering(launched):
        for _ in range(2):
            finished = call("whoami")
            assert finished.returncode == 0, finished.stderr
            said = json.loads(finished.stdout)["structuredContent"]
            assert said == {"subject": "bob", "scopes": ["notes:read"]}
        assert len(guarded.challenges) == 1, "the second time it has a token"
        # It goes for a token with the same scopes, and gives up.
        assert call("add_note", "--tool-arg", "text=a").returncode != 0
    assert guarded.notes == []
    assert "notes:write" not in str([login.pages for login in user.logins])
    assert 1 <= sum(each.status == 403 for each in guarded.exchanges) <= 2


def free_port() -> str:
    """A port that is free now: the inspector has to be told one."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return str(listener.getsockname()[1])


@contextmanager
def page_of(home: Path, url: str, era: str) -> Iterator[str]:
    """Run the inspector, and give the URL of its page."""
    command = [
        "node",
        str(LAUNCHER),
        "--web",
        "--server-url",
        url,
        "--transport",
        "http",
        "--protocol-era",
        era,
    ]
    settings = environment(
        home,
        node_search_path(),
        CLIENT_PORT=free_port(),
        MCP_AUTO_OPEN_ENABLED="false",
        MCP_SANDBOX_PORT="0",
    )
    # It says where it is on its standard output.
    with Served(["/bin/sh", "-c", 'exec "$@" >&2', "sh", *command], **settings) as served:
        served.wait_for("MCP_INSPECTOR_API_TOKEN=")
        found = re.search(r"http://\S+MCP_INSPECTOR_API_TOKEN=\w+", served.notes)
        assert found is not None
        yield found[0]


@pytest.mark.long
@pytest.mark.parametrize("era", ERAS)
def test_the_page(guarded, browser, tmp_path, era):
    with page_of(tmp_path, guarded.url, era) as url, browser.profile() as page:
        back = url.split("?")[0].rstrip("/") + "/oauth/callback"
        execute = "button:has-text('Execute Tool')"
        page.open(url)
        page.click("[class*=Switch-track]")
        page.first("[name=log-in]")
        page.consent(back, "bob")

        page.click("text=Tools")
        page.click("text=whoami")
        page.click(execute)
        page.first("text=Structured Output")
        assert '"bob"' in page.text()
        assert '"notes:write"' not in page.text()

        page.click("text=add_note")
        page.fill("[aria-keyshortcuts=Enter]", "a")
        page.click(execute)
        page.click("button:has-text('Authorize')")
        page.first("[name=allow]")
        asked = page.consent(back, "bob").pages
        assert "notes:write" in asked[0]
        assert "notes:read" not in asked[0], "that is granted already"
        page.first("text=Retry your action")
        page.click(execute)
        page.first("text=added")
    assert guarded.notes == ["a"]
    refused = [(each.status, each.message) for each in guarded.exchanges if each.status in (401, 403)]
    first = "initialize" if era == "legacy" else "server/discover"
    assert refused == [(401, first), (403, "tools/call add_note")]
