"""Programs that log in through the browser of their user: mcp-remote, the inspector and the mcpkit command."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from mcp import StdioServerParameters

from tests.helpers.browser import OUR_ALLOW
from tests.helpers.node import node_search_path
from tests.integration.auth.clients import BRIDGE, LAUNCHER, environment, mcp_remote_journey, page_of
from tests.integration.auth.clients import INSPECTOR_TIME_OUT as TIME_OUT

ERAS = ["legacy", "modern"]


FIRST, MORE = ["notes:read"], ["notes:read", "notes:write"]


@pytest.mark.parametrize("mode", ["auto"])
def test_mcp_remote_logs_in_and_steps_up(proxy, user, page, launched, tmp_path, mode):
    settings = {
        "HOME": str(tmp_path),
        "MCP_REMOTE_CONFIG_DIR": str(tmp_path / "stored"),
        "PATH": launched.path(node_search_path()),
        **launched.environment,
    }
    command = StdioServerParameters(command="node", args=[str(BRIDGE), proxy.url], env=settings)
    with user.answering(launched):
        seen = anyio.run(mcp_remote_journey, command, mode)
    assert seen == {
        "before": {"subject": "bob", "scopes": FIRST},
        "added": "added",
        "after": {"subject": "bob", "scopes": MORE},
    }
    assert len(user.logins) == 2
    proxy.check_legs(logins=2)
    proxy.check_secrets(page, clients=texts_in(tmp_path))


@pytest.mark.parametrize("era", ERAS)
def test_inspector_cli_logs_in(proxy, user, page, launched, tmp_path, era):
    options = ["--protocol-era", era, "--quiet", "--callback-url", "http://127.0.0.1:0/oauth/callback"]
    command = ["node", LAUNCHER, "--cli", proxy.url, *options, "--method", "tools/call", "--tool-name"]
    settings = environment(
        tmp_path, launched.path(node_search_path()), MCP_AUTO_OPEN_ENABLED="true", **launched.environment
    )
    with user.answering(launched):
        for _ in range(2):
            finished = subprocess.run(
                [*command, "whoami"],
                capture_output=True,
                cwd=tmp_path,
                encoding="utf-8",
                env=settings,
                stdin=subprocess.DEVNULL,
                timeout=TIME_OUT,
            )
            assert finished.returncode == 0, finished.stderr
            assert json.loads(finished.stdout)["structuredContent"] == {"subject": "bob", "scopes": FIRST}
    assert len(user.logins) == 1, "the second time it has a token"
    proxy.check_legs(logins=1)
    proxy.check_secrets(page, clients=texts_in(tmp_path))


@pytest.mark.long
@pytest.mark.parametrize("era", ERAS)
def test_inspector_page_logs_in_and_steps_up(proxy, page, tmp_path, era):
    with page_of(tmp_path, proxy.url, era) as url:
        back = url.split("?")[0].rstrip("/") + "/oauth/callback"
        execute = "button:has-text('Execute Tool')"
        page.open(url)
        page.click("[class*=Switch-track]")
        page.first(OUR_ALLOW)
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
        page.first(OUR_ALLOW)
        assert "Change notes" in page.consent(back, "bob").pages[0]
        page.first("text=Retry your action")
        page.click(execute)
        page.first("text=added")
    assert proxy.guarded.notes == ["a"]
    proxy.check_legs(logins=2)
    proxy.check_secrets(page, clients=texts_in(tmp_path))


def test_mcpkit_command_logs_in_and_out(proxy, user, page, launched, tmp_path):
    settings = {
        "HOME": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "PATH": launched.path(node_search_path()),
        "PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring",
        **launched.environment,
    }

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "mcpkit", *words]
        return subprocess.run(
            command, capture_output=True, cwd=tmp_path, encoding="utf-8", env=settings, timeout=TIME_OUT
        )

    with user.answering(launched):
        login = run("auth", "login", proxy.url, "--scope", "notes:write")
    assert login.returncode == 0, login.stderr
    assert "notes:write" in login.stdout
    called = run("call", proxy.url, "whoami")
    assert '"bob"' in called.stdout, called.stderr
    stored = texts_in(tmp_path)
    assert proxy.wire.seen("/token", "POST")[0].said["refresh_token"] in stored
    proxy.check_legs(logins=1)
    proxy.check_secrets(page, clients=stored)

    assert run("auth", "logout", proxy.url).returncode == 0
    [token] = proxy.provider.seen("/token")
    revoked = [each.params["token"] for each in proxy.provider.seen("/token/revocation")]
    assert token.said["refresh_token"] in revoked, "the provider hears of the logout"
    assert run("call", proxy.url, "whoami").returncode == 3


def texts_in(folder: Path) -> str:
    files = (path for path in folder.rglob("*") if path.is_file())
    return "\n".join(path.read_bytes().decode("utf-8", "replace") for path in files)
