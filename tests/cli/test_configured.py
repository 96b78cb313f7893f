"""Servers in the configuration of hosts as targets of commands, and variables in their values."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.shell_completion import ShellComplete

from mcpkit import Client, ClientGroup
from mcpkit._utils import python_safe_path
from mcpkit.cli.app import mcpkit as mcpkit_command
from mcpkit.cli.exit_status import CommandError
from mcpkit.cli.hosts.config_editing import read_document
from mcpkit.cli.hosts.config_entries import entry_of, find_server, variables_in
from mcpkit.cli.hosts.host_table import HOSTS, file_of
from mcpkit.cli.server_target import resolve_target
from mcpkit.client.targets.host_configuration import Configuration
from mcpkit.client.targets.infer_target import HttpServerConfig, StdioServerConfig
from tests.helpers.tables import each_row

pytestmark = pytest.mark.usefixtures("home", "project")

URL = "https://x.example"
NPX = {"command": "npx", "args": ["-y", "shop"]}


def write(path: Path, content: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


async def test_target_of_reads_the_entry_that_install_wrote(mcpkit, home, project):
    for host in ("cursor", "codex", "goose", "vscode"):
        assert mcpkit("install", host, "server.py", "--name", "shop")[0] == 0
    files = (f"{home}/.codex/config.toml:shop", f"{home}/.cursor/mcp.json:shop")
    for name in ("shop", "goose:shop", "codex:shop", *files):
        target = resolve_target(name)
        assert isinstance(target, dict)
        command = python_safe_path.mcpkit_command("run", str(project / "server.py"))
        assert [target["command"], *target["args"]] == command
    async with Client(resolve_target("goose:shop")) as client:
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
    headers = {"A": "b", "C": "${D}", "Authorization": "Bearer ${TOKEN}"}
    assert resolve_target("far") == {"url": URL, "headers": headers, "timeout": 5}
    assert resolve_target("here") == {"command": "x", "env": {"A": "${A}"}, "enabledTools": ["t"]}
    env = {"E": "1", "SET": "${SET}"}
    assert resolve_target("keyed") == {"command": "x", "env": env, "enabled": True, "timeout": 300}
    for name in ("off", "developer", "goose:developer"):
        with pytest.raises(CommandError, match=r"is not a file|has no server"):
            resolve_target(name)


@pytest.mark.parametrize(("name", "message"), [
    ("shob", "shob is not a file, a URL, .* of a host; did you mean shop"),
    ("cursor:shob", "Cursor has no server shob; did you mean shop"),
    ("mcp.json:shob", "mcp.json has no server shob; did you mean shop"),
    ("broken.json:x", "broken.json is not valid JSON"),
    ("empty.toml:x", "empty.toml has no server x$"),
])  # fmt: skip
def test_target_of_unknown_name_raises_with_suggestion(home, project, name, message):
    write(home / ".cursor/mcp.json", {"mcpServers": {"shop": NPX}})
    write(project / "mcp.json", {"mcpServers": {"shop": NPX}})
    write(project / "broken.json", "{")
    write(project / "empty.toml", "")
    with pytest.raises((CommandError, ValueError), match=message):
        resolve_target(name)


def test_hosts_lists_files_and_servers(mcpkit, home, project, monkeypatch):
    write(home / ".cursor/mcp.json", {"mcpServers": {"shop": NPX}})
    write(project / ".cursor/mcp.json", "{")
    status, out, _ = mcpkit("hosts", "cursor", "windsurf", "--json")
    assert status == 0
    (cursor, broken), [windsurf] = (host["files"] for host in json.loads(out))
    assert [host["found"] for host in json.loads(out)] == [True, False]
    assert cursor == {
        "scope": "user",
        "path": f"{home}/.cursor/mcp.json",
        "exists": True,
        "servers": ["shop"],
    }
    assert "is not valid JSON" in broken["problem"]
    assert windsurf["path"] == f"{home}/.codeium/windsurf/mcp_config.json"
    assert (windsurf["exists"], windsurf["servers"]) == (False, [])
    extensions = "extensions: {developer: {type: builtin}, s: {type: stdio, cmd: x, args: []}}"
    write(home / ".config/goose/config.yaml", extensions)
    assert json.loads(mcpkit("hosts", "goose", "--json")[1])[0]["files"][0]["servers"] == ["s"]
    assert mcpkit("hosts", "curser")[0] == 2
    monkeypatch.setenv("COLUMNS", "120")
    drawn = mcpkit("hosts")[1]
    cells = next(line.split()[:5] for line in drawn.splitlines() if "cursor" in line)
    assert cells == ["cursor", "yes", "user", "~/.cursor/mcp.json", "shop"]


VALUE = "value of $SET"


@each_row(("name", "text", "expected"), [
    ("claude-desktop", "${SET}$SET${env:SET}", "${SET}$SET${env:SET}"),
    ("claude-code", "a${SET}${UNSET:-x}", f"a{VALUE}x"),
    ("claude-code", "$SET ${env:SET} ${} $", "$SET ${env:SET} ${} $"), ("claude-code", "${UNSET}", None),
    ("cursor", "${env:SET} ${workspaceFolderBasename}${/}", f"{VALUE} project/"),
    ("cursor", "$SET ${SET} ${$} %SET%", "$SET ${SET} ${$} %SET%"),
    ("vscode", "${env:SET}${env:SET}", VALUE * 2), ("vscode", "${input:key}", None),
    ("windsurf", "${env:SET}", VALUE), ("windsurf", "${userHome} ${SET:-x}", "${userHome} ${SET:-x}"),
    ("windsurf", "${file:/x}", None), ("gemini-cli", "$SET ${SET}", f"{VALUE} {VALUE}"),
    ("gemini-cli", "$$ ${", "$$ ${"), ("gemini-cli", "${userHome}", None), ("qwen-code", "$SET", VALUE),
    ("codex", "$SET ${env:SET}", "$SET ${env:SET}"), ("zed", "${SET}", "${SET}"),
    ("goose", "$SET ${userHome}", "$SET ${userHome}"), ("qodercli", "${SET}$$", "${SET}$$"),
])  # fmt: skip
def test_value_is_read_as_the_host_reads_it(name, text, expected, project, monkeypatch) -> None:
    monkeypatch.setenv("SET", VALUE)
    monkeypatch.delenv("UNSET", raising=False)
    host = HOSTS[name]
    file = file_of(host, "user", project)
    servers = [StdioServerConfig(["npx", text], {"KEY": text}, None)]
    servers += [HttpServerConfig(URL, {"X-Key": text})] if host.http is not None else []
    for server in servers:
        entry = entry_of(host, "shop", server)
        write(file.path, read_document(file, b"").with_entry("shop", entry).decode())
        assert any(variables_in(host, entry)) == (expected != text)
        if expected is None:
            with pytest.raises(ValueError, match=r"is not set|UNSET|input|file|supported"):
                reached_by(f"{name}:shop", project)
        elif isinstance(server, HttpServerConfig):
            assert reached_by(f"{name}:shop", project).headers == {"X-Key": expected}
        else:
            reached = reached_by(f"{name}:shop", project)
            assert (reached.command[-1], reached.env) == (expected, {"KEY": expected})


def reached_by(name: str, folder: Path) -> Any:
    return Configuration(find_server(name), name, folder).read("server").connection


async def test_client_skips_entries_that_cannot_be_read(mcpkit, project, caplog) -> None:
    mcpkit("install", "cursor", "server.py", "--scope", "project", "--name", "shop")
    file = project / ".cursor" / "mcp.json"
    content = json.loads(file.read_text())
    unset = {"command": "x", "env": {"A": "${env:UNSET_HERE}"}}
    content["mcpServers"] |= {"unset": unset, "wrong": {"args": 5}}
    file.write_text(json.dumps(content))
    assert reached_by(f"{file}:shop", project)
    async with ClientGroup(file) as client:
        assert [tool["name"] for tool in await client.list_tools()] == ["shop_price"]
        assert set(client.failures) == {"unset", "wrong"}
    assert "the environment variable UNSET_HERE is not set" in caplog.text
    del content["mcpServers"]["shop"]
    file.write_text(json.dumps(content))
    with pytest.raises((TypeError, ValueError), match=r"UNSET_HERE|wrong"):
        ClientGroup(file)


@pytest.mark.parametrize(("words", "offered"), [
    (["install", "c"], ["claude-desktop", "claude-code", "cursor", "codex"]),
    (["uninstall", "cursor", "s"], ["shop", "shoe"]),
    (["uninstall", "qwen-code", "s"], []),
    (["hosts", "z"], ["zed"]),
])  # fmt: skip
def test_shell_completion_offers_hosts_and_their_servers(home, words, offered):
    write(home / ".cursor/mcp.json", {"mcpServers": {"shop": NPX, "shoe": NPX, "other": NPX}})
    write(home / ".qwen/settings.json", "{")
    *before, incomplete = words
    completing = ShellComplete(mcpkit_command, {}, "mcpkit", "_MCPKIT_COMPLETE")
    assert [item.value for item in completing.get_completions(before, incomplete)] == offered
