"""`mcpkit install` and `mcpkit uninstall`: entries in the files of hosts, and content that stays."""

import json
import os
import re
import shlex
import stat
from pathlib import Path

import pytest
import tomlkit
from ruamel.yaml import YAML

from mcpkit._utils.python_safe_path import mcpkit_command
from mcpkit.cli.hosts import host_table
from mcpkit.cli.hosts.config_editing import entries_in, read_document
from mcpkit.cli.hosts.host_table import HOSTS
from mcpkit.client.targets.host_configuration import parse_jsonc
from tests.helpers.tables import each_row

pytestmark = pytest.mark.usefixtures("home", "project")

OTHERS = '{\n\t// mine\n\t"mcpServers": {\n\t\t"other": {"command": "x"}, // keep\n\t},\n}\n'
URL = "https://x.example/mcp"


@pytest.fixture
def file(home: Path) -> Path:
    (home / ".cursor").mkdir()
    return home / ".cursor/mcp.json"


def test_install_writes_absolute_paths_and_uninstall_restores_the_file(mcpkit, file, project):
    file.write_bytes(b"\xef\xbb\xbf" + OTHERS.replace("\n", "\r\n").encode())
    before = file.read_bytes()
    status, out, err = mcpkit("install", "cursor", "server.py", "-e", "TOKEN=secret")
    assert (status, out) == (0, "")
    assert "added The-shop to " in err
    assert "the file contains the values of TOKEN in plain text" in err
    assert "does not seem" not in err
    assert "secret" not in err
    entry = {"type": "stdio", "command": mcpkit_command()[0], "args": ["run", str(project / "server.py")]}
    lines = json.dumps({"The-shop": {**entry, "env": {"TOKEN": "secret"}}}, indent="\t").splitlines()[1:-1]
    written = "".join(f"\t{line}\n" for line in lines)[:-1] + ",\n"
    assert file.read_bytes().decode("utf-8-sig").replace("\r\n", "\n").replace(written, "") == OTHERS
    assert "\n" not in file.read_bytes().decode().replace("\r\n", "")
    assert file.with_name("mcp.json.bak").read_bytes() == before
    status, _, err = mcpkit("uninstall", "cursor", "The-shop")
    assert (status, file.read_bytes()) == (0, before)
    assert "to its previous content" in err
    assert not file.with_name("mcp.json.bak").exists()


def test_install_again_changes_nothing_or_replaces_own_entry(mcpkit, file):
    mcpkit("install", "cursor", "server.py", "--name", "shop")
    before = file.read_bytes()
    status, _, err = mcpkit("install", "cursor", "server.py", "--name", "shop")
    assert (status, file.read_bytes()) == (0, before)
    assert "nothing changed" in err
    assert mcpkit("install", "cursor", "server.py", "--name", "shop", "-e", "A=1")[0] == 0
    assert json.loads(file.read_text())["mcpServers"]["shop"]["env"] == {"A": "1"}
    assert [each.name for each in file.parent.iterdir()] == ["mcp.json"]
    assert mcpkit("uninstall", "cursor", "shop")[0] == 0
    assert not file.exists()


def test_install_and_uninstall_need_force_for_entries_of_others(mcpkit, file):
    file.write_text(OTHERS)
    install = ("install", "cursor", "server.py", "--name", "other")
    for words, message in (
        (install, "already has another server other. Choose another --name, or overwrite it with --force"),
        (("uninstall", "cursor", "other"), "did not install"),
    ):
        status, _, err = mcpkit(*words)
        assert (status, file.read_text()) == (1, OTHERS)
        assert message in err
    assert mcpkit(*install, "--force")[0] == 0
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


