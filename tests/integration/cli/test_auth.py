"""mcpkit auth: login, logout, list and check."""

import json
import os
import sys
import threading
from collections.abc import Callable, Iterator
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

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of logins of a user without a keyring and with a browser that follows every URL."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("BROWSER", f"{sys.executable} {HELPERS / 'clicking_browser.py'} %s")
    return tmp_path / "config" / "mcpkit"


@pytest.fixture
def server() -> Iterator[Granting]:
    with granting() as served:
        yield served


@pytest.fixture
def dev_url() -> Iterator[str]:
    """The endpoint of a server with `DevAuth`."""
    with in_thread_at(
        lambda origin: notes(DevAuth(users=["ada"])).asgi(public_url=f"{origin}/mcp")
    ) as origin:
        yield f"{origin}/mcp"


def test_auth_login_is_used_by_commands_until_logout(server: Granting, home: Path, mcpkit: Run) -> None:
    status, _, err = mcpkit("list", server.url, "tools")
    assert (status, f"mcpkit auth login {server.url}" in err) == (3, True)
    message = f"logged in to {server.url} with {server.origin}; scopes: notes:read\n"
    assert mcpkit("auth", "login", server.url)[:2] == (0, message)
    assert {path.stat().st_mode & 0o77 for path in (home, home / "tokens", home / "logins.json")} == {0}
    assert mcpkit("list", server.url, "tools")[0] == 0
    status, out, _ = mcpkit("call", server.url, "whoami")
    assert (status, "ada" in out) == (0, True)
    assert mcpkit("list", server.url, "--token", "of-another-user")[0] == 3
    assert mcpkit("list", server.url, "--token", next(iter(server.live)))[0] == 0

    status, out, _ = mcpkit("auth", "list", "--json")
    assert status == 0
    [login] = json.loads(out)
    assert (login["url"], login["issuer"], login["scopes"]) == (server.url, server.origin, ["notes:read"])
    assert (login["has_ended"], login["is_renewed"]) == (False, True)
    kept = (home / "tokens").read_text()
    assert all(token in kept and token not in out for token in server.live)
    assert server.url in mcpkit("auth", "list")[1]

    status, out, _ = mcpkit("auth", "logout", server.url)
    assert (status, f"{server.origin} has no revocation endpoint" in out) == (0, True)
    assert not any(token in (home / "tokens").read_text() for token in server.live)
    assert mcpkit("list", server.url)[0] == 3
    status, _, err = mcpkit("auth", "logout", server.url)
    assert (status, "no login for" in err) == (2, True)


def test_auth_logout_revokes_tokens_of_dev_auth(dev_url: str, mcpkit: Run) -> None:
    keys, before = MemoryKeyring(), keyring.get_keyring()
    keyring.set_keyring(keys)
    try:
        status, out, _ = mcpkit("auth", "login", dev_url, "--scope", "notes:write", "--dpop")
        assert (status, "notes:write" in out) == (0, True)
        assert mcpkit("list", dev_url, "tools")[0] == 0
        assert any(name.startswith("tokens") for _, name in keys.entries)
        status, out, _ = mcpkit("auth", "logout", dev_url)
        assert (status, f"{dev_url.removesuffix('/mcp')} revoked the tokens" in out) == (0, True)
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


def test_auth_login_at_open_server_is_reported(mcpkit: Run) -> None:
    with in_thread(Server("open").asgi()) as origin:
        status, out, _ = mcpkit("auth", "login", f"{origin}/mcp")
    assert (status, "does not require a login" in out) == (0, True)


def test_auth_client_secret_is_stored_with_tokens(server, home, monkeypatch, mcpkit) -> None:
    monkeypatch.setenv("MCPKIT_CLIENT_SECRET", "the secret of the editor")
    server.lifetime = 1  # so that it is renewed at once
    words = ("auth", "login", server.url, "--client-id", "editor", "--issuer", server.origin)
    assert mcpkit(*words)[0] == 0
    assert "the secret of the editor" not in (home / "logins.json").read_text()
    assert mcpkit("list", server.url, "tools")[0] == 0
    assert "register" not in [what for what, _ in server.asked]
    assert mcpkit("auth", "logout", server.url)[0] == 0
    assert "the secret of the editor" not in (home / "tokens").read_text()


def test_auth_check_reports_findings_and_hosts(dev_url: str, mcpkit: Run) -> None:
    with in_thread(Site(challenge=None).app()) as origin:
        status, out, _ = mcpkit("auth", "check", f"{origin}/mcp", "--json")
        assert (status, "no-challenge" in {each["code"] for each in json.loads(out)}) == (6, True)
        status, out, _ = mcpkit("auth", "check", f"{origin}/mcp")
        assert (status, "  Fix: " in out) == (6, True)
    check = ("auth", "check", dev_url)
    assert mcpkit(*check)[0] == 0
    status, out, _ = mcpkit(*check, "--hosts")
    assert (status, "\nCursor: logs in after dynamic registration\n" in out) == (0, True)
    status, out, _ = mcpkit(*check, "--hosts", "--json")
    assert (status, set(json.loads(out))) == (0, {"findings", "hosts"})
    assert json.loads(out)["hosts"]["Claude"] == "logs in with its client ID metadata document"


def test_auth_list_unreadable_logins_is_error(home: Path, mcpkit: Run) -> None:
    home.mkdir(parents=True)
    (home / "logins.json").write_text('{"version": 99}')
    status, _, err = mcpkit("auth", "list")
    assert status == 1
    assert "logins.json is invalid or was written by another version" in err
