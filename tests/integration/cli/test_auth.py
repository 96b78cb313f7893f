"""mcpkit auth: login, logout, list and check."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import keyring
import pytest

from mcpkit import Server
from mcpkit.auth import DevAuth
from mcpkit.cli.app import run
from tests.helpers.authorization_server import Granting, Site, granting, notes
from tests.helpers.oauth_flow import MemoryKeyring
from tests.helpers.serving import HELPERS, in_thread, in_thread_at


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user without a keyring, whose browser goes wherever it is sent."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("BROWSER", f"{sys.executable} {HELPERS / 'clicking_browser.py'} %s")
    return tmp_path / "config" / "mcpkit"


@pytest.fixture
def server() -> Iterator[Granting]:
    with granting() as served:
        yield served


def test_auth_login_is_used_by_commands_until_logout(
    server: Granting, home: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["list", server.url, "tools"]) == 3
    assert f"mcpkit auth login {server.url}" in capfd.readouterr().err

    assert run(["auth", "login", server.url]) == 0
    assert capfd.readouterr().out == f"logged in to {server.url} with {server.origin}; scopes: notes:read\n"
    assert {path.stat().st_mode & 0o77 for path in (home, home / "tokens", home / "logins.json")} == {0}
    assert run(["list", server.url, "tools"]) == 0
    capfd.readouterr()
    assert run(["call", server.url, "whoami"]) == 0
    assert "ada" in capfd.readouterr().out
    assert run(["list", server.url, "--token", "of-somebody-else"]) == 3

    capfd.readouterr()
    assert run(["auth", "list", "--json"]) == 0
    shown = capfd.readouterr().out
    [login] = json.loads(shown)
    assert (login["url"], login["issuer"], login["scopes"]) == (server.url, server.origin, ["notes:read"])
    assert (login["has_ended"], login["is_renewed"]) == (False, True)
    kept = (home / "tokens").read_text()
    assert all(token in kept and token not in shown for token in server.live)
    assert run(["auth", "list"]) == 0
    assert server.url in capfd.readouterr().out

    assert run(["auth", "logout", server.url]) == 0
    assert f"{server.origin} has no revocation endpoint" in capfd.readouterr().out
    assert not any(token in (home / "tokens").read_text() for token in server.live)
    assert run(["list", server.url]) == 3
    assert run(["auth", "logout", server.url]) == 2
    assert "no login for" in capfd.readouterr().err


def test_auth_logout_revokes_tokens_of_dev_auth(
    capfd: pytest.CaptureFixture[str],
) -> None:
    keys = MemoryKeyring()
    before = keyring.get_keyring()
    keyring.set_keyring(keys)
    try:
        with in_thread_at(
            lambda origin: notes(DevAuth(users=["ada"])).asgi(public_url=f"{origin}/mcp")
        ) as origin:
            url = f"{origin}/mcp"
            assert run(["auth", "login", url, "--scope", "notes:write", "--dpop"]) == 0
            assert "notes:write" in capfd.readouterr().out
            assert run(["list", url, "tools"]) == 0
            kept = {name: text for (_, name), text in keys.entries.items() if name.startswith("tokens")}
            assert kept
            assert run(["auth", "logout", url]) == 0
            assert f"{origin} revoked the tokens" in capfd.readouterr().out
            assert not any(name.startswith("tokens") for _, name in keys.entries)
    finally:
        keyring.set_keyring(before)


def test_auth_login_no_browser_prints_the_url(server: Granting) -> None:
    """The page is read from standard error while the command waits, as a person would."""
    reading, writing = os.pipe()
    visited: list[str] = []

    def visit() -> None:
        with os.fdopen(reading, encoding="utf-8") as lines:
            for line in lines:
                if line.strip().startswith("http"):
                    visited.append(line.strip())
                    urlopen(line.strip(), timeout=30).read()

    reader = threading.Thread(target=visit)
    reader.start()
    with os.fdopen(writing, "w", encoding="utf-8") as errors, pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stderr", errors)
        assert run(["auth", "login", server.url, "--no-browser"]) == 0
    reader.join()
    assert len(visited) == 1
    assert visited[0].startswith(f"{server.origin}/main/authorize?")


def test_auth_login_at_open_server_is_reported(capfd: pytest.CaptureFixture[str]) -> None:
    with in_thread(Server("open").asgi()) as origin:
        assert run(["auth", "login", f"{origin}/mcp"]) == 0
    assert "does not require a login" in capfd.readouterr().out


def test_auth_client_secret_is_stored_with_tokens(
    server: Granting, home: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MCPKIT_CLIENT_SECRET", "the secret of the editor")
    server.lifetime = 1  # so that it is renewed at once
    words = ["auth", "login", server.url, "--client-id", "editor", "--issuer", server.origin]
    assert run(words) == 0, capfd.readouterr()
    assert "the secret of the editor" not in (home / "logins.json").read_text()
    assert run(["list", server.url, "tools"]) == 0
    assert "register" not in [what for what, _ in server.asked]
    assert run(["auth", "logout", server.url]) == 0
    assert "the secret of the editor" not in (home / "tokens").read_text()


def test_auth_check_reports_findings_and_hosts(capfd: pytest.CaptureFixture[str]) -> None:
    with in_thread(Site(challenge=None).app()) as origin:
        assert run(["auth", "check", f"{origin}/mcp", "--json"]) == 6
        assert "no-challenge" in {each["code"] for each in json.loads(capfd.readouterr().out)}
        assert run(["auth", "check", f"{origin}/mcp"]) == 6
        assert "What to change: " in capfd.readouterr().out
    with in_thread_at(
        lambda origin: notes(DevAuth(users=["ada"])).asgi(public_url=f"{origin}/mcp")
    ) as origin:
        assert run(["auth", "check", f"{origin}/mcp"]) == 0
        capfd.readouterr()
        assert run(["auth", "check", f"{origin}/mcp", "--hosts"]) == 0
        assert "\nCursor: logs in after dynamic registration\n" in capfd.readouterr().out
        assert run(["auth", "check", f"{origin}/mcp", "--hosts", "--json"]) == 0
        told = json.loads(capfd.readouterr().out)
        assert set(told) == {"findings", "hosts"}
        assert told["hosts"]["Claude"] == "logs in with its client ID metadata document"


def test_auth_list_unreadable_logins_is_error(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    home.mkdir(parents=True)
    (home / "logins.json").write_text('{"version": 99}')
    assert run(["auth", "list"]) == 1
    assert "logins.json is invalid or was written by another version" in capfd.readouterr().err