@pytest.mark.parametrize(("host", "text", "message"), [
    ("cursor", b'{\n  "mcpServers": {,}\n}', "is not valid JSON: Expecting property name"),
    ("cursor", b'{\n  "a": 1\n  "b": 2\n}', "line 3 column 3"),
    ("cursor", b"[]", "its top level must be an object"),
    ("cursor", b'{"mcpServers": []}', "mcpServers must be an object with the servers by name"),
    ("cursor", b"\xff\xfe{\x00}\x00", "is not UTF-8"),
    ("codex", b"[mcp_servers\n", "is not valid TOML"),
    ("codex", b"a = 1\nb = = 2\n", "line 2"),
    ("goose", b"a: 1\nb: [1\nc: 2\n", "is not valid YAML"),
    ("goose", b"a: 1\n b: 2\n", "line 2 column"),
])  # fmt: skip
def test_install_broken_file_is_rejected_with_position_and_unchanged(mcpkit, host, text, message):
    path = host_table.user_file(HOSTS[host].user)
    path.parent.mkdir(parents=True)
    path.write_bytes(text)
    status, _, err = mcpkit("install", host, "server.py", "--name", "shop")
    assert (status, path.read_bytes()) == (1, text)
    assert str(path) in err
    assert message in err
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_install_dry_run_prints_diff_and_writes_nothing(mcpkit, file):
    file.write_text(OTHERS)
    status, out, _ = mcpkit("install", "cursor", URL, "--name", "far", "--dry-run")
    assert (status, file.read_text()) == (0, OTHERS)
    assert [line for line in out.splitlines()[3:] if line.startswith(("+", "-"))] == [
        *('+\t\t"far": {', f'+\t\t\t"url": "{URL}"', "+\t\t},")
    ]
    assert [each.name for each in file.parent.iterdir()] == ["mcp.json"]


@pytest.mark.parametrize(("words", "status", "message"), [
    ("install curser server.py", 2, "unknown host curser; did you mean cursor?"),
    ("install cursor absent.py", 2, "absent.py does not exist"),
    ("install cursor server.py --cwd /", 1, "Cursor has no setting for the working directory"),
    ("install cursor server.py -H A:b", 1, "--header needs a URL"),
    (f"install cursor {URL} -e A=b", 1, "-e and --env-file cannot be used with the URL"),
    ("install cursor 'npx server' --uv --name n", 1, "--uv needs a server in a Python file"),
    ("install cursor server.py --uv", 1, "uv is not on the PATH"),
    ("install cursor 'npx server' --reload --name n", 1, "--reload needs a server in a Python file"),
    (f"install cursor {URL} --reload", 1, "--reload cannot be used with the URL"),
    ("install cursor server.py -e secret", 1, "--env NAME=VALUE"),
    ("install windsurf server.py --scope project", 1, "has no scope project. Use one of user"),
    ("install claude-code server.py --name 'my shop'", 1, "Add --name my-shop"),
    (f"install claude-desktop {URL} --name n", 1, "does not support URLs"),
    (
        "install codex https://x.example/sse --name n",
        1,
        "does not support the HTTP+SSE transport of 2024",
    ),
    ("install cursor http://127.0.0.1:1/mcp", 4, "or add --name"),
    ("uninstall cursor shop", 2, "Cursor has no server shop"),
    ("install gemini-cli 'npx s' --name s -e 'A=a$word'", 1, "replaces variables such as $NAME in env.A"),
    ("install claude-code 'npx s' --name s -e 'A=a${word}c'", 1, "variables such as ${NAME} in env.A"),
    ("install vscode 'npx s' --name s -e 'A=${env:word}'", 1, "pass the value in a file with --env-file"),
    (
        "install gemini-cli 'npx s' --name s --cwd 'a$b'",
        1,
        "in cwd, and has no escape for them. Add --exp",
    ),
])  # fmt: skip
def test_install_invalid_options_exit_with_message(mcpkit, home, monkeypatch, words, status, message):
    monkeypatch.setattr("shutil.which", lambda _: None)
    ended, out, err = mcpkit(*shlex.split(words))
    assert (ended, out) == (status, "")
    assert message in err
    assert "word}" not in err
    assert not list(home.rglob("*.json"))


def test_install_env_file_is_written_by_path_or_by_value(mcpkit, home, project):
    (project / ".env").write_text("TOKEN=secret\nA=0\n")
    (project / "server.py").write_text(
        "import os\nfrom mcpkit import Server\ns = Server(os.environ['TOKEN'][0])\n"
    )
    assert mcpkit("install", "vscode", "server.py", "--env-file", ".env", "-e", "A=1")[0] == 0
    entry = json.loads((home / ".config/Code/User/mcp.json").read_text())["servers"]["s"]
    assert (entry["env"], entry["envFile"]) == ({"A": "1"}, str(project / ".env"))
    mcpkit("install", "qwen-code", "server.py", "--name", "s", "--env-file", ".env", "-e", "A=1")
    entry = json.loads((home / ".qwen/settings.json").read_text())["mcpServers"]["s"]
    assert entry["env"] == {"TOKEN": "secret", "A": "1"}


