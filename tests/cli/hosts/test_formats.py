"""What each host is given: entries as its documentation has them, in its place, on each system."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tomlkit
from ruamel.yaml import YAML

from mcpkit.cli.configurations import places
from mcpkit.cli.configurations.reading import entries_in
from mcpkit.cli.configurations.table import HOSTS

STARTED = {
    "claude-desktop": {"command": "npx", "args": ["-y", "shop"], "env": {"A": "1"}},
    "claude-code": {"type": "stdio", "command": "npx", "args": ["-y", "shop"], "env": {"A": "1"}},
    "cursor": {"type": "stdio", "command": "npx", "args": ["-y", "shop"], "env": {"A": "1"}},
    "vscode": {"type": "stdio", "command": "npx", "args": ["-y", "shop"], "env": {"A": "1"}},
    "windsurf": {"command": "npx", "args": ["-y", "shop"], "env": {"A": "1"}},
    "gemini-cli": {"command": "npx", "args": ["-y", "shop"], "env": {"A": "1"}},
    "qwen-code": {"command": "npx", "args": ["-y", "shop"], "env": {"A": "1"}},
    "codex": {"command": "npx", "args": ["-y", "shop"], "env": {"A": "1"}},
    "zed": {"command": "npx", "args": ["-y", "shop"], "env": {"A": "1"}},
    "goose": {
        "enabled": True,
        "name": "shop",
        "description": "",
        "timeout": 300,
        "type": "stdio",
        "cmd": "npx",
        "args": ["-y", "shop"],
        "envs": {"A": "1"},
    },
    "qodercli": {"command": "npx", "args": ["-y", "shop"], "env": {"A": "1"}},
}
REACHED = {
    "claude-desktop": None,
    "claude-code": {"type": "http", "url": "https://x.example/mcp", "headers": {"K": "v"}},
    "cursor": {"url": "https://x.example/mcp", "headers": {"K": "v"}},
    "vscode": {"type": "http", "url": "https://x.example/mcp", "headers": {"K": "v"}},
    "windsurf": {"serverUrl": "https://x.example/mcp", "headers": {"K": "v"}},
    "gemini-cli": {"type": "http", "url": "https://x.example/mcp", "headers": {"K": "v"}},
    "qwen-code": {"httpUrl": "https://x.example/mcp", "headers": {"K": "v"}},
    "codex": {"url": "https://x.example/mcp", "http_headers": {"K": "v"}},
    "zed": {"url": "https://x.example/mcp", "headers": {"K": "v"}},
    "goose": {
        "enabled": True,
        "name": "shop",
        "description": "",
        "timeout": 300,
        "type": "streamable_http",
        "uri": "https://x.example/mcp",
        "headers": {"K": "v"},
    },
    "qodercli": {"type": "http", "url": "https://x.example/mcp", "headers": {"K": "v"}},
}
KEYS = {"vscode": "servers", "codex": "mcp_servers", "zed": "context_servers", "goose": "extensions"}

SUPPORT = "Library/Application Support"
USER = {
    "claude-desktop": (
        ".config/Claude/claude_desktop_config.json",
        f"{SUPPORT}/Claude/claude_desktop_config.json",
        "AppData/Roaming/Claude/claude_desktop_config.json",
    ),
    "claude-code": (".claude.json",) * 3,
    "cursor": (".cursor/mcp.json",) * 3,
    "vscode": (
        ".config/Code/User/mcp.json",
        f"{SUPPORT}/Code/User/mcp.json",
        "AppData/Roaming/Code/User/mcp.json",
    ),
    "windsurf": (".codeium/windsurf/mcp_config.json",) * 3,
    "gemini-cli": (".gemini/settings.json",) * 3,
    "qwen-code": (".qwen/settings.json",) * 3,
    "codex": (".codex/config.toml",) * 3,
    "zed": (".config/zed/settings.json", ".config/zed/settings.json", "AppData/Roaming/Zed/settings.json"),
    "goose": (
        ".config/goose/config.yaml",
        ".config/goose/config.yaml",
        "AppData/Roaming/Block/goose/config/config.yaml",
    ),
    "qodercli": (".qoder/settings.json",) * 3,
}
PROJECT = {
    "claude-code": {"project": ".mcp.json"},
    "cursor": {"project": ".cursor/mcp.json"},
    "vscode": {"project": ".vscode/mcp.json"},
    "gemini-cli": {"project": ".gemini/settings.json"},
    "qwen-code": {"project": ".qwen/settings.json"},
    "codex": {"project": ".codex/config.toml"},
    "zed": {"project": ".zed/settings.json"},
    "qodercli": {"project": ".mcp.json", "local": ".qoder/settings.local.json"},
}
VARIABLES = {
    "claude-code": ("CLAUDE_CONFIG_DIR", ".claude.json"),
    "gemini-cli": ("GEMINI_CLI_HOME", ".gemini/settings.json"),
    "qwen-code": ("QWEN_HOME", "settings.json"),
    "codex": ("CODEX_HOME", "config.toml"),
    "goose": ("GOOSE_PATH_ROOT", "config/config.yaml"),
    "qodercli": ("QODER_CONFIG_DIR", "settings.json"),
}
XDG = {"claude-desktop", "vscode", "zed", "goose"}


def parsed(path: Path) -> object:
    text = path.read_text()
    if path.suffix == ".json":
        return json.loads(text)
    return tomlkit.parse(text).unwrap() if path.suffix == ".toml" else YAML(typ="safe").load(text)


@pytest.mark.parametrize("name", HOSTS)
def test_a_new_file_holds_what_the_host_documents(mcpkit, home, name):
    path = home / USER[name][0]
    key = KEYS.get(name, "mcpServers")
    assert mcpkit("install", name, "npx -y shop", "--name", "shop", "-e", "A=1")[0] == 0
    assert parsed(path) == {key: {"shop": STARTED[name]}}
    status, _, err = mcpkit("install", name, "https://x.example/mcp", "--name", "far", "-H", "K: v")
    if REACHED[name] is None:
        assert (status, "takes no URLs" in err) == (1, True)
    else:
        far = {**REACHED[name], **({"name": "far"} if name == "goose" else {})}
        assert (status, parsed(path)) == (0, {key: {"shop": STARTED[name], "far": far}})
        assert mcpkit("uninstall", name, "far")[0] == 0
    assert mcpkit("uninstall", name, "shop")[0] == 0
    assert list(home.rglob("*.*")) == [home / ".local", home / ".local/state/mcpkit/installed.json"]


@pytest.mark.parametrize("name", HOSTS)
def test_files_are_where_the_host_has_them(home, project, name, monkeypatch):
    host = HOSTS[name]
    for platform, path in zip(("linux", "darwin", "win32"), USER[name], strict=True):
        assert places.user_file(host.user, platform) == home / path
    files = {file.scope: file.path for file in places.files_of(host, project) if file.keys == host.keys}
    of_project = {scope: project / path for scope, path in PROJECT.get(name, {}).items()}
    assert files == {"user": home / USER[name][0], **of_project}
    if name in XDG:
        monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "x"))
        assert places.user_file(host.user) == home / USER[name][0].replace(".config", "x")
        monkeypatch.setenv("XDG_CONFIG_HOME", "x")  # which the specification has ignored
        assert places.user_file(host.user) == home / USER[name][0]
    variable, below = VARIABLES.get(name, ("", ""))
    assert host.user.variable == variable
    if variable:
        monkeypatch.setenv(variable, str(home / "own"))
        assert places.user_file(host.user, "win32") == home / "own" / below


CODEX = """\
# how it thinks
model = "gpt"

