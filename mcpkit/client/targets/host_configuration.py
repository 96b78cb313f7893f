"""Server configurations of hosts such as Claude Desktop: their files, entries, and variables.

Supported are those of Claude Desktop, Claude Code, Cursor, VS Code, Windsurf, Gemini CLI, Cline, Roo Code, LM Studio,
Zed and fastmcp. No error shows a value of an entry, as it may be a secret.
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final, Literal

from ..._utils.option_checks import nearest
from ...content.blocks import described
from ...protocol.jsonrpc import Json, is_array, is_object
from .infer_target import ConfiguredServer, HttpServerConfig, StdioServerConfig, ToolFilter

logger = logging.getLogger(__name__)

_SERVERS: Final = ("mcpServers", "servers", "context_servers")
"""The key with the servers: in most hosts, in VS Code, in Zed."""

# Keys of an entry

_URLS: Final = ("url", "httpUrl", "serverUrl")
_TYPES: Final = ("type", "transport", "transportType")
_TRANSPORTS: Final[Mapping[str, Literal["stdio", "http", "sse"]]] = {
    "stdio": "stdio",
    "http": "http",
    "streamablehttp": "http",
    "sse": "sse",
}
_INCLUDE: Final = ("includeTools", "enabledTools")
_EXCLUDE: Final = ("excludeTools", "disabledTools")

_KNOWN: Final = frozenset(
    {"command", "args", "env", "envFile", "cwd", *_URLS, "headers", "auth", *_TYPES}
    | {"timeout", "disabled", "enabled", *_INCLUDE, *_EXCLUDE}
)
_SECONDS: Final = frozenset({"alwaysAllow", "autoApprove"})
"""Keys of Cline and Roo Code, where `timeout` is in seconds, up to 3,600. Other hosts have milliseconds."""
_HOST_KEYS: Final = frozenset(
    {"alwaysLoad", "description", "dev", "gallery", "icon", "keep_alive", "name", "source", "title", "trust"}
    | {"sandbox", "sandboxEnabled", "settings", "version", "path", *_SECONDS}
)
"""Keys for the host, which do not affect the connection."""

_TRANSPORT_HEADERS: Final = frozenset({"accept", "content-type"})
"""Headers that every HTTP client sends, and that configurations repeat."""


# Their JSON, as editors allow it: with comments, and commas after the last item

_TEXT: Final = r'"(?:[^"\\\n]|\\.)*"'
_COMMENT: Final = re.compile(rf"({_TEXT})|//[^\n]*|/\*.*?\*/", re.DOTALL)
_LAST_COMMA: Final = re.compile(rf"({_TEXT}|[\[{{,]\s*,)|,(?=\s*[}}\]])")  # not one that follows no item


def parse_jsonc(text: str) -> object:
    """Parse JSON with `//` and `/* */` comments and trailing commas.

    Raises:
        ValueError: The text is invalid; the message has line and column.
    """
    return json.loads(plain_json(text))


def plain_json(text: str) -> str:
    """Return JSON with spaces for what only editors allow, so that every place stays where it was."""
    return _LAST_COMMA.sub(_blank, without_comments(text))


def without_comments(text: str) -> str:
    """Return JSON with spaces for its comments, and all commas."""
    return _COMMENT.sub(_blank, text)


def _blank(found: re.Match[str]) -> str:
    """Return strings as they are, and spaces for all else."""
    return found[1] or re.sub(r"[^\n]", " ", found[0])


# Files


def load(path: Path) -> Json:
    """Read a configuration, which may have comments and trailing commas.

    Raises:
        ValueError: The file is not valid JSON, or not an object.
    """
    try:
        content = parse_jsonc(path.read_text(encoding="utf-8-sig"))
    except ValueError as error:
        raise ValueError(f"{path} is not valid JSON: {error}") from error
    if not is_object(content):
        raise ValueError(
            f"{path} is not a configuration of servers: it must be an object, got {described(content)}"
        )
    return content


def workspace(path: Path) -> Path:
    """Return the folder to which a configuration belongs: that above `.vscode`, `.cursor` and the like."""
    folder = path.resolve().parent
    return folder.parent if folder.name.startswith(".") else folder


def read_env(path: Path, place: str) -> dict[str, str]:
    """Read a file of lines such as `NAME=value`, `export NAME="value"` and `# comment`.

    Args:
        path: The file.
        place: The place of its path in a configuration, for messages.

    Raises:
        ValueError: The file cannot be read, or a line has another form.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except OSError as error:
        raise ValueError(f"{place}: cannot read envFile {path}: {error.strerror}") from error
    env: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        name, equals, value = line.strip().removeprefix("export ").partition("=")
        if not name or name.startswith("#"):
            continue
        if not equals:
            raise ValueError(f"{place}: line {number} of envFile {path} must have the form NAME=value")
        value = value.strip()
        is_quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
        env[name.strip()] = value[1:-1] if is_quoted else value.partition(" #")[0].rstrip()
    return env


