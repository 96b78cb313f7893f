"""One entry of a configuration, right and wrong."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from mcpkit.client.targets.entry import Entry
from mcpkit.client.targets.reached import Configured, Process, Remote
from mcpkit.client.targets.variables import Variables

HERE = Path("/workspace")


def read(content: dict[str, Any], *, counts_seconds: bool = False) -> Configured:
    return Entry(content, "here", Variables(HERE, {}), HERE, counts_seconds=counts_seconds).read()


@pytest.mark.parametrize("word", ["http", "streamable-http", "streamableHttp", "streamable_http", "HTTP"])
@pytest.mark.parametrize("key", ["type", "transport", "transportType"])
def test_http_has_many_names(word: str, key: str) -> None:
    reached = read({key: word, "url": "https://example.com/mcp"}).reached
    assert reached == Remote("https://example.com/mcp", way="http")


@pytest.mark.parametrize("key", ["url", "httpUrl", "serverUrl"])
def test_a_url_has_many_keys(key: str) -> None:
    reached = read({key: "https://example.com/mcp"}).reached
    assert isinstance(reached, Remote)
    assert reached.url == "https://example.com/mcp"


def test_the_type_tells_which_of_two_is_meant() -> None:
    both = {"command": "uvx", "url": "https://example.com/mcp"}
    assert isinstance(read({**both, "type": "stdio"}).reached, Process)
    assert isinstance(read({**both, "type": "sse"}).reached, Remote)


@pytest.mark.parametrize(
    ("timeout", "counts_seconds", "seconds"),
    [
        (30, False, 30),
        (2.5, False, 2.5),
        (999, False, 999),
        (1000, False, 1),
        (600_000, False, 600),
        (1000, True, 1000),
        (3600, True, 3600),
        (60_000, True, 60),
    ],
)
def test_a_timeout_is_of_seconds_or_milliseconds(
    timeout: float, *, counts_seconds: bool, seconds: float
) -> None:
    assert read({"command": "uvx", "timeout": timeout}, counts_seconds=counts_seconds).timeout == seconds


def test_numbers_are_texts_in_an_environment_and_null_is_nothing() -> None:
    reached = read({"command": "uvx", "env": {"PORT": 8080, "NONE": None, "RATE": 0.5}}).reached
    assert isinstance(reached, Process)
    assert reached.env == {"PORT": "8080", "RATE": "0.5"}


def test_no_tool_is_included_by_an_empty_list() -> None:
    assert not read({"command": "uvx", "includeTools": []}).tools.have("any")


def test_what_is_excluded_is_so_even_if_it_is_included() -> None:
    tools = read({"command": "uvx", "enabledTools": ["a", "b"], "excludeTools": ["b"]}).tools
    assert [tools.have(name) for name in "abc"] == [True, False, False]


def test_a_key_that_is_not_known_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    entry = {"command": "uvx", "enviroment": {"KEY": "secret"}}
    with caplog.at_level(logging.WARNING):
        read(entry)
        read(entry)
    assert caplog.messages == ["here: enviroment is not known here, and has no effect; did you mean env?"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"args": []}, "here: there is no command or url in it"),
        ({"comand": "uvx"}, "here: there is no command or url in it; did you mean command?"),
        ({"type": "stdio", "url": "https://a.b"}, "here: there is no command in it"),
        ({"type": "http", "command": "uvx"}, "here: there is no url in it"),
        ({"type": "websocket", "url": "wss://a"}, "here: type has to be stdio, http or sse"),
        (
            {"url": "https://a.b", "httpUrl": "https://a.b"},
            "here: it has both url and httpUrl; keep one of them",
        ),
        (
            {"url": "https://a.b", "command": "uvx"},
            "here: it has both command and url; say by type which is meant",
        ),
        ({"command": ""}, "here: command is empty"),
        ({"command": "uvx", "timeout": 0}, "here: timeout has to be a number above 0"),
        ({"command": "uvx", "timeout": True}, "here: timeout has to be a number above 0"),
        ({"command": "uvx", "timeout": "30s"}, "here: timeout has to be a number above 0"),
        ({"command": "uvx", "disabled": True}, "here: it is disabled"),
        ({"command": "uvx", "sandboxEnabled": True}, "here: sandboxEnabled is not done here"),
        (
            {"command": "uvx", "envFile": ".env"},
            "here: envFile /workspace/.env cannot be read: No such file or directory",
        ),
    ],
)
def test_what_does_not_fit_is_told(content: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match="here") as raised:
        read(content)
    assert str(raised.value).startswith(message)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"command": ["uvx", "it"]}, "here: command has to be a string, not a list"),
        ({"command": "uvx", "args": "-v"}, "here: args has to be an array of strings, not a str"),
        ({"command": "uvx", "args": ["-p", 80]}, "here: args[1] has to be a string, not an int"),
        ({"command": "uvx", "env": ["A=b"]}, "here: env has to be an object, not a list"),
        ({"command": "uvx", "env": {"DEBUG": True}}, "here: env.DEBUG has to be a string, not a bool"),
        ({"url": 1}, "here: url has to be a string, not an int"),
        ({"url": "https://a.b", "headers": {"A": ["b"]}}, "here: headers.A has to be a string, not a list"),
        (
            {"command": "uvx", "includeTools": "a"},
            "here: includeTools has to be an array of strings, not a str",
        ),
    ],
)
def test_a_wrong_type_is_told(content: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError) as raised:
        read(content)
    assert str(raised.value) == message


def test_a_line_of_an_environment_file_that_is_none_is_told(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("A=1\nsecret\n")
    entry = {"command": "uvx", "envFile": ".env"}
    with pytest.raises(ValueError, match="line 2 of envFile") as raised:
        Entry(entry, "here", Variables(tmp_path, {}), tmp_path, counts_seconds=False).read()
    assert "secret" not in str(raised.value)


def test_what_is_shown_of_an_entry_holds_no_secret() -> None:
    process = {"command": "uvx", "args": ["--key=secret"], "env": {"KEY": "secret"}}
    url = {"url": "https://example.com/mcp?key=secret", "headers": {"Key": "secret"}, "auth": "secret"}
    assert "secret" not in repr([read(process), read(url)])
