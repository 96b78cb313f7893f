"""`mcpkit install` and `mcpkit uninstall`: what they write into the files of hosts, and what they leave alone."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from mcpkit.cli.configurations import places
from mcpkit.cli.configurations.table import HOSTS
from mcpkit.common.start import mcpkit_command

CURSOR = ".cursor/mcp.json"
OTHERS = '{\n\t// mine\n\t"mcpServers": {\n\t\t"other": {"command": "x"}, // keep\n\t},\n}\n'


@pytest.fixture
def file(home: Path) -> Path:
    (home / ".cursor").mkdir()
    return home / CURSOR


def test_install_writes_absolute_paths_and_uninstall_restores_the_file(mcpkit, file, home, project):
    file.write_bytes(b"\xef\xbb\xbf" + OTHERS.replace("\n", "\r\n").encode())
    before = file.read_bytes()
    status, out, err = mcpkit("install", "cursor", "server.py", "-e", "TOKEN=secret")
    assert (status, out) == (0, "")
    assert "added The-shop to " in err
    assert "the file contains the values of TOKEN in plain text" in err
    assert "does not seem" not in err
    assert "secret" not in err
    written = file.read_bytes().decode("utf-8-sig")
    [program] = mcpkit_command()
    entry = (
        f'\t\t"The-shop": {{\r\n\t\t\t"type": "stdio",\r\n\t\t\t"command": {json.dumps(program)},\r\n'
        f'\t\t\t"args": [\r\n\t\t\t\t"run",\r\n'
        f"\t\t\t\t{json.dumps(str(project / 'server.py'))}\r\n\t\t\t],\r\n"
        f'\t\t\t"env": {{\r\n\t\t\t\t"TOKEN": "secret"\r\n\t\t\t}}\r\n\t\t}},\r\n'
    )
    assert written.replace(entry, "") == OTHERS.replace("\n", "\r\n")
    assert (home / f"{CURSOR}.bak").read_bytes() == before
    status, _, err = mcpkit("uninstall", "cursor", "The-shop")
    assert (status, file.read_bytes()) == (0, before)
    assert "to its previous content" in err
    assert not (home / f"{CURSOR}.bak").exists()


def test_install_again_changes_nothing_or_replaces_own_entry(mcpkit, file):
    mcpkit("install", "cursor", "server.py", "--name", "shop")
    before = file.read_bytes()
    status, _, err = mcpkit("install", "cursor", "server.py", "--name", "shop")
    assert (status, file.read_bytes()) == (0, before)
    assert "nothing changed" in err
    assert mcpkit("install", "cursor", "server.py", "--name", "shop", "-e", "A=1")[0] == 0  # it is ours
    assert json.loads(file.read_text())["mcpServers"]["shop"]["env"] == {"A": "1"}
    assert [each.name for each in file.parent.iterdir()] == ["mcp.json"]
    assert mcpkit("uninstall", "cursor", "shop")[0] == 0
    assert not file.exists()


def test_install_and_uninstall_need_force_for_entries_of_others(mcpkit, file):
    file.write_text(OTHERS)
    status, _, err = mcpkit("install", "cursor", "server.py", "--name", "other")
    assert (status, file.read_text()) == (1, OTHERS)
    assert "already has another server other. Choose another --name, or overwrite it with --force" in err
    status, _, err = mcpkit("uninstall", "cursor", "other")
    assert (status, file.read_text()) == (1, OTHERS)
    assert "did not install" in err
    assert mcpkit("install", "cursor", "server.py", "--name", "other", "--force")[0] == 0
    assert mcpkit("uninstall", "cursor", "other")[0] == 0
    assert file.read_text() == OTHERS
    assert mcpkit("uninstall", "cursor", "other", "--force")[0] == 0
    assert file.read_text() == '{\n\t// mine\n\t"mcpServers": {\n\t\t// keep\n\t},\n}\n'
    assert file.with_name("mcp.json.bak").read_text() == OTHERS


@pytest.mark.skipif(os.name == "nt", reason="links need rights there")
def test_install_follows_links_and_keeps_modes(mcpkit, file, tmp_path):
    kept = tmp_path / "dotfiles.json"
    kept.write_text(OTHERS)
    kept.chmod(0o640)
    file.symlink_to(kept)
    mcpkit("install", "cursor", "server.py", "--name", "shop")
    assert file.is_symlink()
    assert "shop" in kept.read_text()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o640
    mcpkit("uninstall", "cursor", "shop")
    assert kept.read_text() == OTHERS


@pytest.mark.parametrize(
    ("host", "text", "message"),
    [
        ("cursor", '{\n  "mcpServers": {,}\n}', "is not valid JSON: Expecting property name"),
        ("cursor", '{\n  "a": 1\n  "b": 2\n}', "line 3 column 3"),
        ("cursor", "[]", "its top level must be an object"),
        ("cursor", '{"mcpServers": []}', "mcpServers must be an object with the servers by name"),
        ("cursor", b"\xff\xfe{\x00}\x00", "is not UTF-8"),
        ("codex", "[mcp_servers\n", "is not valid TOML"),
        ("codex", "a = 1\nb = = 2\n", "line 2"),
        ("goose", "a: 1\nb: [1\nc: 2\n", "is not valid YAML"),
        ("goose", "a: 1\n b: 2\n", "line 2 column"),
    ],
)
def test_install_broken_file_is_rejected_with_position_and_unchanged(mcpkit, home, host, text, message):
    path = places.user_file(HOSTS[host].user)
    path.parent.mkdir(parents=True)
    data = text.encode() if isinstance(text, str) else text
    path.write_bytes(data)
    status, _, err = mcpkit("install", host, "server.py", "--name", "shop")
    assert (status, path.read_bytes()) == (1, data)
    assert str(path) in err
    assert message in err
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_install_dry_run_prints_diff_and_writes_nothing(mcpkit, file):
    file.write_text(OTHERS)
    status, out, _ = mcpkit("install", "cursor", "https://x.example/mcp", "--name", "far", "--dry-run")
    assert (status, file.read_text()) == (0, OTHERS)
    assert out.splitlines()[3:] == [
        " \t// mine",
        ' \t"mcpServers": {',
        ' \t\t"other": {"command": "x"}, // keep',
        '+\t\t"far": {',
        '+\t\t\t"url": "https://x.example/mcp"',
        "+\t\t},",
        " \t},",
        " }",
    ]
    assert [each.name for each in file.parent.iterdir()] == ["mcp.json"]


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (("install", "curser", "server.py"), 2, "unknown host curser; did you mean cursor?"),
        (("install", "cursor", "absent.py"), 2, "absent.py does not exist"),
        (
            ("install", "cursor", "server.py", "--cwd", "/"),
            1,
            "Cursor has no setting for the working directory",
        ),
        (("install", "cursor", "server.py", "-H", "A:b"), 1, "--header needs a URL"),
        (
            ("install", "cursor", "https://x.example/mcp", "-e", "A=b"),
            1,
            "-e and --env-file cannot be used with the URL",
        ),
        (
            ("install", "cursor", "npx some-server", "--uv", "--name", "n"),
            1,
            "--uv needs a server in a Python file",
        ),
        (("install", "cursor", "server.py", "--uv"), 1, "uv is not on the PATH"),
        (
            ("install", "cursor", "npx some-server", "--reload", "--name", "n"),
            1,
            "--reload needs a server in a Python file",
        ),
        (
            ("install", "cursor", "https://x.example/mcp", "--reload"),
            1,
            "--reload cannot be used with the URL",
        ),
        (("install", "cursor", "server.py", "-e", "secret"), 1, "--env NAME=VALUE"),
        (
            ("install", "windsurf", "server.py", "--scope", "project"),
            1,
            "has no scope project. Use one of user",
        ),
        (("install", "claude-code", "server.py", "--name", "my shop"), 1, "Add --name my-shop"),
        (("install", "claude-desktop", "https://x.example/mcp", "--name", "n"), 1, "does not support URLs"),
        (
            ("install", "codex", "https://x.example/sse", "--name", "n"),
            1,
            "does not support the HTTP+SSE transport of 2024-11-05",
        ),
        (("install", "cursor", "http://127.0.0.1:1/mcp"), 4, "or add --name"),
        (("uninstall", "cursor", "shop"), 2, "Cursor has no server shop"),
    ],
)
def test_install_invalid_options_exit_with_message(mcpkit, monkeypatch, words, status, message):
    monkeypatch.setattr("shutil.which", lambda _: None)
    ended, out, err = mcpkit(*words)
    assert (ended, out) == (status, "")
    assert message in err


def test_install_env_file_is_written_by_path_or_by_value(mcpkit, home, project):
    (project / ".env").write_text("TOKEN=secret\nA=0\n")
    (project / "server.py").write_text(
        "import os\nfrom mcpkit import Server\ns = Server(os.environ['TOKEN'][0])\n"
    )
    assert mcpkit("install", "vscode", "server.py", "--env-file", ".env", "-e", "A=1")[0] == 0
    servers = json.loads((home / ".config/Code/User/mcp.json").read_text())["servers"]
    assert (servers["s"]["env"], servers["s"]["envFile"]) == ({"A": "1"}, str(project / ".env"))
    mcpkit("install", "qwen-code", "server.py", "--name", "s", "--env-file", ".env", "-e", "A=1")
    servers = json.loads((home / ".qwen/settings.json").read_text())["mcpServers"]
    assert servers["s"]["env"] == {"TOKEN": "secret", "A": "1"}


def test_install_broken_record_of_installed_servers_is_rejected(mcpkit, file, home):
    notes = home / ".local/state/mcpkit/installed.json"
    notes.parent.mkdir(parents=True)
    notes.write_text("{")
    status, _, err = mcpkit("install", "cursor", "server.py")
    assert (status, file.exists()) == (1, False)
    assert f"{notes}, where mcpkit records installed servers, is not valid JSON" in err


def test_install_module_is_written_as_file(mcpkit, file, project):
    (project / "shop_package").mkdir()
    (project / "shop_package" / "__init__.py").touch()
    (project / "server.py").rename(project / "shop_package" / "serving.py")
    assert mcpkit("install", "cursor", "shop_package.serving:mcp")[0] == 0
    entry = json.loads(file.read_text())["mcpServers"]["The-shop"]
    assert entry["args"][-1] == f"{project / 'shop_package' / 'serving.py'}:mcp"