# Configurations


class Configuration:
    """The servers in the configuration of a host.

    Args:
        content: The configuration: servers by name, or under the key of a host; or one entry.
        place: Its name in messages, such as the file name.
        folder: The folder that stands for the host's workspace. `cwd` and `envFile` are relative to it, and processes
            start there.

    Attributes:
        entries: The entries by server name, without disabled ones.

    Raises:
        TypeError: The servers are not an object.
        ValueError: It is not a configuration, or has no enabled server.
    """

    def __init__(self, content: Json, place: str, folder: Path) -> None:
        self._place = place
        self._folder = folder
        self._is_entry = is_entry(content)
        self._is_zed = "context_servers" in content
        inputs: object = content.get("inputs")
        descriptions = {
            str(each["id"]): str(each.get("description", ""))
            for each in (inputs if is_array(inputs) else ())
            if is_object(each) and "id" in each
        }
        self._variables = Variables(folder, descriptions)
        servers = {"server": content} if self._is_entry else self._servers(content)
        self.entries = {name: entry for name, entry in servers.items() if self._is_enabled(name, entry)}
        if not self.entries:
            raise ValueError(f"{place}: the configuration has no enabled server")

    def _servers(self, content: Json) -> Json:
        if is_object(inner := content.get("mcp")) and "servers" in inner:  # settings of VS Code
            content = inner
        keys = [key for key in _SERVERS if key in content]
        if len(keys) > 1:
            raise ValueError(
                f"{self._place}: the configuration has both {keys[0]} and {keys[1]}. Remove one of them"
            )
        if keys:
            servers = content[keys[0]]
            if not is_object(servers):
                raise TypeError(
                    f"{self._place}: {keys[0]} must be an object with the servers by name, got {described(servers)}"
                )
            return servers
        if content and all(is_object(value) and is_entry(value) for value in content.values()):
            return content
        raise ValueError(
            f"{self._place}: not a configuration of servers. It must have the servers by name under mcpServers, "
            f"servers or context_servers, or be one entry with command or url{_suggest_key(content, _SERVERS)}"
        )

    def _is_enabled(self, name: str, entry: object) -> bool:
        if not is_object(entry) or self._is_entry:
            return True  # `read` raises the error of an invalid entry, and of a single one that is disabled
        if self._is_zed and not is_entry(entry):
            logger.warning(
                "%s: server %s is ignored, because an extension of Zed starts it. Write an entry "
                "with command to use it",
                self._place,
                name,
            )
            return False
        return not is_disabled(entry)

    def read(self, name: str) -> ConfiguredServer:
        """Read one of the entries, with the values of its variables.

        Raises:
            TypeError: A value has the wrong type.
            ValueError: A value is missing, or contradicts another one.
        """
        place = self._place if self._is_entry else f"{self._place}, server {name!r}"
        entry = self.entries[name]
        if not is_object(entry):
            raise TypeError(
                f"{place}: the entry must be an object with command or url, got {described(entry)}"
            )
        return Entry(entry, place, self._variables, self._folder, counts_seconds=self._is_zed).read()


def is_entry(content: Mapping[str, object]) -> bool:
    """Return whether an object is the entry of one server, by its keys."""
    return "command" in content or any(isinstance(content.get(key), str) for key in _URLS)


def is_disabled(entry: Json) -> bool:
    """Return whether an entry is disabled."""
    return entry.get("disabled") is True or entry.get("enabled") is False