def test_install_broken_record_of_installed_servers_is_rejected(mcpkit, file, home):
    notes = home / ".local/state/mcpkit/installed.json"
    notes.parent.mkdir(parents=True)
    notes.write_text("{")
    status, _, err = mcpkit("install", "cursor", "server.py")
    assert (status, file.exists()) == (1, False)
    assert f"{notes}, where mcpkit records installed servers, is not valid JSON" in err


def test_install_module_is_written_as_file(mcpkit, file, project):
    (package := project / "shop_package").mkdir()
    (package / "__init__.py").touch()
    (project / "server.py").rename(package / "serving.py")
    assert mcpkit("install", "cursor", "shop_package.serving:mcp")[0] == 0
    entry = json.loads(file.read_text())["mcpServers"]["The-shop"]
    assert entry["args"][-1] == f"{package / 'serving.py'}:mcp"


# Formats and places of each host

PROCESS = {"command": "npx", "args": ["-y", "shop"], "env": {"A": "1"}}
GOOSE_ENTRY = {"enabled": True, "name": "shop", "description": "", "timeout": 300}
STARTED = {
    **dict.fromkeys(HOSTS, PROCESS),
    **{name: {"type": "stdio", **PROCESS} for name in ("claude-code", "cursor", "vscode")},
    "goose": GOOSE_ENTRY | {"type": "stdio", "cmd": "npx", "args": ["-y", "shop"], "envs": {"A": "1"}},
}
REMOTE = {"url": URL, "headers": {"K": "v"}}
REACHED = {
    **dict.fromkeys(HOSTS, REMOTE),
    **{name: {"type": "http", **REMOTE} for name in ("claude-code", "vscode", "gemini-cli", "qodercli")},
    "claude-desktop": None,
    "windsurf": {"serverUrl": URL, "headers": {"K": "v"}},
    "qwen-code": {"httpUrl": URL, "headers": {"K": "v"}},
    "codex": {"url": URL, "http_headers": {"K": "v"}},
    "goose": GOOSE_ENTRY | {"name": "far", "type": "streamable_http", "uri": URL, "headers": {"K": "v"}},
}
KEYS = {"vscode": "servers", "codex": "mcp_servers", "zed": "context_servers", "goose": "extensions"}
USER = {
    "claude-desktop": ".config/Claude/claude_desktop_config.json", "claude-code": ".claude.json",
    "cursor": ".cursor/mcp.json", "vscode": ".config/Code/User/mcp.json",
    "windsurf": ".codeium/windsurf/mcp_config.json", "gemini-cli": ".gemini/settings.json",
    "qwen-code": ".qwen/settings.json", "codex": ".codex/config.toml", "zed": ".config/zed/settings.json",
    "goose": ".config/goose/config.yaml", "qodercli": ".qoder/settings.json",
}  # fmt: skip


def parsed(path: Path) -> object:
    text = path.read_text()
    if path.suffix == ".json":
        return json.loads(text)
    return tomlkit.parse(text).unwrap() if path.suffix == ".toml" else YAML(typ="safe").load(text)


@pytest.mark.parametrize("name", HOSTS)
def test_install_writes_new_file_in_the_documented_format(mcpkit, home, name):
    path = home / USER[name]
    key = KEYS.get(name, "mcpServers")
    assert mcpkit("install", name, "npx -y shop", "--name", "shop", "-e", "A=1")[0] == 0
    assert parsed(path) == {key: {"shop": STARTED[name]}}
    if REACHED[name] is not None:
        assert mcpkit("install", name, URL, "--name", "far", "-H", "K: v")[0] == 0
        assert parsed(path) == {key: {"shop": STARTED[name], "far": REACHED[name]}}
        assert mcpkit("uninstall", name, "far")[0] == 0
    assert mcpkit("uninstall", name, "shop")[0] == 0
    assert list(home.rglob("*.*")) == [home / ".local", home / ".local/state/mcpkit/installed.json"]


