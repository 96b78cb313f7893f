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
    (None, "the target is None. Pass a server object"),
    (Server, "Server is a class. Pass an instance of it"),
    (App, "App is a class. Pass an instance of it"),
    (json, "json is a module. Pass the server object in it"),
    (make_server, "make_server is a function, but not an ASGI app. Call it, and pass the object that it returns"),
    (b"server.py", "the target is bytes. Pass a string"),
    (Registry(), "a Registry has no engine. Include it in a Server, and pass the server"),
    (OfAnotherFramework(), "an OfAnotherFramework is a server of another framework. Pass its ASGI app, .http_app()"),
    (5, "a client cannot connect to an int. Pass a server object, a transport"),
    ({"server.py"}, "a client cannot connect to a set"),
    (["uvx", 80], "item 1 of the command must be a string or a path, got an int"),
    ([{"command": "uvx"}], "item 0 of the command must be a string or a path, got a dict"),
])  # fmt: skip
def test_target_wrong_type_is_error(target: object, message: str) -> None:
    with pytest.raises(TypeError) as raised:
        meant(target)
    assert str(raised.value).startswith(message)


@each_row(("target", "message"), [
    ("", "the target is empty"),
    ("  ", "the target is empty"),
    ('{"mcpServers": {}}', "the target is the text of a configuration"),
    ("sh", "sh is a program. Pass the command as a list with one item per word: ['sh']"),
    ("sh -c 'python a.py'", "sh is a program. Pass the command as a list with one item per word"),
    ("server.py --verbose", "the target is a script with arguments. Pass a list: [sys.executable, 'server.py'"),
    ("example.com/mcp", "no such file: example.com/mcp. For a URL, write https://example.com/mcp"),
    ("localhost:8000/mcp", "no such file: localhost:8000/mcp. For a URL, write http://localhost:8000/mcp"),
    ("server:app", "a client cannot import an object by name from a file. Import app, and write Client(app)"),
    ("server.py:app", "a client cannot import an object by name from a file. Import app, and write Client(app)"),
    ("ws://example.com", "URL scheme 'ws' is not supported. Use http or https"),
    ("https:///mcp", "the URL has no host. Write https://HOST/mcp"),
    ("notes.txt", "notes.txt is not a Python or Node.js script, an executable"),
    ([], "the command is empty"),
    (["https://example.com"], "the target is a list with a URL"),
    (["server.py", "-v"], "'server.py' is not executable. Pass [sys.executable, 'server.py', ...], or"),
    (["uvx mcp-server-time"], "the command is one item with spaces. Pass a list with one item per word"),
])  # fmt: skip
def test_target_not_connectable_is_error(folder: Path, target: object, message: str) -> None:
    (folder / "server.py").touch()
    (folder / "notes.txt").touch()
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        meant(target)


@pytest.mark.parametrize(("target", "message"), [
    ("sevrer.py", "sevrer.py does not exist in {folder}; did you mean server.py?"),
    ("else.py", "else.py does not exist in {folder}"),
    ("nowhere/server.py", "nowhere/server.py does not exist, nor does the folder {folder}/nowhere"),
    ("empty", "the folder empty has neither server.py nor __main__.py. Pass the path of the script"),
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
    (server, {"env": {}}, "a server object does not have the option env=. "),
    (MemoryTransport(server), {"headers": {}}, "a transport does not have the option headers=. It has no options"),
    (["uvx", "it"], {"headers": {"A": "b"}},
     "a process does not have the option headers=. Use env=, cwd=, stderr=, grace=, max_answer="),
    ("https://example.com/mcp", {"stderr": None, "env": {}}, "a URL does not have the option env=. Use headers=, t"),
    (server.asgi(), {"proxy": "http://a"}, "an ASGI app does not have the option proxy=. "),
    ({"mcpServers": {"a": server}}, {"token": "t"}, "a server object does not have the option token=. Use headers="),
    ({"mcpServers": {"a": {"command": "a"}, "b": {"url": "https://b.c"}}}, {"token": "secret"},
     "token= would apply to all 2 servers of the configuration. Set it in the entry of one server"),
    ({"mcpServers": {"a": {"command": "a"}, "b": {"command": "b"}}}, {"proxy": "http://a"},
     "a process does not have the option proxy=. Use env="),
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