class Entry:
    """The entry of one server.

    Args:
        content: The entry.
        place: Its place in the configuration, for messages.
        variables: The values of its variables.
        folder: The folder that relative paths in it are relative to, and in which its process starts.
        counts_seconds: Whether its host counts seconds in `timeout`.
    """

    def __init__(
        self, content: Json, place: str, variables: Variables, folder: Path, *, counts_seconds: bool
    ) -> None:
        if is_object(inner := content.get("command")):  # older settings of Zed
            content = {**content, **inner, "command": inner.get("path")}
        self._content = content
        self._place = place
        self._variables = variables
        self._folder = folder
        self._counts_seconds = counts_seconds or not _SECONDS.isdisjoint(content)

    def read(self) -> ConfiguredServer:
        """Read the entry, with the values of its variables.

        Raises:
            TypeError: A value has the wrong type.
            ValueError: A value is missing, or contradicts another one.
        """
        if is_disabled(self._content):
            raise ValueError(f"{self._place}: the entry is disabled. Enable it to connect")
        if self._content.get("sandboxEnabled"):
            raise ValueError(
                f"{self._place}: sandboxEnabled is not supported. Remove it, or start a sandbox in command"
            )
        for key in self._content.keys() - _KNOWN - _HOST_KEYS:
            _warn_of_key(self._place, key)
        tools = ToolFilter(self._names(_INCLUDE), self._names(_EXCLUDE) or frozenset())
        return ConfiguredServer(self._place, self._connection(), self._timeout(), tools)

    def _connection(self) -> StdioServerConfig | HttpServerConfig:
        transport = self._transport()
        urls = [key for key in _URLS if key in self._content]
        has_command = "command" in self._content
        if has_command and urls and transport is None:
            raise ValueError(
                f"{self._place}: the entry has both command and {urls[0]}. Set type, or remove one of them"
            )
        is_process = transport == "stdio" or (transport is None and not urls)
        if not (has_command if is_process else urls):
            needed = "command" if transport == "stdio" else "url" if transport else "command or url"
            hint = _suggest_key(self._content.keys() - _KNOWN - _HOST_KEYS)
            raise ValueError(f"{self._place}: the entry has no {needed}{hint}")
        return self._process() if is_process else self._remote(urls, transport)

    def _transport(self) -> Literal["stdio", "http", "sse"] | None:
        for key in _TYPES:
            if (value := self._text(key)) is not None:
                transport = _TRANSPORTS.get(value.casefold().replace("-", "").replace("_", ""))
                if transport is None:
                    raise ValueError(f"{self._place}: {key} must be stdio, http or sse")
                return transport
        return None

    def _process(self) -> StdioServerConfig:
        command = self._fill(self._content["command"], "command")
        if not command:
            raise ValueError(f"{self._place}: command is empty")
        env = self._texts("env")
        if (env_file := self._text("envFile")) is not None:
            env = {**read_env(self._inside(env_file), self._place), **env}
        cwd = self._text("cwd")
        return StdioServerConfig(
            (command, *self._list("args")), env, self._inside(cwd) if cwd else self._folder
        )

    def _remote(
        self, urls: Sequence[str], transport: Literal["stdio", "http", "sse"] | None
    ) -> HttpServerConfig:
        if len(urls) > 1:
            raise ValueError(f"{self._place}: the entry has both {urls[0]} and {urls[1]}. Remove one of them")
        if transport is None and urls[0] == "httpUrl":
            transport = "http"
        url = self._fill(self._content[urls[0]], urls[0])
        headers = {
            name: text
            for name, text in self._texts("headers").items()
            if name.lower() not in _TRANSPORT_HEADERS
        }
        # fastmcp writes a token under `auth`, or "oauth" for a login.
        auth, token = self._content.get("auth"), None
        if is_object(auth):
            _warn_of_key(self._place, "auth")
        elif auth != "oauth":
            token = self._text("auth")
        assert transport != "stdio"
        return HttpServerConfig(url, headers, token, transport, logs_in=auth == "oauth")

    def _timeout(self) -> float | None:
        timeout = self._content.get("timeout")
        if timeout is None:
            return None
        if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout > 0:
            raise ValueError(f"{self._place}: timeout must be a positive number")
        is_in_seconds = timeout < 1000 or (self._counts_seconds and timeout <= 3600)
        return float(timeout) if is_in_seconds else timeout / 1000

    def _inside(self, path: str) -> Path:
        return self._folder / Path(path).expanduser()

    def _fill(self, value: object, key: str) -> str:
        if not isinstance(value, str):
            raise TypeError(f"{self._place}: {key} must be a string, got {described(value)}")
        return self._variables.fill(value, f"{self._place}, {key}")

    def _text(self, key: str) -> str | None:
        value = self._content.get(key)
        return None if value is None else self._fill(value, key)

    def _texts(self, key: str) -> dict[str, str]:
        values: object = self._content.get(key) or {}
        if not is_object(values):
            raise TypeError(f"{self._place}: {key} must be an object, got {described(values)}")
        return {
            name: self._fill(str(value) if type(value) in {int, float} else value, f"{key}.{name}")
            for name, value in values.items()
            if value is not None
        }

    def _list(self, key: str) -> list[str]:
        values: object = self._content.get(key) or []
        if not is_array(values):
            raise TypeError(f"{self._place}: {key} must be an array of strings, got {described(values)}")
        return [self._fill(value, f"{key}[{index}]") for index, value in enumerate(values)]

    def _names(self, keys: Iterable[str]) -> frozenset[str] | None:
        present = [key for key in keys if self._content.get(key) is not None]
        return frozenset(name for key in present for name in self._list(key)) if present else None


