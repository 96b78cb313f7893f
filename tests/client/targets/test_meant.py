"""What a target means, and what to write in the place of one that means nothing."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from mcpkit import Registry, Server
from mcpkit.client.targets.meant import meant
from mcpkit.client.targets.reached import Process, Remote
from mcpkit.client.transports.memory import MemoryTransport
from mcpkit.common.start import module_command


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def command(target: object) -> list[str]:
    found = meant(target)
    assert isinstance(found, Process)
    return list(found.command)


def test_a_script_of_python_is_run_by_this_python(folder: Path) -> None:
    (folder / "server.py").touch()
    assert command("server.py") == [sys.executable, str(folder / "server.py")]
    assert command(Path("server.py")) == [sys.executable, str(folder / "server.py")]


@pytest.mark.parametrize("name", ["server.js", "server.mjs", "server.cjs", "server.ts", "server.mts"])
def test_a_script_of_javascript_is_run_by_node(folder: Path, name: str) -> None:
    (folder / name).touch()
    assert command(name) == ["node", str(folder / name)]


def test_a_program_is_run_by_itself(folder: Path) -> None:
    (folder / "my-server").touch(mode=0o755)
    assert command("./my-server") == [str(folder / "my-server")]


def test_the_home_folder_is_known(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(folder))
    (folder / "server.py").touch()
    assert command("~/server.py") == [sys.executable, str(folder / "server.py")]


def test_a_folder_has_a_server_in_it(folder: Path) -> None:
    (inside := folder / "weather").mkdir()
    (inside / "__main__.py").touch()
    assert command("weather") == [sys.executable, str(inside / "__main__.py")]
    (inside / "server.py").touch()
    assert command("weather") == [sys.executable, str(inside / "server.py")]


def test_a_package_is_run_as_a_module_wherever_it_is(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_command_may_have_paths_in_it() -> None:
    assert command(["uvx", Path("/a b")]) == ["uvx", "/a b"]
    assert command(("uvx", "mcp-server-time")) == ["uvx", "mcp-server-time"]


@pytest.mark.parametrize(
    "url", ["https://example.com/mcp", "http://[::1]:8000/sse?key=a", "HTTP://localhost"]
)
def test_a_url(url: str) -> None:
    assert meant(url) == Remote(url)


async def app(scope: Any, receive: Any, send: Any) -> None:
    """An ASGI app."""


class App:
    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """The same as an object."""


def test_objects_are_what_they_are() -> None:
    server = Server("weather")
    for target in (server, MemoryTransport(server), app, App(), server.asgi()):
        assert meant(target) is target


async def make_server() -> Server:
    return Server("weather")


class OfAnotherFramework:
    """Has what servers of fastmcp have."""

    def http_app(self) -> object:
        return app


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (None, "the target is None: give a server object"),
        (Server, "Server is a class: give an object of it"),
        (App, "App is a class: give an object of it"),
        (json, "json is a module: give the server object in it"),
        (make_server, "make_server is a function that is no ASGI app: call it, and give what it returns"),
        (b"server.py", "the target is bytes: give a string"),
        (Registry(), "a Registry has no engine: include it in a Server, and give that"),
        (
            OfAnotherFramework(),
            "an OfAnotherFramework is a server of another framework: give its ASGI app, .http_app()",
        ),
        (5, "an int is nothing that a client can connect to: give a server object, a transport"),
        ({"server.py"}, "a set is nothing that a client can connect to"),
        (["uvx", 80], "item 1 of the command is an int; each item has to be a string or a path"),
        ([{"command": "uvx"}], "item 0 of the command is a dict; each item has to be a string or a path"),
    ],
)
def test_what_has_the_wrong_type_is_told(target: object, message: str) -> None:
    with pytest.raises(TypeError) as raised:
        meant(target)
    assert str(raised.value).startswith(message)


def test_what_was_not_awaited_is_told() -> None:
    async def give() -> None:
        for target in (make_server(), asyncio.get_running_loop().create_future()):
            with pytest.raises(TypeError, match=r"awaited first: Client\(await ...\)"):
                meant(target)

    asyncio.run(give())


@pytest.mark.parametrize(
    ("target", "message"),
    [
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
    ],
)  # fmt: skip
def test_what_cannot_be_connected_to_is_told(folder: Path, target: object, message: str) -> None:
    (folder / "server.py").touch()
    (folder / "notes.txt").touch()
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        meant(target)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("sevrer.py", "there is no sevrer.py in {folder}; did you mean server.py?"),
        ("else.py", "there is no else.py in {folder}"),
        ("nowhere/server.py", "there is no nowhere/server.py: there is not even the folder {folder}/nowhere"),
        ("empty", "the folder empty has neither server.py nor __main__.py; name the script in it"),
    ],
)
def test_what_is_not_there_is_told(folder: Path, target: str, message: str) -> None:
    (folder / "server.py").touch()
    (folder / "empty").mkdir()
    with pytest.raises(FileNotFoundError) as raised:
        meant(target)
    assert str(raised.value) == message.format(folder=folder)