@each_row(("name", "platform", "variable", "path"), [
    ("vscode", "linux", "", ".config/Code/User/mcp.json"),
    ("vscode", "darwin", "", "Library/Application Support/Code/User/mcp.json"),
    ("vscode", "win32", "", "AppData/Roaming/Code/User/mcp.json"),
    ("zed", "darwin", "", ".config/zed/settings.json"),
    ("goose", "win32", "", "AppData/Roaming/Block/goose/config/config.yaml"),
    ("vscode", "linux", "XDG_CONFIG_HOME", "own/Code/User/mcp.json"),
    ("claude-code", "linux", "CLAUDE_CONFIG_DIR", "own/.claude.json"),
    ("gemini-cli", "win32", "GEMINI_CLI_HOME", "own/.gemini/settings.json"),
    ("qwen-code", "linux", "QWEN_HOME", "own/settings.json"),
    ("codex", "win32", "CODEX_HOME", "own/config.toml"),
    ("goose", "linux", "GOOSE_PATH_ROOT", "own/config/config.yaml"),
    ("qodercli", "linux", "QODER_CONFIG_DIR", "own/settings.json"),
])  # fmt: skip
def test_user_file_is_at_the_documented_path(home, name, platform, variable, path):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(variable or "UNUSED", str(home / "own"))
        assert host_table.user_file(HOSTS[name].user, platform) == home / path
        patch.setenv("XDG_CONFIG_HOME", "relative")  # a relative path is ignored
        assert host_table.user_file(HOSTS["zed"].user) == home / ".config/zed/settings.json"


def test_project_files_are_at_the_documented_paths(project):
    found = {
        (name, file.scope): file.path.relative_to(project).as_posix()
        for name, host in HOSTS.items()
        for file in host_table.files_of(host, project)
        if file.keys == host.keys and file.scope != "user"
    }
    assert found == {
        ("claude-code", "project"): ".mcp.json",
        ("cursor", "project"): ".cursor/mcp.json",
        ("vscode", "project"): ".vscode/mcp.json",
        ("gemini-cli", "project"): ".gemini/settings.json",
        ("qwen-code", "project"): ".qwen/settings.json",
        ("codex", "project"): ".codex/config.toml",
        ("zed", "project"): ".zed/settings.json",
        ("qodercli", "project"): ".mcp.json",
        ("qodercli", "local"): ".qoder/settings.local.json",
    }


PAGE = Path(__file__).parents[2] / "docs" / "cli" / "install.md"


def test_page_lists_each_host_with_its_files_and_variables() -> None:
    rows = {line.split("`")[1]: line for line in PAGE.read_text().splitlines() if line.startswith("| `")}
    assert list(rows) == list(HOSTS)
    for name, host in HOSTS.items():
        place, keys = host.user, ".".join(host.keys)
        code = (place.linux, place.macos, place.windows, host.project, host.local, keys, *host.variables)
        shown = [
            f"[{host.title}]({host.source})",
            f"| {host.format}, ",
            *(f"`{each}`" for each in code if each),
        ]
        shown += [f"`${place.variable}/{place.below}`"] if place.variable else []
        assert [each for each in shown if each not in rows[name]] == []


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


