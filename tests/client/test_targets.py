"""Targets, options and configurations of clients: what each becomes, and errors that name the place."""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from mcpkit import Client, ClientGroup, Registry, Retries, Server, Timeout
from mcpkit._utils.python_safe_path import module_command
from mcpkit.client.http.http_transports import HttpTransport
from mcpkit.client.stdio.stdio_transport import StdioTransport
from mcpkit.client.targets.host_configuration import Configuration, Entry, Variables, load, parse_jsonc
from mcpkit.client.targets.infer_target import (
    ConfiguredServer,
    HttpServerConfig,
    StdioServerConfig,
    infer_target,
)
from mcpkit.client.targets.target_transports import transports_of
from mcpkit.client.transport_interface_and_memory import MemoryTransport
from tests.helpers.tables import each_row

HOSTS = Path(__file__).parent / "hosts"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def process(target: object) -> StdioServerConfig:
    found = infer_target(target)
    assert isinstance(found, StdioServerConfig)
    return found


def test_target_package_runs_as_module(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/other")
    (package := folder / "weather").mkdir()
    (package / "__init__.py").touch()
    (package / "__main__.py").touch()
    assert process(package).command == module_command("weather")
    assert process(package).env == {"PYTHONPATH": f"{folder}{os.pathsep}/other"}
    (package / "server.py").touch()
    assert process(package).command == module_command("weather.server")


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
        infer_target(target)
    assert str(raised.value).startswith(message)


@each_row(("target", "message"), [
    ("  ", "the target is empty"),
    ('{"mcpServers": {}}', "the target is the text of a configuration"),
    ("sh", "sh is a program. Pass the command as a list with one item per word: ['sh']"),
    ("sh -c 'python a.py'", "sh is a program. Pass the command as a list with one item per word"),
    ("server.py --verbose", "the target is a script with arguments. Pass a list: [sys.executable, 'server.py'"),
    ("example.com/mcp", "no such file: example.com/mcp. For a URL, write https://example.com/mcp"),
    ("localhost:8000/mcp", "no such file: localhost:8000/mcp. For a URL, write http://localhost:8000/mcp"),
    ("server:app", "a client cannot import an object by name from a file. Import app, and write Client(app)"),
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
        infer_target(target)


@each_row(("target", "message"), [
    ("sevrer.py", "sevrer.py does not exist in {folder}; did you mean server.py?"),
    ("else.py", "else.py does not exist in {folder}"),
    ("nowhere/server.py", "nowhere/server.py does not exist, nor does the folder {folder}/nowhere"),
    ("empty", "the folder empty has neither server.py nor __main__.py. Pass the path of the script"),
])  # fmt: skip
def test_target_missing_file_is_error(folder: Path, target: str, message: str) -> None:
    (folder / "server.py").touch()
    (folder / "empty").mkdir(exist_ok=True)
    with pytest.raises(FileNotFoundError) as raised:
        infer_target(target)
    assert str(raised.value) == message.format(folder=folder)


server = Server("weather")


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
])  # fmt: skip
def test_option_not_of_target_is_error(target: Any, options: Any, message: str) -> None:
    with pytest.raises(ValueError, match="=") as raised:
        transports_of(target, **options)
    assert str(raised.value).startswith(message)


def test_documented_host_configurations_have_transports(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("API_KEY", "AUTH_TOKEN", "DB_CONNECTION_STRING", "EXTERNAL_API_KEY"):
        monkeypatch.setenv(name, "value")
    for path in sorted(HOSTS.glob("*.json")):
        assert all(entry.transports for entry in transports_of(path)), path


@each_row(("target", "names"), [
    ("https://example.com/mcp", ["HttpTransport", "SseTransport"]),
    ("https://example.com/sse/a?b", ["SseTransport", "HttpTransport"]),
    ({"type": "sse", "url": "https://example.com/mcp"}, ["SseTransport"]),
    ({"httpUrl": "https://example.com/sse"}, ["HttpTransport", "SseTransport"]),
    ({"command": "uvx"}, ["StdioTransport"]),
    (server, ["MemoryTransport"]),
    (server.asgi(), ["HttpTransport", "SseTransport"]),
])  # fmt: skip
def test_transports_of_target_are_in_order(target: Any, names: list[str]) -> None:
    [entry] = transports_of(target)
    assert [type(transport).__name__ for transport in entry.transports] == names


@each_row(("options", "error", "message"), [
    ({"timeout": "soon"}, TypeError, "must be a number of seconds above 0, or None, got 'soon'"),
    ({"retries": 3}, TypeError, r"retries must be Retries\(...\), got 3"),
    ({"attempts": 3}, TypeError, r"Write retries=Retries\(attempts=...\)"),
    ({"connect": 3}, TypeError, r"Write timeout=Timeout\(connect=...\)"),
    ({"elicitation_handler": 3}, TypeError, "elicitation_handler must be a function of a FormRequest, got 3"),
    ({"url_elicitation_handler": "x"}, TypeError, "url_elicitation_handler must be a function of a UrlRequest"),
    ({"sampling_handler": 3}, TypeError, "sampling_handler must be a function of a SampleRequest, or a SamplingH"),
    ({"roots": "/tmp"}, TypeError, "roots= must be a list of paths and URIs, got '/tmp'"),
    ({"log_handler": 3}, TypeError, "log_handler must be a function of level, data and the logger's name, got 3"),
    ({"trace": "log.txt"}, TypeError, r"trace must be a function of a direction .* and a string, or True, got"),
    ({"telemetry": True}, TypeError, "telemetry must be a ClientTelemetry, got True"),
    ({"timout": 3}, TypeError, "has no option 'timout'. Did you mean 'timeout'"),
    ({"headers": 3}, TypeError, "headers= must be a mapping of names to values, got an int"),
])  # fmt: skip
def test_client_option_invalid_is_error(options, error, message) -> None:
    with pytest.raises(error, match=message):
        Client(server, **options)
    with pytest.raises(error, match=message):
        ClientGroup({"mcpServers": {"weather": server, "empty": Server("empty")}}, **options)


@each_row(("make", "error", "message"), [
    (lambda: Timeout(connect=-1), ValueError, "must be a number of seconds above 0"),
    (lambda: Timeout(respons=1), TypeError, "Did you mean 'response'"),
    (lambda: Retries(attempts=0), ValueError, "must be at least 1, got 0"),
    (lambda: Retries(rounds=-1), ValueError, "must be at least 0, got -1"),
    (lambda: Retries(max_delay="long"), TypeError, "must be a number of seconds of at least 0, got 'long'"),
])  # fmt: skip
def test_client_option_group_invalid_is_error(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()


SECRET = "very-secret"


@each_row(
    "url", ["example.com/mcp", "ftp://example.com", "http://", "", f"http://u:{SECRET}/x@b", "http://[x"]
)
def test_http_url_invalid_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="must begin with http://") as caught:
        HttpTransport(url)
    assert SECRET not in str(caught.value)


@each_row(("options", "message"), [
    ({"headers": {"a b": "x"}}, "not a valid header name"),
    ({"headers": {"x": f"{SECRET}\r\nY: 1"}}, "value of the header x"),
    ({"headers": {"x": f" {SECRET}"}}, "value of the header x"),
    ({"headers": {"x": f"{SECRET}\u20ac"}}, "value of the header x"),
    ({"token": f"{SECRET}\n"}, "token"),
    ({"headers": {"Mcp-Session-Id": "x"}}, "set by the transport"),
    ({"headers": {"content-type": "x"}}, "set by the transport"),
    ({"token": SECRET, "headers": {"authorization": "x"}}, "pass only one of"),
    ({"token": SECRET, "auth": ("a", "b")}, "pass only one of"),
    ({"http_client": object(), "verify": False}, "cannot be combined"),
    ({"app": object(), "proxy": "http://a"}, "cannot be combined"),
    ({"app": object(), "http_client": object()}, "Pass one of them"),
    ({"connect_timeout": 0}, "connect_timeout"),
    ({"max_answer": 0}, "max_answer"),
])  # fmt: skip
def test_http_transport_option_invalid_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        HttpTransport("http://127.0.0.1/mcp", **options)
    assert SECRET not in str(caught.value)


@each_row(("command", "options", "error", "words"), [
    ("python server.py", {}, TypeError, "sequence of strings"),
    ([Path("server.py")], {}, TypeError, "sequence of strings"),
    ([], {}, ValueError, "Name the program"),
    (["python\0"], {}, ValueError, "null"),
    (["python"], {"max_answer": 0}, ValueError, "max_answer"),
    (["python"], {"max_answer": "1"}, TypeError, "max_answer"),
    (["python"], {"grace": -1}, ValueError, "grace"),
    (["python"], {"stderr": 1}, ValueError, "stderr"),
    (["python"], {"stderr": "log.txt"}, TypeError, "stderr"),
    (["python"], {"env": {"A": 1}}, TypeError, "env"),
    (["python"], {"env": {"A": "\0"}}, ValueError, "null"),
    (["python"], {"env": {"A=B": ""}}, ValueError, "env"),
])  # fmt: skip
def test_stdio_option_invalid_is_refused(command, options, error, words) -> None:
    with pytest.raises(error, match=words):
        StdioTransport(command, **options)


@each_row(("options", "error", "message"), [
    ({"verify": "/no/such.pem"}, FileNotFoundError, "verify='/no/such.pem': the file does not exist"),
    ({"cert": "/no/such.pem"}, FileNotFoundError, "cert='/no/such.pem': the file does not exist"),
    ({"cert": (__file__, "/no/key.pem")}, FileNotFoundError, "cert='/no/key.pem': the file does not exist"),
    ({"verify": __file__}, ValueError, "contains no certificates of authorities: "),
    ({"cert": __file__}, ValueError, "contains no certificate with its private key: "),
    ({"verify": 3}, TypeError, "verify must be a path, got 3"),
])  # fmt: skip
async def test_certificate_files_are_checked(options, error, message) -> None:
    with pytest.raises(error, match=message):
        await Client("https://127.0.0.1:9/mcp", **options).__aenter__()


HERE = Path("/work space")


def read_configuration(content: dict[str, Any], folder: Path = HERE) -> dict[str, ConfiguredServer]:
    configuration = Configuration(content, "the file", folder)
    return {name: configuration.read(name) for name in configuration.entries}


def test_cursor(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("API_KEY", "secret")
    monkeypatch.setenv("MY_SERVICE_TOKEN", "token")
    variables = 'export LEVEL=debug # for now\nNAME = "a # b"\nAPI_KEY=that of the file\nEMPTY='
    (tmp_path / ".env").write_text(f"# local\n\n{variables}")
    servers = read_configuration(load(HOSTS / ".cursor/mcp.json"), tmp_path)
    local, remote = servers["local-server"].connection, servers["remote-server"].connection
    assert isinstance(local, StdioServerConfig)
    assert local.command == ("python", f"{tmp_path}/tools/mcp_server.py")
    assert local.env == {"LEVEL": "debug", "NAME": "a # b", "API_KEY": "secret", "EMPTY": ""}
    assert isinstance(remote, HttpServerConfig)
    assert (remote.headers, remote.transport) == ({"Authorization": "Bearer token"}, None)


def test_vs_code() -> None:
    configuration = Configuration(load(HOSTS / ".vscode/mcp.json"), "mcp.json", HERE)
    assert list(configuration.entries) == ["github", "memory", "perplexity"]
    github, memory = (configuration.read(name).connection for name in ("github", "memory"))
    assert isinstance(github, HttpServerConfig)
    assert github.transport == "http"
    assert isinstance(memory, StdioServerConfig)
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


def read_entry(content: dict[str, Any], *, counts_seconds: bool = False) -> ConfiguredServer:
    return Entry(content, "here", Variables(WORKSPACE, {}), WORKSPACE, counts_seconds=counts_seconds).read()


@each_row(("timeout", "counts_seconds", "seconds"), [
    (2.5, False, 2.5), (999, False, 999), (1000, False, 1), (600_000, False, 600),
    (1000, True, 1000), (3600, True, 3600), (60_000, True, 60),
])  # fmt: skip
def test_entry_timeout_is_seconds_or_milliseconds(timeout, counts_seconds, seconds) -> None:
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
    assert parse_jsonc(text) == value


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