[mcp_servers.other]
command = "x"
args = [
  "[y]", # which
]

# about the sandbox
[sandbox]
mode = "read-only"
"""
GOOSE = """\
# how it thinks
GOOSE_MODEL: "m"
extensions:
    # part of it
    developer:
        enabled: true
        type: builtin
        # its end

# what follows
GOOSE_MODE: smart
"""


@pytest.mark.parametrize(("name", "text"), [("codex", CODEX), ("goose", GOOSE)])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_comments_and_all_else_in_toml_and_yaml_stay(mcpkit, home, name, text, newline):
    path = home / USER[name][0]
    path.parent.mkdir(parents=True)
    text = text.replace("\n", newline)
    path.write_bytes(text.encode())
    assert mcpkit("install", name, "npx -y shop", "--name", "shop", "-e", "A=1")[0] == 0
    written = path.read_bytes().decode()
    assert set(text.splitlines(keepends=True)) <= set(written.splitlines(keepends=True))
    assert "\n" not in written.replace(newline, "")
    file = next(places.files_of(HOSTS[name], home))
    assert entries_in(file)["shop"] == STARTED[name]
    assert mcpkit("install", name, "npx -y other", "--name", "shop")[0] == 0  # in the place of ours
    path.write_bytes(path.read_bytes() + f"# later{newline}".encode())
    assert mcpkit("uninstall", name, "shop")[0] == 0
    rest = path.read_bytes().decode()
    assert [each for each in rest.splitlines() if each.strip()] == [
        *(each for each in text.splitlines() if each.strip()),
        "# later",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "extensions: {}\n",
        "extensions:\n",
        "extensions: # none\nA: 1\n",
        "A: 1",
        "",
        "extensions: {a: {type: builtin}}\n",
    ],
)
def test_yaml_that_has_no_block_of_extensions_gets_an_entry_all_the_same(mcpkit, home, text):
    path = home / USER["goose"][0]
    path.parent.mkdir(parents=True)
    path.write_text(text)
    before = YAML(typ="safe").load(text) or {}
    assert mcpkit("install", "goose", "npx -y shop", "--name", "shop", "-e", "A=1")[0] == 0
    after = YAML(typ="safe").load(path.read_text())
    entries = {**(before.get("extensions") or {}), "shop": STARTED["goose"]}
    assert after == {**before, "extensions": entries}
    path.write_text(path.read_text() + "\n")
    if not (before.get("extensions") or {}):
        assert mcpkit("uninstall", "goose", "shop")[0] == 0
        assert YAML(typ="safe").load(path.read_text()) == {**before, "extensions": {}}


def test_an_entry_that_is_no_table_of_its_own_is_left_to_its_user(mcpkit, home):
    path = home / ".codex/config.toml"
    path.parent.mkdir()
    text = 'mcp_servers = { other = { command = "x" } }\n'
    path.write_text(text)
    for words in (
        ("install", "codex", "npx shop", "--name", "shop"),
        ("uninstall", "codex", "other", "--force"),
    ):
        status, _, err = mcpkit(*words)
        assert (status, path.read_text()) == (1, text)
        assert "is written in a way that cannot be changed here" in err