@pytest.mark.parametrize(("name", "text"), [("codex", CODEX), ("goose", GOOSE)], ids=["codex", "goose"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"], ids=["lf", "crlf"])
def test_install_keeps_comments_in_toml_and_yaml(mcpkit, home, name, text, newline):
    path = home / USER[name]
    path.parent.mkdir(parents=True)
    text = text.replace("\n", newline)
    path.write_bytes(text.encode())
    assert mcpkit("install", name, "npx -y shop", "--name", "shop", "-e", "A=1")[0] == 0
    written = path.read_bytes().decode()
    assert set(text.splitlines(keepends=True)) <= set(written.splitlines(keepends=True))
    assert "\n" not in written.replace(newline, "")
    assert entries_in(next(host_table.files_of(HOSTS[name], home)))["shop"] == STARTED[name]
    assert mcpkit("install", name, "npx -y other", "--name", "shop")[0] == 0  # it replaces its own
    path.write_bytes(path.read_bytes() + f"# later{newline}".encode())
    assert mcpkit("uninstall", name, "shop")[0] == 0
    kept, rest = ([each for each in lines.splitlines() if each.strip()] for lines in (text, path.read_text()))
    assert rest == [*kept, "# later"]


@pytest.mark.parametrize("text", [
    *("extensions: {}\n", "extensions:\n", "extensions: # none\nA: 1\n", "A: 1", ""),
    "extensions: {a: {type: builtin}}\n",
])  # fmt: skip
def test_install_adds_yaml_entry_without_block_of_extensions(mcpkit, home, text):
    path = home / USER["goose"]
    path.parent.mkdir(parents=True)
    path.write_text(text)
    before = YAML(typ="safe").load(text) or {}
    assert mcpkit("install", "goose", "npx -y shop", "--name", "shop", "-e", "A=1")[0] == 0
    entries = {**(before.get("extensions") or {}), "shop": STARTED["goose"]}
    assert parsed(path) == {**before, "extensions": entries}
    path.write_text(path.read_text() + "\n")
    if not (before.get("extensions") or {}):
        assert mcpkit("uninstall", "goose", "shop")[0] == 0
        assert parsed(path) == {**before, "extensions": {}}


# JSON with comments

DOCUMENTS = [
    "{}", "// first\n{ }\n/* last */\n", '{"a": 1}', '{"a": 1 /* one, */, /* two */}',
    '{\n  "a": {"b": [1, 2,],}, // end, {\n}\n', '{"mcpServers": {}}',
    '{"mcpServers": { /* none } */ }, "a": "// no comment"}',
    '{\n  "mcpServers": {\n    "other": {"command": "x"} // keep\n  }\n}\n',
    '{\r\n\t"a": ["}", "/* none */"],\r\n\t"mcpServers": {\r\n\t\t"b c": {}, // one\r\n\t},\r\n}',
    '{"mcpServers": {"é": null, "q\\"": [1, -2.5e3, true],}, "c": {"mcpServers": {"d": 1}}}',
    '\t{ // one\n"mcpServers"/* two */:// three\n{"a":1,\n"b":2/* over\nlines */,}\n,}',
]  # fmt: skip


@each_row("text", DOCUMENTS)
def test_uninstall_restores_jsonc_file_to_the_byte(mcpkit, file, text: str) -> None:
    for mark in (b"", b"\xef\xbb\xbf"):
        file.write_bytes(mark + text.encode())
        assert mcpkit("install", "cursor", "npx shop", "--name", "shop")[0] == 0
        assert file.read_bytes() != mark + text.encode()
        assert mcpkit("uninstall", "cursor", "shop")[0] == 0
        assert file.read_bytes() == mark + text.encode()


def comments(text: str) -> list[str]:
    found = re.finditer(r'"(?:[^"\\\n]|\\.)*"|(//[^\n]*|/\*.*?\*/)', text, re.DOTALL)
    return [each[1].rstrip("\r") for each in found if each[1]]


@each_row("text", DOCUMENTS)
def test_jsonc_with_entry_and_without_entry_keep_all_else(text: str) -> None:
    file = host_table.file_of(HOSTS["cursor"], "user", Path())

    def with_entry(text: str, entry: dict[str, object]) -> str:
        return read_document(file, text.encode()).with_entry("shop", entry).decode()

    before = parse_jsonc(text)
    assert isinstance(before, dict)
    servers = before.get("mcpServers", {})
    entry = {
        "command": "/usr/bin/python",
        "args": ["-m", "mcpkit", "run", "/a b/ü.py:x"],
        "env": {"A": '"/*'},
    }
    with_it = with_entry(text, entry)
    assert parse_jsonc(with_it) == {**before, "mcpServers": {**servers, "shop": entry}}
    rest = iter(re.sub(r"[\s,]", "", with_it))
    assert all(letter in rest for letter in re.sub(r"[\s,]", "", text)), "all else stays, in its order"
    assert "\n" not in with_it.replace("\r\n", "") or "\r\n" not in with_it
    other = with_entry(with_it, {"url": "x"})
    assert parse_jsonc(other)["mcpServers"]["shop"] == {"url": "x"}
    without_it = read_document(file, with_it.encode()).without_entry("shop").decode()
    assert parse_jsonc(without_it) == {**before, "mcpServers": servers}
    assert comments(with_it) == comments(other) == comments(without_it) == comments(text)
