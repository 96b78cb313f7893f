"""The transports to a target, and the options that it has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mcpkit import Server
from mcpkit.client.targets.targets import transports_of
from mcpkit.client.transports.memory import MemoryTransport

server = Server("weather")


def test_a_transport_of_ones_own_is_used_as_it_is() -> None:
    transport = MemoryTransport(server)
    [entry] = transports_of(transport)
    assert list(entry.transports) == [transport]


def test_a_configuration_in_python_may_have_any_target() -> None:
    transport = MemoryTransport(server)
    entries = transports_of({"mcpServers": {"weather": server, "maps": transport}})
    assert [entry.name for entry in entries] == ["weather", "maps"]
    assert list(entries[1].transports) == [transport]


def test_a_file_may_not(tmp_path: Path) -> None:
    (path := tmp_path / "mcp.json").write_text('{"mcpServers": {"weather": "server.py"}}')
    with pytest.raises(
        TypeError, match=r"server 'weather': an entry is an object with command or url, not a str"
    ):
        transports_of(path)


def test_a_configuration_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"there is no .*mcp\.json in"):
        transports_of(str(tmp_path / "mcp.json"))


def everything(target: Any, **options: Any) -> None:
    transports_of(target, **options)


@pytest.mark.parametrize(
    ("target", "options", "message"),
    [
        (server, {"env": {}}, "env= is nothing that a server object has; "),
        (
            MemoryTransport(server),
            {"headers": {}},
            "headers= is nothing that a transport has; it has no options",
        ),
        (
            ["uvx", "it"],
            {"headers": {"A": "b"}},
            "headers= is nothing that a process has; there are env=, cwd=, stderr=, grace=, max_answer=",
        ),
        (
            "https://example.com/mcp",
            {"stderr": None, "env": {}},
            "env= is nothing that a URL has; there are headers=, t",
        ),
        (server.asgi(), {"proxy": "http://a"}, "proxy= is nothing that an ASGI app has; "),
        (
            {"mcpServers": {"a": server}},
            {"token": "t"},
            "token= is nothing that a server object has; there are headers=",
        ),
        (
            {"mcpServers": {"a": {"command": "a"}, "b": {"url": "https://b.c"}}},
            {"token": "secret"},
            "token= would be for each of the 2 servers of the configuration; write it in the entry of the one that it",
        ),
        (
            {"mcpServers": {"a": {"command": "a"}, "b": {"command": "b"}}},
            {"proxy": "http://a"},
            "proxy= is nothing that a process has; there are env=",
        ),
    ],
)
def test_options_that_a_target_does_not_have_are_refused(target: Any, options: Any, message: str) -> None:
    with pytest.raises(ValueError, match="=") as raised:
        everything(target, **options)
    assert str(raised.value).startswith(message)


def test_an_option_that_there_is_not_is_told() -> None:
    with pytest.raises(TypeError, match="a client has no option hedaers=; did you mean headers="):
        everything(server, hedaers={})


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (
            {"url": "unix:///run/server.sock"},
            "the configuration, server 'a': the URL of a server begins with http:// or",
        ),
        (
            {"url": "https://a.b", "headers": {"Key": "secret\n"}},
            "the configuration, server 'a': the value of Key has",
        ),
        (
            {"url": "https://a.b", "headers": {"Mcp-Session-Id": "1"}},
            "the configuration, server 'a': the header Mcp-Se",
        ),
    ],
)
def test_a_server_that_cannot_be_reached_as_it_is_written_is_named(entry: Any, message: str) -> None:
    with pytest.raises(ValueError, match="server 'a'") as raised:
        everything({"mcpServers": {"a": entry}})
    assert str(raised.value).startswith(message)
    assert "secret" not in str(raised.value)


def test_every_documented_configuration_becomes_transports(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("API_KEY", "AUTH_TOKEN", "DB_CONNECTION_STRING", "EXTERNAL_API_KEY"):
        monkeypatch.setenv(name, "value")
    hosts = Path(__file__).parent / "hosts"
    for path in sorted(hosts.glob("*.json")):
        assert all(entry.transports for entry in transports_of(path)), path


@pytest.mark.parametrize(
    ("target", "names"),
    [
        ("https://example.com/mcp", ["HttpTransport", "SseTransport"]),
        ("https://example.com/sse", ["SseTransport", "HttpTransport"]),
        ("https://example.com/sse/a?b", ["SseTransport", "HttpTransport"]),
        ("https://example.com/assets", ["HttpTransport", "SseTransport"]),
        ({"type": "sse", "url": "https://example.com/mcp"}, ["SseTransport"]),
        ({"type": "http", "url": "https://example.com/sse"}, ["HttpTransport", "SseTransport"]),
        ({"httpUrl": "https://example.com/sse"}, ["HttpTransport", "SseTransport"]),
        ({"command": "uvx"}, ["StdioTransport"]),
        (server, ["MemoryTransport"]),
        (server.asgi(), ["HttpTransport", "SseTransport"]),
    ],
)
def test_the_ways_to_a_server_are_tried_in_order(target: Any, names: list[str]) -> None:
    [entry] = transports_of(target)
    assert [type(transport).__name__ for transport in entry.transports] == names
