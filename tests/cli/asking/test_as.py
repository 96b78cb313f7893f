"""`--as USER`: a server in this process, asked as one of its users."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

SERVER = '''
from mcpkit import Context, Server
from mcpkit.auth import StaticTokens

print("imported")
server = Server("notes", auth=StaticTokens({StaticTokens.make()[0]: "backup"}))


@server.tool(scopes={"write"})
def write(ctx: Context) -> str:
    """Write."""
    return f"{ctx.principal.id}={ctx.principal.subject} {sorted(ctx.principal.scopes)}"


@server.resource("notes://mine", visible=lambda principal: principal.id == "ada")
def mine(ctx: Context) -> str:
    """The user's own."""
    return f"of {ctx.principal.id}"
'''


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes_with_users.py").write_text(SERVER)
    monkeypatch.delitem(sys.modules, "notes_with_users", raising=False)
    return "notes_with_users.py"


def test_a_user_has_what_is_granted_and_sees_what_is_theirs(
    mcpkit: Callable[..., tuple[int, str, str]], file: str
) -> None:
    status, out, err = mcpkit("call", file, "write", "--as", "ada", "--scopes", "read write")
    assert (status, out) == (0, "ada=ada ['read', 'write']\n"), err
    assert "imported" in err
    status, out, err = mcpkit("call", file, "write", "--as", "ada", "--scopes", "read")
    assert (status, out) == (5, "")
    assert "write" in err
    assert mcpkit("read", file, "notes://mine", "--as", "ada")[:2] == (0, "of ada\n")
    assert mcpkit("read", file, "notes://mine", "--as", "bob")[0] == 2
    assert "notes://mine" in mcpkit("list", file, "resources", "--as", "ada")[1]
    assert "notes://mine" not in mcpkit("list", file, "resources", "--as", "bob")[1]
    assert (
        mcpkit("call", file, "write", "--as", "ada", "--scopes", "write", "--all-revisions", "--yes")[0] == 0
    )


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["call", "https://x.example/mcp", "write", "--as", "ada"], "give --token for a URL"),
        (["call", "npx notes", "write", "--as", "ada"], "is none"),
        (
            ["call", "FILE", "write", "--as", "ada", "--token", "x"],
            "--token is for servers in other processes",
        ),
        (["call", "FILE", "write", "--as", "ada", "--login"], "--login is for servers in other processes"),
        (["call", "FILE", "write", "--as", "ada", "--cwd", "."], "--cwd is for servers in other processes"),
        (["call", "FILE", "write", "--scopes", "read"], "Add --as USER"),
        (["call", "FILE", "write", "--as", "ada", "--sse"], "--sse is for servers in other processes"),
        (["call", "FILE", "write", "--as", ""], "--as has no user"),
        (["doctor", "FILE", "--as", "ada"], "doctor looks at servers from outside"),
    ],
)
def test_other_targets_and_options_are_refused(
    words: list[str], told: str, mcpkit: Callable[..., tuple[int, str, str]], file: str
) -> None:
    status, out, err = mcpkit(*(file if word == "FILE" else word for word in words))
    assert (status, out) == (1, "")
    assert told in err
