"""Entries that mcpkit install writes for each host: format, place, comments, and the page's table."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import tomlkit
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from mcpkit.cli import app
from mcpkit.cli.configurations import jsonc_text, places
from mcpkit.cli.configurations.reading import entries_in
from mcpkit.cli.configurations.table import HOSTS, Host

ENTRY = {"command": "/usr/bin/python", "args": ["-m", "mcpkit", "run", "/a b/ü.py:x"], "env": {"A": '"/*'}}

KEYS_JSONC = ("mcpServers",)


def is_kept(text: str, other: str) -> bool:
    """Say whether all of a text but white space and commas is in another, in its order."""
    rest = iter(re.sub(r"[\s,]", "", other))
    return all(letter in rest for letter in re.sub(r"[\s,]", "", text))


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
def test_install_writes_new_file_in_the_documented_format(mcpkit, home, name):
    path = home / USER[name][0]
    key = KEYS.get(name, "mcpServers")
    assert mcpkit("install", name, "npx -y shop", "--name", "shop", "-e", "A=1")[0] == 0
    assert parsed(path) == {key: {"shop": STARTED[name]}}
    status, _, err = mcpkit("install", name, "https://x.example/mcp", "--name", "far", "-H", "K: v")
    if REACHED[name] is None:
        assert (status, "does not support URLs" in err) == (1, True)
    else:
        far = {**REACHED[name], **({"name": "far"} if name == "goose" else {})}
        assert (status, parsed(path)) == (0, {key: {"shop": STARTED[name], "far": far}})
        assert mcpkit("uninstall", name, "far")[0] == 0
    assert mcpkit("uninstall", name, "shop")[0] == 0
    assert list(home.rglob("*.*")) == [home / ".local", home / ".local/state/mcpkit/installed.json"]


@pytest.mark.parametrize("name", HOSTS)
def test_files_of_host_are_at_the_documented_paths(home, project, name, monkeypatch):
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
def test_install_keeps_comments_in_toml_and_yaml(mcpkit, home, name, text, newline):
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


PAGE = Path(__file__).parents[3] / "docs" / "commands" / "install.md"


MARK = "<!-- the hosts, from mcpkit/cli/configurations/table.py -->"


def user_files(host: Host) -> str:
    place = host.user
    named = {"macOS": place.macos, "Windows": place.windows}
    others = [f"{system} `{path}`" for system, path in named.items() if path and path != place.linux]
    if place.variable:
        others.append(f"else `${place.variable}/{place.below}`")
    return "; ".join([f"`{place.linux}`", *others])


def project_files(host: Host) -> str:
    files = [f"`{host.project}`" if host.project else ""]
    files.append(f"local `{host.local}`" if host.local else "")
    files.append("local in the user's file" if host.local_keys else "")
    return "; ".join(filter(None, files)) or "none"


def row(host: Host) -> str:
    urls = [kind for kind, reached in (("HTTP", host.http), ("SSE", host.sse)) if reached is not None]
    started = [
        name for name, key in (("`--cwd`", host.started.cwd), ("`--env-file`", host.started.env_file)) if key
    ]
    cells = (
        f"`{host.name}`: [{host.title}]({host.source})",
        user_files(host),
        project_files(host),
        f"{host.format}, `{'.'.join(host.keys)}`",
        ", ".join(urls) or "none",
        ", ".join(started) or "neither",
        f"[{', '.join(f'`{each}`' for each in host.variables) or 'none'}]({host.variables_source})",
        " ".join(filter(None, (host.remark, host.project_remark and f"Projects: {host.project_remark}"))),
    )
    return f"| {' | '.join(cells)} |".replace("|  |", "| |")


def test_page_table_of_hosts_equals_code() -> None:
    titles = ("Host", "User", "Project", "Written in", "URLs", "Has a place for", "Replaces", "Then")
    header = f"| {' | '.join(titles)} |\n{'| --- ' * len(titles)}|\n"
    table = header + "".join(row(host) + "\n" for host in HOSTS.values())
    _, _, shown = PAGE.read_text().partition(MARK)
    assert shown == f"\n\n{table}", f"the page has to end with this table:\n{table}"


words = st.sampled_from(["a", "b c", "// no comment", "/* none */", "é", 'q"', "}", ",", "mcp"])


scalars = st.sampled_from(["1", "-2.5e3", "true", "null"]) | words.map(json.dumps)


@st.composite
def gaps(draw: st.DrawFn, *, newline: str) -> str:
    """White space, with comments in it."""
    part = st.sampled_from(
        ["", "", " ", "\t", newline, f'// one, {{ "{newline}', "/* some }, */", f"/* over{newline} lines */"]
    )
    return "".join(draw(st.lists(part, max_size=3)))


@st.composite
def values(draw: st.DrawFn, newline: str, depth: int = 2) -> str:
    kind = draw(st.sampled_from(["scalar", "array", "object"] if depth else ["scalar"]))
    if kind == "scalar":
        return draw(scalars)
    if kind == "object":
        return draw(objects(newline, depth - 1, draw(st.lists(words, max_size=3, unique=True))))
    items = [draw(values(newline, depth - 1)) for _ in range(draw(st.integers(0, 2)))]
    return draw(joined(newline, "[", items, "]"))


@st.composite
def joined(draw: st.DrawFn, newline: str, opening: str, items: list[str], closing: str) -> str:
    gap = gaps(newline=newline)
    text = opening + draw(gap)
    for index, item in enumerate(items):
        is_last = index == len(items) - 1
        comma = "," if not is_last or draw(st.booleans()) else ""
        text += item + draw(gap) + comma + draw(gap)
    return text + closing


@st.composite
def objects(draw: st.DrawFn, newline: str, depth: int, keys: list[str]) -> str:
    members = [
        f"{json.dumps(key)}{draw(gaps(newline=newline))}:{draw(gaps(newline=newline))}{draw(values(newline, depth))}"
        for key in keys
    ]
    return draw(joined(newline, "{", members, "}"))


@st.composite
def documents(draw: st.DrawFn) -> str:
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    gap = gaps(newline=newline)
    keys = draw(st.lists(words, max_size=2, unique=True))
    if draw(st.booleans()):
        return draw(gap) + draw(objects(newline, 2, keys)) + draw(gap)
    servers = draw(objects(newline, 1, draw(st.lists(words, max_size=3, unique=True))))
    rest = [f"{json.dumps(key)}: {draw(values(newline))}" for key in keys]
    rest.insert(draw(st.integers(0, len(rest))), f'"mcpServers"{draw(gap)}:{draw(gap)}{servers}')
    return draw(gap) + draw(joined(newline, "{", rest, "}")) + draw(gap)


def comments(text: str) -> list[str]:
    found = re.finditer(r'"(?:[^"\\\n]|\\.)*"|(//[^\n]*|/\*.*?\*/)', text, re.DOTALL)
    return [each[1].rstrip("\r") for each in found if each[1]]


@given(documents(), st.sampled_from([b"", b"\xef\xbb\xbf"]))
def test_uninstall_restores_jsonc_file_to_the_byte(text: str, mark: bytes) -> None:
    file = Path.home() / ".cursor" / "mcp.json"
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(mark + text.encode())
    assert app.run(["install", "cursor", "npx shop", "--name", "shop"]) == 0
    assert file.read_bytes() != mark + text.encode()
    assert app.run(["uninstall", "cursor", "shop"]) == 0
    assert file.read_bytes() == mark + text.encode()


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
def test_install_adds_yaml_entry_without_block_of_extensions(mcpkit, home, text):
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


@settings(max_examples=100, deadline=None)
@given(documents())
def test_jsonc_with_entry_and_without_entry_keep_all_else(text: str) -> None:
    before = jsonc_text.read(text)
    assert isinstance(before, dict)
    with_it = jsonc_text.with_entry(text, KEYS_JSONC, "shop", ENTRY)
    assert jsonc_text.read(with_it) == {
        **before,
        "mcpServers": {**before.get("mcpServers", {}), "shop": ENTRY},
    }
    assert comments(with_it) == comments(text)
    assert is_kept(text, with_it)
    other = jsonc_text.with_entry(with_it, KEYS_JSONC, "shop", {"url": "x"})
    assert jsonc_text.read(other)["mcpServers"]["shop"] == {"url": "x"}
    assert comments(other) == comments(text)
    without_it = jsonc_text.without_entry(with_it, KEYS_JSONC, "shop")
    assert jsonc_text.read(without_it) == {**before, "mcpServers": before.get("mcpServers", {})}
    assert comments(without_it) == comments(text)
    assert "\n" not in with_it.replace("\r\n", "") or "\r\n" not in with_it
