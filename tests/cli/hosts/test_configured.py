"""Servers in the configuration of hosts as targets of commands, and variables in their values."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from mcpkit import Client, ClientGroup
from mcpkit.cli.app import mcpkit as mcpkit_command
from mcpkit.cli.configurations.places import file_of
from mcpkit.cli.configurations.reading import Document
from mcpkit.cli.configurations.shapes import entry_of
from mcpkit.cli.configurations.table import HOSTS
from mcpkit.cli.configurations.variables import variables_in
from mcpkit.cli.statuses import CommandError
from mcpkit.cli.targets.configured import configured
from mcpkit.cli.targets.target import target_of
from mcpkit.client.targets.configuration import Configuration
from mcpkit.client.targets.reached import Process, Remote
from mcpkit.common import start

NPX = {"command": "npx", "args": ["-y", "shop"]}


def write(path: Path, content: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


@pytest.mark.anyio
async def test_target_of_reads_the_entry_that_install_wrote(mcpkit, home, project):
    for host in ("cursor", "codex", "goose", "vscode"):
        assert mcpkit("install", host, "server.py", "--name", "shop")[0] == 0
    for name in (
        "shop",
        "goose:shop",
        "codex:shop",
        f"{home}/.codex/config.toml:shop",
        f"{home}/.cursor/mcp.json:shop",
    ):
        target = target_of(name)
        assert isinstance(target, dict)
        assert [target["command"], *target["args"]] == start.mcpkit_command("run", str(project / "server.py"))
    async with Client(target_of("goose:shop")) as client:
        assert (await client.call_tool("price", {"item": "tea"})).text == "3.5"


def test_target_of_reads_codex_and_goose_formats(home, monkeypatch):
    write(
        home / ".codex/config.toml",
        '[mcp_servers.far]\nurl = "https://x.example"\nbearer_token_env_var = "TOKEN"\ntool_timeout_sec = 5\n'
        'http_headers = { A = "b" }\nenv_http_headers = { C = "D" }\n'
        '[mcp_servers.here]\ncommand = "x"\nenv_vars = ["A", { name = "B" }]\nenabled_tools = ["t"]\n'
        '[mcp_servers.off]\ncommand = "x"\nenabled = false\n',
    )
    write(
        home / ".config/goose/config.yaml",
        "extensions:\n  developer: {type: builtin, enabled: true}\n"
        "  keyed: {type: stdio, cmd: x, args: [], env_keys: [SET, UNSET], envs: {E: '1'}, enabled: true, "
        "timeout: 300}\n",
    )
    for name in ("SET", "A", "D"):
        monkeypatch.setenv(name, "1")
    for name in ("UNSET", "B"):
        monkeypatch.delenv(name, raising=False)
    assert target_of("far") == {
        "url": "https://x.example",
        "headers": {"A": "b", "C": "${D}", "Authorization": "Bearer ${TOKEN}"},
        "timeout": 5,
    }
    assert target_of("here") == {"command": "x", "env": {"A": "${A}"}, "enabledTools": ["t"]}
    assert target_of("keyed") == {
        "command": "x",
        "env": {"E": "1", "SET": "${SET}"},
        "enabled": True,
        "timeout": 300,
    }
    for name in ("off", "developer", "goose:developer"):
        with pytest.raises(CommandError, match=r"is not a file|has no server"):
            target_of(name)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("shob", "shob is not a file, a URL, .* of a host; did you mean shop"),
        ("cursor:shob", "Cursor has no server shob; did you mean shop"),
        ("mcp.json:shob", "mcp.json has no server shob; did you mean shop"),
        ("broken.json:x", "broken.json is not valid JSON"),
        ("empty.toml:x", "empty.toml has no server x$"),
    ],
)
def test_target_of_unknown_name_raises_with_suggestion(home, project, name, message):
    write(home / ".cursor/mcp.json", {"mcpServers": {"shop": NPX}})
    write(project / "mcp.json", {"mcpServers": {"shop": NPX}})
    write(project / "broken.json", "{")
    write(project / "empty.toml", "")
    with pytest.raises((CommandError, ValueError), match=message):
        target_of(name)


def test_hosts_lists_files_and_servers(mcpkit, home, project):
    write(home / ".cursor/mcp.json", {"mcpServers": {"shop": NPX}})
    write(project / ".cursor/mcp.json", "{")
    status, out, _ = mcpkit("hosts", "cursor", "windsurf", "--json")
    assert status == 0
    told = json.loads(out)
    assert [host["found"] for host in told] == [True, False]
    assert told[0]["files"][0] == {
        "scope": "user", "path": f"{home}/.cursor/mcp.json", "exists": True, "servers": ["shop"]
    }  # fmt: skip
    assert "is not valid JSON" in told[0]["files"][1]["problem"]
    assert told[1]["files"] == [
        {"scope": "user", "path": f"{home}/.codeium/windsurf/mcp_config.json", "exists": False, "servers": []}
    ]
    write(
        home / ".config/goose/config.yaml",
        "extensions: {developer: {type: builtin}, s: {type: stdio, cmd: x, args: []}}",
    )
    assert json.loads(mcpkit("hosts", "goose", "--json")[1])[0]["files"][0]["servers"] == ["s"]
    assert mcpkit("hosts", "curser")[0] == 2
    drawn = subprocess.run(
        [sys.executable, "-m", "mcpkit", "hosts"],
        env={**os.environ, "COLUMNS": "120"},
        capture_output=True,
        encoding="utf-8",
        check=True,
    ).stdout
    assert next(line.split()[:5] for line in drawn.splitlines() if "cursor" in line) == [
        "cursor", "yes", "user", "~/.cursor/mcp.json", "shop"
    ]  # fmt: skip


EXAMPLES = int(os.environ.get("MCPKIT_TEST_EXAMPLES", "50"))


PIECES = (
    "$", "{", "}", "$$", ":-", "env:", "SET", "UNSET", "word", "5", " ", "é", '"', "\\", "#", "%SET%", "/",
    "$SET", "${SET}", "${SET:-x}", "${UNSET:-x}", "${env:SET}", "${env:SET}", "${env:SET}", "$UNSET", "${UNSET}",
    "${userHome}", "${workspaceFolder}", "${/}", "${$}", "${input:key}", "${file:/x}", "${}",
)  # fmt: skip


def replaced(host: str, text: str, values: dict[str, str], home: str, folder: str) -> str:
    """Return what a host makes of a text, by its source or documentation; unset variables stay as they are."""
    places = {
        "userHome": home, "workspaceFolder": folder, "workspaceFolderBasename": Path(folder).name,
        "pathSeparator": os.sep, "/": os.sep,
    }  # fmt: skip

    def braced(found: re.Match[str]) -> str:
        inner = found[1]
        if host == "claude-code":
            name, _, default = inner.partition(":-")
            return values.get(name) or (default if ":-" in inner else found[0])
        if inner.startswith("env:"):
            return values.get(inner[4:], found[0])
        return places.get(inner, found[0]) if host in {"cursor", "vscode"} else found[0]

    if host in {"gemini-cli", "qwen-code"}:
        plain = re.compile(r"\$(?:(\w+)|\{([^}]+)\})", re.ASCII)
        return plain.sub(lambda found: values.get(found[1] or found[2], found[0]), text)
    if host in {"claude-code", "cursor", "vscode", "windsurf"}:
        return re.sub(r"\$\{([^}]*)\}", braced, text)
    return text


def read_back(name: str, folder: Path) -> Process | Remote:
    target = configured(name)
    assert isinstance(target, dict)
    return Configuration(target, name, folder).read("server").reached


@pytest.mark.parametrize("name", list(HOSTS))
def test_value_is_read_as_the_host_reads_it(name, home, project, monkeypatch) -> None:
    monkeypatch.setenv("SET", "value of $SET")
    monkeypatch.delenv("UNSET", raising=False)
    chance = random.Random(name)
    host = HOSTS[name]
    file = file_of(host, "user", project)
    file.path.parent.mkdir(parents=True, exist_ok=True)
    folders = str(home), str(project)
    seen = {"literal": 0, "replaced": 0, "refused": 0}
    for _ in range(max(20, EXAMPLES // len(HOSTS))):
        text = "".join(chance.choices(PIECES, k=chance.randint(1, 6)))
        is_remote = host.http is not None and chance.random() < 0.3
        server = (
            Remote("https://x.example/mcp", {"X-Key": text})
            if is_remote
            else Process(["npx", text], {"KEY": text}, None)
        )
        entry = entry_of(host, "shop", server)
        file.path.write_bytes(Document(file, b"").with_entry("shop", entry))
        wanted = replaced(name, text, {"SET": "value of $SET"}, *folders)
        is_refused = any(variables_in(host, entry))
        if not is_refused:
            assert wanted == text, f"{name} would not pass on {text!r}"
        else:
            every = dict.fromkeys(re.findall(r"\w+", text, re.ASCII), "-")
            special = re.search(r"\$\{(input|file):", text)
            assert special or replaced(name, text, every, *folders) != text, (
                f"{text!r} is refused for nothing"
            )
        try:
            reached = read_back(f"{name}:shop", project)
        except ValueError:  # a variable that is not set, or that only the host knows
            reached = None
        if reached is None:
            assert is_refused
            seen["refused"] += 1
        elif isinstance(reached, Remote):
            assert reached.headers == {"X-Key": wanted}
        else:
            assert reached.command[-1] == wanted
            assert reached.env == {"KEY": wanted}
        if reached is not None:
            seen["replaced" if is_refused else "literal"] += 1
    assert seen["literal"] > 0
    assert (seen["replaced"] > 0) == bool(host.variables)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["gemini-cli", "-e", "KEY=pa$word"], "replaces variables such as $NAME in env.KEY"),
        (["claude-code", "-e", "KEY=a${B}c"], "variables such as ${NAME} in env.KEY"),
        (["vscode", "-e", "KEY=${env:B}"], "pass the value in a file with --env-file FILE"),
        (
            ["gemini-cli", "--cwd", "a$b"],
            "in cwd, and has no escape for them. Add --expand to allow this, or use a path",
        ),
        (["cursor", "--cwd", "."], "--cwd"),
    ],
)
def test_install_rejects_values_that_the_host_would_replace(mcpkit, home, words, message) -> None:
    host, *options = words
    status, _, err = mcpkit("install", host, "npx shop", "--name", "shop", *options)
    assert (status, message in err) == (1, True), err
    assert "word" not in err
    assert not list(home.rglob("*.json"))


@pytest.mark.anyio
async def test_client_skips_entries_that_cannot_be_read(mcpkit, project, caplog) -> None:
    mcpkit("install", "cursor", "server.py", "--scope", "project", "--name", "shop")
    file = project / ".cursor" / "mcp.json"
    content = json.loads(file.read_text())
    content["mcpServers"] |= {
        "unset": {"command": "x", "env": {"A": "${env:UNSET_HERE}"}},
        "wrong": {"args": 5},
    }
    file.write_text(json.dumps(content))
    assert read_back(f"{file}:shop", project)
    async with ClientGroup(file) as client:
        assert [tool["name"] for tool in await client.list_tools()] == ["shop_price"]
        assert set(client.failures) == {"unset", "wrong"}
    assert "the environment variable UNSET_HERE is not set" in caplog.text
    del content["mcpServers"]["shop"]
    file.write_text(json.dumps(content))
    with pytest.raises((TypeError, ValueError), match=r"UNSET_HERE|wrong"):
        ClientGroup(file)


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["install", "c"], ["claude-desktop", "claude-code", "cursor", "codex"]),
        (["uninstall", "cursor", "s"], ["shop", "shoe"]),
        (["uninstall", "qwen-code", "s"], []),
        (["hosts", "z"], ["zed"]),
    ],
)
def test_shell_completion_offers_hosts_and_their_servers(home, words, offered):
    write(home / ".cursor/mcp.json", {"mcpServers": {"shop": NPX, "shoe": NPX, "other": NPX}})
    write(home / ".qwen/settings.json", "{")
    *before, incomplete = words
    completing = ShellComplete(mcpkit_command, {}, "mcpkit", "_MCPKIT_COMPLETE")
    assert [item.value for item in completing.get_completions(before, incomplete)] == offered
