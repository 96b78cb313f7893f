"""Targets of a client: what each becomes, its transports and options, and errors for targets that are none."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from mcpkit import Registry, Server
from mcpkit.client.targets.meant import meant
from mcpkit.client.targets.reached import Process
from mcpkit.client.targets.targets import transports_of
from mcpkit.client.transports.memory import MemoryTransport
from mcpkit.common.start import module_command
from tests.helpers.tables import each_row


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def command(target: object) -> list[str]:
    found = meant(target)
    assert isinstance(found, Process)
    return list(found.command)


def test_target_package_runs_as_module(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/other")
    (package := folder / "weather").mkdir()
    (package / "__init__.py").touch()
    (package / "__main__.py").touch()
    found = meant(package)
    assert isinstance(found, Process)
    assert found.command == module_command("weather")
    assert found.env == {"PYTHONPATH": f"{folder}{os.pathsep}/other"}
    (package / "server.py").touch()
    assert command(package) == module_command("weather.server")


async def app(scope: Any, receive: Any, send: Any) -> None:
    """An ASGI app."""


class App:
    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """The same as an object."""


async def make_server() -> Server:
    return Server("weather")


class OfAnotherFramework:
    """Has what servers of fastmcp have."""

    def http_app(self) -> object:
        return app


@each_row(("target", "message"), [
    (None, "the target is None: give a server object"),
    (Server, "Server is a class: give an object of it"),
    (App, "App is a class: give an object of it"),
    (json, "json is a module: give the server object in it"),
    (make_server, "make_server is a function that is no ASGI app: call it, and give what it returns"),
    (b"server.py", "the target is bytes: give a string"),
    (Registry(), "a Registry has no engine: include it in a Server, and give that"),
    (OfAnotherFramework(), "an OfAnotherFramework is a server of another framework: give its ASGI app, .http_app()"),
    (5, "an int is nothing that a client can connect to: give a server object, a transport"),
    ({"server.py"}, "a set is nothing that a client can connect to"),
    (["uvx", 80], "item 1 of the command is an int; each item has to be a string or a path"),
    ([{"command": "uvx"}], "item 0 of the command is a dict; each item has to be a string or a path"),
])  # fmt: skip
def test_target_wrong_type_is_error(target: object, message: str) -> None:
    with pytest.raises(TypeError) as raised:
        meant(target)
    assert str(raised.value).startswith(message)


@each_row(("target", "message"), [
    ("", "the target is empty"),
    ("  ", "the target is empty"),
    ('{"mcpServers": {}}', "the text of a configuration is no target"),
    ("sh", "sh is a program: write the command as a list, each word an item of its own: ['sh']"),
    ("sh -c 'python a.py'", "sh is a program: write the command as a list, each word an item of its own"),
    ("server.py --verbose", "a script that is given arguments is a command: write [sys.executable, 'server.py'"),
    ("example.com/mcp", "there is no file example.com/mcp; if a URL is meant, write https://example.com/mcp"),
    ("localhost:8000/mcp", "there is no file localhost:8000/mcp; if a URL is meant, write http://localhost:8000/mcp"),
    ("server:app", "an object in a file cannot be named by a text: import app, and write Client(app)"),
    ("server.py:app", "an object in a file cannot be named by a text: import app, and write Client(app)"),
    ("ws://example.com", "a client speaks http and https, and not ws; a transport of your own can"),
    ("https:///mcp", "the URL names no host; write https://host/mcp"),
    ("notes.txt", "it is not known what runs notes.txt: write it as a command"),
    ([], "the command is empty"),
    (["https://example.com"], "a URL is written by itself, not in a list"),
    (["server.py", "-v"], "a script is run by Python: write [sys.executable, 'server.py', ...], or"),
    (["uvx mcp-server-time"], "the command is one item with spaces in it: write each word as an item of its own"),
])  # fmt: skip
def test_target_not_connectable_is_error(folder: Path, target: object, message: str) -> None:
    (folder / "server.py").touch()
    (folder / "notes.txt").touch()
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        meant(target)


@pytest.mark.parametrize(("target", "message"), [
    ("sevrer.py", "there is no sevrer.py in {folder}; did you mean server.py?"),
    ("else.py", "there is no else.py in {folder}"),
    ("nowhere/server.py", "there is no nowhere/server.py: there is not even the folder {folder}/nowhere"),
    ("empty", "the folder empty has neither server.py nor __main__.py; name the script in it"),
])  # fmt: skip
def test_target_missing_file_is_error(folder: Path, target: str, message: str) -> None:
    (folder / "server.py").touch()
    (folder / "empty").mkdir()
    with pytest.raises(FileNotFoundError) as raised:
        meant(target)
    assert str(raised.value) == message.format(folder=folder)


server = Server("weather")


def everything(target: Any, **options: Any) -> None:
    transports_of(target, **options)


@each_row(("target", "options", "message"), [
    (server, {"env": {}}, "env= is nothing that a server object has; "),
    (MemoryTransport(server), {"headers": {}}, "headers= is nothing that a transport has; it has no options"),
    (["uvx", "it"], {"headers": {"A": "b"}},
     "headers= is nothing that a process has; there are env=, cwd=, stderr=, grace=, max_answer="),
    ("https://example.com/mcp", {"stderr": None, "env": {}}, "env= is nothing that a URL has; there are headers=, t"),
    (server.asgi(), {"proxy": "http://a"}, "proxy= is nothing that an ASGI app has; "),
    ({"mcpServers": {"a": server}}, {"token": "t"}, "token= is nothing that a server object has; there are headers="),
    ({"mcpServers": {"a": {"command": "a"}, "b": {"url": "https://b.c"}}}, {"token": "secret"},
     "token= would be for each of the 2 servers of the configuration; write it in the entry of the one that it"),
    ({"mcpServers": {"a": {"command": "a"}, "b": {"command": "b"}}}, {"proxy": "http://a"},
     "proxy= is nothing that a process has; there are env="),
])  # fmt: skip
def test_option_not_of_target_is_error(target: Any, options: Any, message: str) -> None:
    with pytest.raises(ValueError, match="=") as raised:
        everything(target, **options)
    assert str(raised.value).startswith(message)


def test_documented_host_configurations_have_transports(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("API_KEY", "AUTH_TOKEN", "DB_CONNECTION_STRING", "EXTERNAL_API_KEY"):
        monkeypatch.setenv(name, "value")
    hosts = Path(__file__).parent / "hosts"
    for path in sorted(hosts.glob("*.json")):
        assert all(entry.transports for entry in transports_of(path)), path


@each_row(("target", "names"), [
    ("https://example.com/mcp", ["HttpTransport", "SseTransport"]),
    ("https://example.com/sse", ["SseTransport", "HttpTransport"]),
    ("https://example.com/sse/a?b", ["SseTransport", "HttpTransport"]),
    ({"type": "sse", "url": "https://example.com/mcp"}, ["SseTransport"]),
    ({"type": "http", "url": "https://example.com/sse"}, ["HttpTransport", "SseTransport"]),
    ({"httpUrl": "https://example.com/sse"}, ["HttpTransport", "SseTransport"]),
    ({"command": "uvx"}, ["StdioTransport"]),
    (server, ["MemoryTransport"]),
    (server.asgi(), ["HttpTransport", "SseTransport"]),
])  # fmt: skip
def test_transports_of_target_are_in_order(target: Any, names: list[str]) -> None:
    [entry] = transports_of(target)
    assert [type(transport).__name__ for transport in entry.transports] == names