def _suggest_key(keys: Iterable[str], more: Iterable[str] = ()) -> str:
    """Return a question that suggests a known key for a misspelled one, or an empty string."""
    known = ("command", *_URLS, *more)
    close = next((key for each in keys if (key := nearest(each, known)) is not None), None)
    return "" if close is None else f"; did you mean {close}?"


@lru_cache(256)  # logs it once
def _warn_of_key(place: str, key: str) -> None:
    close = nearest(key, _KNOWN)
    hint = f"; did you mean {close}?" if close and close != key else ""
    logger.warning("%s: unknown key %.60s is ignored%s", place, key, hint)


# Variables

_REFERENCE: Final = re.compile(r"\$(?:\{([^}]*)\}|([A-Za-z_][A-Za-z0-9_]*))")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Variables:
    """The values of variables such as `$NAME`, `${NAME:-default}`, `${env:NAME}` and `${userHome}`.

    Args:
        folder: The folder that stands for the host's workspace.
        inputs: Values that an editor would prompt for (`inputs` of VS Code): descriptions by id.
    """

    def __init__(self, folder: Path, inputs: Mapping[str, str]) -> None:
        self._inputs = inputs
        self._host_variables = {
            "workspaceFolder": str(folder),
            "workspaceFolderBasename": folder.name,
            "userHome": str(Path.home()),
            "pathSeparator": os.sep,
            "/": os.sep,
            "$": "$",
        }

    def fill(self, text: str, place: str) -> str:
        """Return a text with the values of its variables.

        Args:
            text: The text.
            place: Its place in the configuration, for messages.

        Raises:
            ValueError: A variable is not set and has no default, or only a host has its value.
        """
        return _REFERENCE.sub(lambda found: self._value(found, place), text)

    def _value(self, found: re.Match[str], place: str) -> str:
        braced: str | None = found[1]
        if braced is None:
            return _environment_variable(found[2], place, ", or write ${$} for a literal dollar sign")
        if braced in self._host_variables:
            return self._host_variables[braced]
        kind, colon, rest = braced.partition(":")
        if colon and kind == "input":
            description = f" ({self._inputs[rest]})" if rest in self._inputs else ""
            raise ValueError(
                f"{place}: ${{input:{rest}}}{description} is a prompt of an editor and is not supported. "
                "Set an environment variable, and write ${env:ITS_NAME}"
            )
        name, has_default, default = (rest if colon and kind == "env" else braced).partition(":-")
        if "${" in default:
            raise ValueError(
                f"{place}: the default of ${{{name}}} contains another variable, which is not supported"
            )
        if _NAME.fullmatch(name) is None:
            raise ValueError(
                f"{place}: unknown variable ${{{name}}}. Use ${{NAME}}, ${{env:NAME}} or ${{NAME:-default}} for "
                f"environment variables, or {', '.join(f'${{{each}}}' for each in self._host_variables)}"
            )
        if has_default:
            return os.environ.get(name) or default
        return _environment_variable(name, place, f", or write ${{{name}:-default}}")


def _environment_variable(name: str, place: str, alternative: str) -> str:
    value = os.environ.get(name)
    if value is None:
        raise ValueError(f"{place}: the environment variable {name} is not set. Set it{alternative}")
    return value
