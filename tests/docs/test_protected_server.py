"""The servers of the tutorial on authorization and of the page on tools for some users, over HTTP."""

import os
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest

from tests.helpers.identity_provider import providing
from tests.helpers.pipe import http_request
from tests.helpers.serving import ROOT, Served, in_thread

from .pages import Block, Runner, blocks_of

PAGE = ROOT / "docs" / "learn" / "add-login.md"
HERE = "http://127.0.0.1:8000"
EXAMPLE = ROOT / "examples" / "notes" / "server.py"


def block(title: str) -> Block:
    [found] = [each for each in blocks_of(PAGE.read_text()) if each.title == title]
    return found


def shown(command: str) -> str:
    """The output of a command on the page."""
    blocks = [each.text for each in blocks_of(PAGE.read_text()) if each.language == "console"]
    [found] = [each for each in blocks if each.startswith(f"$ {command}")]
    return found.partition("\n")[2]


def test_protected_server_page_has_the_example() -> None:
    assert block("server.py").text == EXAMPLE.read_text()


def test_protected_server_login_prints_what_the_page_shows(tmp_path: Path) -> None:
    for name in ("server.py", "log_in.py"):
        (tmp_path / name).write_text(block(name).text)
    with Served([sys.executable, str(tmp_path / "server.py")], PORT=0) as server:
        origin = server.origin
        client = tmp_path / "log_in.py"
        client.write_text(client.read_text().replace(HERE, origin))
        settings = {
            "BROWSER": f"{sys.executable} {ROOT / 'tests/helpers/clicking_browser.py'} %s",
            "PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring",
        }
        command = [sys.executable, str(client)]
        done = subprocess.run(command, env=os.environ | settings, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        assert done.stdout == shown("python log_in.py")

        refused = httpx2.post(f"{origin}/mcp").headers["WWW-Authenticate"]
        assert f"www-authenticate: {refused}\n" == shown("curl -si").replace(HERE, origin)

        server.wait_for("Public URL: ")
        lines = {line.replace(HERE, origin) for line in shown("python server.py").splitlines()}
        assert lines - {"..."} <= {*server.notes.splitlines()}


@pytest.mark.skipif(sys.platform == "win32", reason="the workers of uvicorn share a port")
def test_protected_server_workers_share_notes_over_a_restart(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "uvicorn", "--factory", "server:app", "--app-dir", str(EXAMPLE.parent)]
    url = "https://notes.example.com/mcp"
    with providing() as provider:
        settings = {"ISSUER": provider.issuer, "PUBLIC_URL": url, "DATABASE": str(tmp_path / "notes.db")}
        settings["MCPKIT_SECRET"] = "at least sixteen characters"
        token = provider.token("ada", "notes:write", url)
        for kept in (0, 3):
            with Served([*command, "--port", "0", "--workers", "2"], **settings) as server:
                server.wait_for("Application startup complete", times=2)
                for number in range(kept + 1, kept + 4):  # on a connection each, to whichever worker takes it
                    assert f"Noted, as number {number}." in _call(
                        server.origin, token, "add_note", {"text": "a"}
                    )
                assert httpx2.get(f"{server.origin}/health").status_code == 200
                assert _call(server.origin, token, "list_notes", {}).count('\\"a\\"') == kept + 3


def _call(origin: str, token: str, tool: str, arguments: dict[str, str]) -> str:
    headers, message = http_request("tools/call", name=tool, arguments=arguments)
    headers |= {"Host": "notes.example.com", "Authorization": f"Bearer {token}"}
    answer = httpx2.post(f"{origin}/mcp", json=message, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.text


def test_per_user_app_requires_a_token(tmp_path: Path) -> None:
    before, _, _ = (
        (ROOT / "docs/guides/per-user-tools.md").read_text().partition("### A header set by a proxy")
    )
    runner = Runner("per-user", tmp_path)
    runner.run(before)
    headers, message = http_request("tools/list")
    with in_thread(runner._module.with_tokens.app) as url:
        for token in ({}, {"Authorization": "Bearer guessed"}, {"Authorization": "Basic eA=="}):
            answer = httpx2.post(f"{url}/mcp", json=message, headers={**headers, **token})
            assert (answer.status_code, answer.headers["WWW-Authenticate"]) == (401, 'Bearer realm="notes"')
        headers["Authorization"] = "bearer token-of-bob"
        answer = httpx2.post(f"{url}/mcp", json=message, headers=headers)
        assert [tool["name"] for tool in answer.json()["result"]["tools"]] == ["search"]
        statuses = [httpx2.get(url + path).status_code for path in ("/health", "/healthy")]
    assert statuses == [200, 401]
