"""The configurations of hosts, as each of them documents its own."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from mcpkit.client.targets.configuration import Configuration, load, workspace
from mcpkit.client.targets.reached import Configured, Process, Remote, Tools

HOSTS = Path(__file__).parent / "hosts"
HERE = Path("/work space")


def read_all(content: dict[str, Any], folder: Path = HERE) -> dict[str, Configured]:
    configuration = Configuration(content, "the file", folder)
    return {name: configuration.read(name) for name in configuration.entries}


def read_file(name: str) -> dict[str, Configured]:
    return read_all(load(HOSTS / name))


def process(server: Configured) -> Process:
    assert isinstance(server.reached, Process)
    return server.reached


def remote(server: Configured) -> Remote:
    assert isinstance(server.reached, Remote)
    return server.reached


def test_claude_desktop() -> None:
    servers = read_file("claude_desktop_config.json")
    assert process(servers["filesystem"]) == Process(
        (
            "npx",
            "-y",
            "@modelcontextprotocol/server-filesystem",
            "/data/Desktop",
            "/data/Downloads",
        ),
        {},
        HERE,
    )
    assert servers["filesystem"].timeout is None


def test_claude_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_KEY", "secret")
    monkeypatch.delenv("API_BASE_URL", raising=False)
    servers = read_file(".mcp.json")
    assert remote(servers["api-server"]) == Remote(
        "https://api.example.com/mcp", {"Authorization": "Bearer secret"}, None, "http"
    )
    assert servers["api-server"].timeout == 600
    assert process(servers["shared-server"]).command == ("/path/to/server",)


def test_cursor(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("API_KEY", "secret")
    monkeypatch.setenv("MY_SERVICE_TOKEN", "token")
    lines = [
        "# local",
        "",
        "export LEVEL=debug # for now",
        'NAME = "a # b"',
        "API_KEY=that of the file",
        "EMPTY=",
    ]
    (tmp_path / ".env").write_text("\n".join(lines))
    servers = read_all(load(HOSTS / ".cursor/mcp.json"), tmp_path)
    local = process(servers["local-server"])
    assert local.command == ("python", f"{tmp_path}/tools/mcp_server.py")
    assert local.env == {"LEVEL": "debug", "NAME": "a # b", "API_KEY": "secret", "EMPTY": ""}
    assert remote(servers["remote-server"]).headers == {"Authorization": "Bearer token"}
    assert remote(servers["remote-server"]).way is None


def test_vs_code() -> None:
    configuration = Configuration(load(HOSTS / ".vscode/mcp.json"), "mcp.json", HERE)
    assert list(configuration.entries) == ["github", "memory", "perplexity"]
    assert remote(configuration.read("github")).way == "http"
    assert process(configuration.read("memory")).command == (
        "npx",
        "-y",
        "@modelcontextprotocol/server-memory",
    )
    with pytest.raises(ValueError, match="editor") as raised:
        configuration.read("perplexity")
    place = "mcp.json, server 'perplexity', env.PERPLEXITY_API_KEY"
    assert str(raised.value).startswith(
        f"{place}: ${{input:perplexity-key}} (Perplexity API Key) is what an editor asks"
    )


def test_settings_of_vs_code() -> None:
    servers = read_all({"editor.fontSize": 12, "mcp": {"servers": {"memory": {"command": "npx"}}}})
    assert process(servers["memory"]).command == ("npx",)


def test_windsurf(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTH_TOKEN", "token")
    server = read_file("mcp_config.json")["remote-http-mcp"]
    assert remote(server) == Remote("https://example.com/mcp", {"API_KEY": "Bearer token"})
    assert server.tools == Tools(None, frozenset({"delete_everything"}))


def test_gemini_cli(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DB_CONNECTION_STRING", "postgres://")
    monkeypatch.setenv("EXTERNAL_API_KEY", "key")
    servers = read_file("gemini_settings.json")
    python = process(servers["pythonTools"])
    assert python.env == {"DATABASE_URL": "postgres://", "API_KEY": "key"}
    assert python.cwd == HERE / "mcp-servers/python"
    assert servers["pythonTools"].timeout == 15
    assert remote(servers["httpServer"]) == Remote("http://localhost:3000/mcp", way="http")
    headers = {"Authorization": "Bearer your-api-token", "X-Custom-Header": "custom-value"}
    assert remote(servers["httpServerWithAuth"]).headers == headers
    assert remote(servers["sseServer"]) == Remote("http://localhost:8080/sse")
    tools = servers["filteredServer"].tools
    assert tools.have("file_reader")
    assert not tools.have("dangerous_tool")


def test_cline_counts_seconds_and_what_is_disabled_is_left_out() -> None:
    servers = read_file("cline_mcp_settings.json")
    assert list(servers) == ["local-server"]
    assert servers["local-server"].timeout == 3600


def test_lm_studio() -> None:
    server = read_file("lm_studio_mcp.json")["hf-mcp-server"]
    assert remote(server).headers == {"Authorization": "Bearer <YOUR_HF_TOKEN>"}


def test_zed(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        servers = read_file("zed_settings.json")
    assert list(servers) == ["local-mcp-server", "older", "remote-mcp-server"]
    assert caplog.messages == [
        "the file: server mcp-server-github is left out, as an extension of Zed's starts it"
    ]
    assert servers["local-mcp-server"].timeout == 3600
    assert process(servers["older"]) == Process(("some-command", "arg-1"), {"LEVEL": "debug"}, HERE)


def test_fastmcp(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        servers = read_file("fastmcp.json")
    assert remote(servers["weather"]) == Remote(
        "https://weather-api.example.com/mcp", {}, "token-123", "http"
    )
    assert servers["assistant"].timeout == 30
    assert remote(servers["events"]) == Remote(
        "https://events.example.com/sse", {}, None, "sse", logs_in=True
    )
    assert caplog.messages == []


def test_one_entry_and_servers_without_a_key_above_them() -> None:
    assert process(read_all({"command": "uvx"})["server"]).command == ("uvx",)
    servers = read_all({"a": {"command": "uvx"}, "b": {"url": "https://example.com/mcp"}})
    assert list(servers) == ["a", "b"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({}, "the file: this is no configuration of servers: it has to have them by name under mcpServers"),
        ({"mcpserver": {}}, "did you mean mcpServers?"),
        ({"comand": "uvx"}, "did you mean command?"),
        ({"mcpServers": {}}, "the file: there is no server in it that is enabled"),
        (
            {"mcpServers": {"a": {"command": "uvx", "disabled": True}}},
            "there is no server in it that is enabled",
        ),
        (
            {"mcpServers": {"a": {"command": "uvx", "enabled": False}}},
            "there is no server in it that is enabled",
        ),
        ({"mcpServers": {}, "servers": {}}, "the file: it has both mcpServers and servers; keep one of them"),
        ({"command": "uvx", "disabled": True}, "the file: it is disabled"),
    ],
)
def test_what_is_no_configuration_is_told_apart(content: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match="the file") as raised:
        read_all(content)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"mcpServers": []}, "the file: mcpServers has to be an object, the servers by name"),
        ({"mcpServers": {"a": "server.py"}}, "an entry is an object with command or url, not a str"),
    ],
)
def test_servers_are_objects(content: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError) as raised:
        read_all(content)
    assert message in str(raised.value)


def test_a_file_that_is_no_json_is_named_with_the_place_in_it(tmp_path: Path) -> None:
    (path := tmp_path / "mcp.json").write_text('{\n  // a comment\n  "mcpServers": {,}\n}')
    with pytest.raises(ValueError, match=r"mcp\.json is no JSON: .*line 3 column 18"):
        load(path)
    path.write_text("[]")
    with pytest.raises(ValueError, match="it has to be an object"):
        load(path)


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    (path := tmp_path / "mcp.json").write_bytes(b'\xef\xbb\xbf{"command": "uvx"}')
    assert load(path) == {"command": "uvx"}


def test_the_workspace_is_above_the_folders_of_hosts() -> None:
    assert workspace(Path("/project/.vscode/mcp.json")) == Path("/project")
    assert workspace(Path("/project/.mcp.json")) == Path("/project")
