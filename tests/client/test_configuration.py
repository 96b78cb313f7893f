"""Configurations of hosts: entries, variables, comments, and errors that name the place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mcpkit.client.targets.configuration import Configuration, load
from mcpkit.client.targets.entry import Entry
from mcpkit.client.targets.jsonc import loads
from mcpkit.client.targets.reached import Configured, Process, Remote
from mcpkit.client.targets.variables import Variables
from tests.helpers.tables import each_row

HOSTS = Path(__file__).parent / "hosts"
HERE = Path("/work space")


def read_configuration(content: dict[str, Any], folder: Path = HERE) -> dict[str, Configured]:
    configuration = Configuration(content, "the file", folder)
    return {name: configuration.read(name) for name in configuration.entries}


def test_cursor(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("API_KEY", "secret")
    monkeypatch.setenv("MY_SERVICE_TOKEN", "token")
    variables = 'export LEVEL=debug # for now\nNAME = "a # b"\nAPI_KEY=that of the file\nEMPTY='
    (tmp_path / ".env").write_text(f"# local\n\n{variables}")
    servers = read_configuration(load(HOSTS / ".cursor/mcp.json"), tmp_path)
    local, remote = servers["local-server"].reached, servers["remote-server"].reached
    assert isinstance(local, Process)
    assert local.command == ("python", f"{tmp_path}/tools/mcp_server.py")
    assert local.env == {"LEVEL": "debug", "NAME": "a # b", "API_KEY": "secret", "EMPTY": ""}
    assert isinstance(remote, Remote)
    assert (remote.headers, remote.way) == ({"Authorization": "Bearer token"}, None)


def test_vs_code() -> None:
    configuration = Configuration(load(HOSTS / ".vscode/mcp.json"), "mcp.json", HERE)
    assert list(configuration.entries) == ["github", "memory", "perplexity"]
    github, memory = (configuration.read(name).reached for name in ("github", "memory"))
    assert isinstance(github, Remote)
    assert github.way == "http"
    assert isinstance(memory, Process)
    assert memory.command == ("npx", "-y", "@modelcontextprotocol/server-memory")
    with pytest.raises(ValueError, match="editor") as raised:
        configuration.read("perplexity")
    assert str(raised.value).startswith(
        "mcp.json, server 'perplexity', env.PERPLEXITY_API_KEY: ${input:perplexity-key} (Perplexity API Key)"
    )


@each_row(("content", "message"), [
    ({}, "the file: not a configuration of servers. It must have the servers by name under mcpServers"),
    ({"mcpserver": {}}, "did you mean mcpServers?"),
    ({"mcpServers": {}}, "the file: the configuration has no enabled server"),
    ({"mcpServers": {"a": {"command": "uvx", "disabled": True}, "b": {"command": "uvx", "enabled": False}}},
     "the configuration has no enabled server"),
    ({"mcpServers": {}, "servers": {}}, "the file: the configuration has both mcpServers and servers. Remove one"),
    ({"command": "uvx", "disabled": True}, "the file: the entry is disabled"),
])  # fmt: skip
def test_configuration_malformed_is_error(content: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match="the file") as raised:
        read_configuration(content)
    assert message in str(raised.value)


def test_configuration_not_json_error_has_line(tmp_path: Path) -> None:
    (path := tmp_path / "mcp.json").write_text('{\n  // a comment\n  "mcpServers": {,}\n}')
    with pytest.raises(ValueError, match=r"mcp\.json is not valid JSON: .*line 3 column 18"):
        load(path)
    path.write_text("[]")
    with pytest.raises(ValueError, match="it must be an object"):
        load(path)


WORKSPACE = Path("/workspace")


def read_entry(content: dict[str, Any], *, counts_seconds: bool = False) -> Configured:
    return Entry(content, "here", Variables(WORKSPACE, {}), WORKSPACE, counts_seconds=counts_seconds).read()


@each_row(("timeout", "counts_seconds", "seconds"), [
    (2.5, False, 2.5), (999, False, 999), (1000, False, 1), (600_000, False, 600),
    (1000, True, 1000), (3600, True, 3600), (60_000, True, 60),
])  # fmt: skip
def test_entry_timeout_is_seconds_or_milliseconds(
    timeout: float, *, counts_seconds: bool, seconds: float
) -> None:
    entry = {"command": "uvx", "timeout": timeout}
    assert read_entry(entry, counts_seconds=counts_seconds).timeout == seconds


@each_row(("content", "message"), [
    ({"args": []}, "here: the entry has no command or url"),
    ({"comand": "uvx"}, "here: the entry has no command or url; did you mean command?"),
    ({"type": "stdio", "url": "https://a.b"}, "here: the entry has no command"),
    ({"type": "http", "command": "uvx"}, "here: the entry has no url"),
    ({"type": "websocket", "url": "wss://a"}, "here: type must be stdio, http or sse"),
    ({"url": "https://a.b", "httpUrl": "https://a.b"}, "here: the entry has both url and httpUrl. Remove one of them"),
    ({"url": "https://a.b", "command": "uvx"}, "here: the entry has both command and url. Set type"),
    ({"command": ""}, "here: command is empty"),
    ({"command": "uvx", "timeout": 0}, "here: timeout must be a positive number"),
    ({"command": "uvx", "timeout": "30s"}, "here: timeout must be a positive number"),
    ({"command": "uvx", "disabled": True}, "here: the entry is disabled"),
    ({"command": "uvx", "sandboxEnabled": True}, "here: sandboxEnabled is not supported"),
    ({"command": "uvx", "envFile": ".env"},
     "here: cannot read envFile /workspace/.env: No such file or directory"),
])  # fmt: skip
def test_entry_malformed_is_value_error(content: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match="here") as raised:
        read_entry(content)
    assert str(raised.value).startswith(message)


def test_entry_error_and_repr_have_no_secret(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("A=1\nsecret\n")
    entry = {"command": "uvx", "envFile": ".env"}
    with pytest.raises(ValueError, match="line 2 of envFile") as raised:
        Entry(entry, "here", Variables(tmp_path, {}), tmp_path, counts_seconds=False).read()
    assert "secret" not in str(raised.value)
    process = {"command": "uvx", "args": ["--key=secret"], "env": {"KEY": "secret"}}
    url = {"url": "https://example.com/mcp?key=secret", "headers": {"Key": "secret"}, "auth": "secret"}
    assert "secret" not in repr([read_entry(process), read_entry(url)])


@each_row(("text", "value"), [
    ('{"a": 1, // one\n "b": [1, 2,], /* and\n so on */ }', {"a": 1, "b": [1, 2]}),
    ('{"url": "https://a.b/*c*/", "text": ",}", "quote": "\\"// no"}',
     {"url": "https://a.b/*c*/", "text": ",}", "quote": '"// no'}),
    ("// first\n[1, /* , */ 2 /**/,\n// last\n]\n// end", [1, 2]),
])  # fmt: skip
def test_jsonc_comments_and_trailing_commas_are_skipped(text: str, value: Any) -> None:
    assert loads(text) == value


VARIABLES = Variables(Path("/srv/project"), {"key": "The key"})


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CITY", "Oslo")
    monkeypatch.setenv("EMPTY", "")
    monkeypatch.delenv("MISSING", raising=False)


@each_row(("text", "filled"), [
    ("$CITY", "Oslo"), ("${env:CITY}", "Oslo"), ("a${CITY}b$CITY-c", "aOslobOslo-c"), ("${EMPTY}", ""),
    ("${MISSING:-Bergen}", "Bergen"), ("${MISSING:-}", ""), ("${EMPTY:-Bergen}", "Bergen"),
    ("${env:MISSING:-http://a:1/b}", "http://a:1/b"), ("${CITY:-Bergen}", "Oslo"),
    ("${workspaceFolder}/a", "/srv/project/a"), ("${workspaceFolderBasename}", "project"),
    ("${userHome}", str(Path.home())), ("a${/}b${pathSeparator}c", "a/b/c"),
    ("costs 5$, or $5", "costs 5$, or $5"), ("^a$|b$", "^a$|b$"), ("pa${$}CITY, ${$}{CITY}", "pa$CITY, ${CITY}"),
])  # fmt: skip
def test_variables_are_substituted(text: str, filled: str) -> None:
    assert VARIABLES.fill(text, "here") == filled


@each_row(("text", "message"), [
    ("${MISSING}", "here: the environment variable MISSING is not set. Set it, or write ${MISSING:-default}"),
    ("pa$MISSING", "here: the environment variable MISSING is not set. Set it, or write ${$}"),
    ("${input:key}", "here: ${input:key} (The key) is a prompt of an editor"),
    ("${input:other}", "here: ${input:other} is a prompt of an editor"),
    ("${command:pick}", "here: unknown variable ${command:pick}. Use ${NAME}, ${env:NAME}"),
    ("${}", "here: unknown variable ${}"),
    ("${MISSING:-${CITY}}", "here: the default of ${MISSING} contains another variable, which is not supported"),
])  # fmt: skip
def test_variables_missing_or_unsupported_are_errors(text: str, message: str) -> None:
    with pytest.raises(ValueError, match="here") as raised:
        VARIABLES.fill(text, "here")
    assert str(raised.value).startswith(message)
    assert "Oslo" not in str(raised.value)
