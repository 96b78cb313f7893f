"""One server in the configuration of a host: connection, timeout and tools."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final, Literal

from ..._utils.option_checks import nearest
from ...content.blocks import described
from ...protocol.jsonrpc import Json, is_array, is_object
from .reached import Configured, Process, Remote, Tools
from .variables import Variables

logger = logging.getLogger(__name__)

_URLS: Final = ("url", "httpUrl", "serverUrl")
_TYPES: Final = ("type", "transport", "transportType")
_WAYS: Final[Mapping[str, Literal["stdio", "http", "sse"]]] = {
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
_COUNTED_IN_SECONDS: Final = frozenset({"alwaysAllow", "autoApprove"})
"""Keys of Cline and Roo Code, where `timeout` is in seconds, up to 3,600."""
_OF_HOSTS: Final = frozenset(
    {"alwaysLoad", "description", "dev", "gallery", "icon", "keep_alive", "name", "source", "title", "trust"}
    | {"sandbox", "sandboxEnabled", "settings", "version", "path", *_COUNTED_IN_SECONDS}
)
"""Keys for the host, which do not affect the connection."""

_OF_HTTP: Final = frozenset({"accept", "content-type"})
"""Headers that every HTTP client sends, and that configurations repeat."""


def is_entry(content: Mapping[str, object]) -> bool:
    """Return whether an object is the entry of one server, by its keys."""
    return "command" in content or any(isinstance(content.get(key), str) for key in _URLS)


def is_disabled(entry: Json) -> bool:
    """Return whether an entry is disabled."""
    return entry.get("disabled") is True or entry.get("enabled") is False


def meant_by(keys: Iterable[str], more: Iterable[str] = ()) -> str:
    """Return a question that suggests a known key for a misspelled one, or an empty string."""
    known = ("command", *_URLS, *more)
    close = next((key for each in keys if (key := nearest(each, known)) is not None), None)
    return "" if close is None else f"; did you mean {close}?"


class Entry:
    """An entry as it is written.

    Args:
        content: The entry.
        place: Where it stands, for messages: no message shows a value, as any of them might be a secret.
        variables: What its variables stand for.
        folder: The folder that relative paths in it are relative to, and in which its process starts.
        counts_seconds: Whether its host counts seconds, where others count milliseconds.
    """

    def __init__(
        self, content: Json, place: str, variables: Variables, folder: Path, *, counts_seconds: bool
    ) -> None:
        if is_object(inner := content.get("command")):  # older settings of Zed's
            content = {**content, **inner, "command": inner.get("path")}
        self._content = content
        self._place = place
        self._variables = variables
        self._folder = folder
        self._counts_seconds = counts_seconds or not _COUNTED_IN_SECONDS.isdisjoint(content)

    def read(self) -> Configured:
        """Read it, with its variables filled in.

        Raises:
            TypeError: Something is of another type than it has to be.
            ValueError: Something is missing, or contradicts itself.
        """
        if is_disabled(self._content):
            raise ValueError(f"{self._place}: the entry is disabled. Enable it to connect")
        if self._content.get("sandboxEnabled"):
            raise ValueError(
                f"{self._place}: sandboxEnabled is not supported. Remove it, or start a sandbox in command"
            )
        for key in self._content.keys() - _KNOWN - _OF_HOSTS:
            _tell_unknown(self._place, key)
        tools = Tools(self._names(_INCLUDE), self._names(_EXCLUDE) or frozenset())
        return Configured(self._place, self._reached(), self._timeout(), tools)

    def _reached(self) -> Process | Remote:
        way = self._way()
        urls = [key for key in _URLS if key in self._content]
        has_command = "command" in self._content
        if has_command and urls and way is None:
            raise ValueError(
                f"{self._place}: the entry has both command and {urls[0]}. Set type, or remove one of them"
            )
        if not has_command if way == "stdio" else not urls and (way is not None or not has_command):
            needed = "command" if way == "stdio" else "url" if way else "command or url"
            hint = meant_by(self._content.keys() - _KNOWN - _OF_HOSTS)
            raise ValueError(f"{self._place}: the entry has no {needed}{hint}")
        if way == "stdio" or not urls:
            return self._process()
        if len(urls) > 1:
            raise ValueError(f"{self._place}: the entry has both {urls[0]} and {urls[1]}. Remove one of them")
        return Remote(
            self._filled(self._content[urls[0]], urls[0]),
            {name: text for name, text in self._texts("headers").items() if name.lower() not in _OF_HTTP},
            self._token(),
            "http" if way is None and urls[0] == "httpUrl" else way,
            logs_in=self._content.get("auth") == "oauth",
        )

    def _way(self) -> Literal["stdio", "http", "sse"] | None:
        for key in _TYPES:
            if (value := self._text(key)) is not None:
                way = _WAYS.get(value.casefold().replace("-", "").replace("_", ""))
                if way is None:
                    raise ValueError(f"{self._place}: {key} must be stdio, http or sse")
                return way
        return None

    def _token(self) -> str | None:
        """Return the token that fastmcp writes under `auth`, or "oauth" for a login."""
        token = self._content.get("auth")
        if is_object(token):
            _tell_unknown(self._place, "auth")
        return None if is_object(token) or token == "oauth" else self._text("auth")

    def _process(self) -> Process:
        command = self._filled(self._content["command"], "command")
        if not command:
            raise ValueError(f"{self._place}: command is empty")
        env = self._texts("env")
        if (env_file := self._text("envFile")) is not None:
            env = {**read_env(self._inside(env_file), self._place), **env}
        cwd = self._text("cwd")
        return Process((command, *self._list("args")), env, self._inside(cwd) if cwd else self._folder)

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

    def _filled(self, value: object, key: str) -> str:
        if not isinstance(value, str):
            raise TypeError(f"{self._place}: {key} must be a string, got {described(value)}")
        return self._variables.fill(value, f"{self._place}, {key}")

    def _text(self, key: str) -> str | None:
        value = self._content.get(key)
        return None if value is None else self._filled(value, key)

    def _texts(self, key: str) -> dict[str, str]:
        values: object = self._content.get(key) or {}
        if not is_object(values):
            raise TypeError(f"{self._place}: {key} must be an object, got {described(values)}")
        return {
            name: self._filled(str(value) if type(value) in {int, float} else value, f"{key}.{name}")
            for name, value in values.items()
            if value is not None
        }

    def _list(self, key: str) -> list[str]:
        values: object = self._content.get(key) or []
        if not is_array(values):
            raise TypeError(f"{self._place}: {key} must be an array of strings, got {described(values)}")
        return [self._filled(value, f"{key}[{index}]") for index, value in enumerate(values)]

    def _names(self, keys: Iterable[str]) -> frozenset[str] | None:
        found = [key for key in keys if self._content.get(key) is not None]
        return frozenset(name for key in found for name in self._list(key)) if found else None


@lru_cache(256)  # so that it is said once
def _tell_unknown(place: str, key: str) -> None:
    close = nearest(key, _KNOWN)
    hint = f"; did you mean {close}?" if close and close != key else ""
    logger.warning("%s: unknown key %.60s is ignored%s", place, key, hint)


def read_env(path: Path, place: str) -> dict[str, str]:
    """Read a file of lines such as `NAME=value`, `export NAME="value"` and `# comment`.

    Args:
        path: The file.
        place: What names it, for messages.

    Raises:
        ValueError: It cannot be read, or a line is something else; no value is shown.
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
