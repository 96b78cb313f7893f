"""Entries of servers in the configuration of hosts: written for a host, and read for a client.

Each host replaces other variables in the values, so they are escaped or translated for the client.
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from ..._utils.option_checks import nearest
from ...client.targets.host_configuration import Configuration, is_disabled, load, workspace
from ...client.targets.infer_target import HttpServerConfig, StdioServerConfig, Target
from ...protocol.jsonrpc import Json, is_array, is_object, object_at
from ..exit_status import CommandError, Status
from .config_editing import entries_in
from .host_table import HOSTS, PLACE_VARIABLES, ConfigFile, Fixed, Host, existing_files, host_of_file


def entry_of(
    host: Host, name: str, server: StdioServerConfig | HttpServerConfig, env_file: Path | None = None
) -> Json:
    """Return the entry of a server for a host.

    Args:
        host: The host.
        name: The name of the server there.
        server: The process or URL of the server.
        env_file: File with environment variables, if the host supports one.

    Raises:
        CommandError: The host does not support the transport.
    """
    if isinstance(server, HttpServerConfig):
        remote = host.sse if server.transport == "sse" else host.http
        if remote is None and host.http is None:
            raise CommandError(
                f"{host.title} does not support URLs in its configuration. Add the URL in its settings, or use a proxy "
                f'command such as "npx -y mcp-remote {server.url}"'
            )
        if remote is None:
            raise CommandError(
                f"{host.title} does not support the HTTP+SSE transport of 2024-11-05. Use a Streamable HTTP URL"
            )
        entry = {**_fixed(remote.fixed, name), remote.url: server.url}
        return {**entry, remote.headers: dict(server.headers)} if server.headers else entry
    stdio = host.stdio
    program, *arguments = server.command
    entry = {**_fixed(stdio.fixed, name), stdio.command: program, "args": arguments}
    if server.env:
        entry[stdio.env] = dict(server.env)
    if stdio.env_file and env_file is not None:
        entry[stdio.env_file] = str(env_file)
    if stdio.cwd and server.cwd is not None:
        entry[stdio.cwd] = str(server.cwd)
    return entry


def _fixed(fixed: Fixed, name: str) -> Json:
    return {key: name if value == "{name}" else value for key, value in fixed}


# Entries for a client


def client_entry(host: Host, entry: Json) -> Json | None:
    """Return an entry of a host in the format of the client; None if it is not a server to connect to.

    The client replaces the variables that the host replaces, and no others.
    """
    translated = _with_client_variables(host, entry)
    assert is_object(translated), "the entry is an object"
    if host.name == "codex":
        return _codex_entry(translated)
    if host.name == "goose":
        return _goose_entry(entry, translated)
    values = (translated.get(key) for key in ("command", "url", "httpUrl", "serverUrl"))
    return translated if any(isinstance(value, str | dict) for value in values) else None


def _codex_entry(entry: Json) -> Json:
    headers = dict(object_at(entry, "http_headers"))
    for header, variable in object_at(entry, "env_http_headers").items():
        if os.environ.get(str(variable), "").strip():
            headers[header] = f"${{{variable}}}"
    if token := entry.get("bearer_token_env_var"):
        headers["Authorization"] = f"Bearer ${{{token}}}"
    return _without_empty(
        {
            **{key: entry.get(key) for key in ("command", "args", "cwd", "url", "enabled")},
            "env": {**object_at(entry, "env"), **_environment(entry, "env_vars")},
            "headers": headers,
            "timeout": entry.get("tool_timeout_sec"),
            "enabledTools": entry.get("enabled_tools"),
            "disabledTools": entry.get("disabled_tools"),
        }
    )


def _goose_entry(raw: Json, entry: Json) -> Json | None:
    if entry.get("type") not in {"stdio", "streamable_http", "sse"}:
        return None  # an extension that is part of goose
    variables = {**object_at(entry, "envs"), **_environment(entry, "env_keys")}
    is_stdio = entry.get("type") == "stdio"

    def value(found: re.Match[str]) -> str:
        name = found[1] or found[2]
        return str(variables[name]) if name in variables else escaped(found[0])

    reference = r"\$(?:\{\s*([A-Za-z_]\w*)\s*\}|([A-Za-z_]\w*))|\$"  # only for the variables of the entry
    return _without_empty(
        {
            "command": entry.get("cmd") if is_stdio else None,
            "args": entry.get("args"),
            "env": variables if is_stdio else None,
            "url": entry.get("uri"),
            "headers": {
                name: re.sub(reference, value, str(text)) for name, text in object_at(raw, "headers").items()
            },
            "enabled": entry.get("enabled"),
            "timeout": entry.get("timeout"),
            "includeTools": entry.get("available_tools"),
        }
    )


def _environment(entry: Json, key: str) -> Json:
    """Return references to the listed environment variables that are set; codex lists texts or objects."""
    values = entry.get(key)
    listed: list[object] = values if is_array(values) else []
    names = (each.get("name") if is_object(each) else each for each in listed)
    return {name: f"${{{name}}}" for name in names if isinstance(name, str) and name in os.environ}


def _without_empty(entry: Json) -> Json:
    return {key: value for key, value in entry.items() if value not in (None, {}, [])}


# Variables in values


_PATTERNS: Final[Mapping[str, str]] = {
    "$NAME": r"\$\w+",
    "${NAME}": r"\$\{[A-Za-z_]\w*\}",
    "${NAME:-default}": r"\$\{[A-Za-z_]\w*:-[^}]*\}",
    "${env:NAME}": r"\$\{env:[^}]*\}",
    "${file:PATH}": r"\$\{file:[^}]*\}",
    "${input:ID}": r"\$\{input:[^}]*\}",
    "${command:ID}": r"\$\{command:[^}]*\}",
    "${config:NAME}": r"\$\{config:[^}]*\}",
}
"""Regular expressions for the spellings in `Host.variables`; any other spelling there stands for itself."""

_REFERENCE: Final = re.compile(r"\$\{[^}]*\}|\$\w+|\$", re.ASCII)
"""Texts that may be a variable, and other dollar signs; `${` ends at the first brace, as in hosts."""


def variables_in(host: Host, value: object, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the path and the spelling of each variable that a host replaces in a value, at any depth.

    Args:
        host: The host.
        value: An entry, or a value of an entry.
        path: The path of keys to the value, such as `env.TOKEN`.
    """
    if isinstance(value, str):
        for part in _parts(host, value):
            if (spelling := _spelling(host, part)) is not None:
                yield path, spelling
    elif is_object(value):
        for key, each in value.items():
            yield from variables_in(host, each, f"{path}.{key}" if path else str(key))
    elif is_array(value):
        for index, each in enumerate(value):
            yield from variables_in(host, each, f"{path}[{index}]")


def escaped(text: str) -> str:
    """Return a text without variables of the client, which reads `${$}` as a dollar sign."""
    return text.replace("$", "${$}")


def _with_client_variables(host: Host, value: object) -> object:
    """Return a value with the variables of a host as the client spells them, and other dollar signs escaped."""
    if isinstance(value, str):
        return "".join(_client_spelling(host, part) for part in _parts(host, value))
    if is_object(value):
        return {key: _with_client_variables(host, each) for key, each in value.items()}
    if is_array(value):
        return [_with_client_variables(host, each) for each in value]
    return value


def _parts(host: Host, text: str) -> Iterator[str]:
    """Yield the parts of a text: those that may be a variable, and those between them."""
    end = 0
    while (found := _REFERENCE.search(text, end)) is not None:
        part = found[0] if found[0].startswith("${") or "$NAME" in host.variables else "$"
        yield text[end : found.start()]
        yield part
        end = found.start() + len(part)
    yield text[end:]


def _spelling(host: Host, part: str) -> str | None:
    """Return the spelling in `Host.variables` that a text has; None if the host does not replace it."""
    patterns = ((each, _PATTERNS.get(each) or re.escape(each)) for each in host.variables)
    return next((each for each, pattern in patterns if re.fullmatch(pattern, part, re.ASCII)), None)


def _client_spelling(host: Host, part: str) -> str:
    if _spelling(host, part) is None:
        return escaped(part)
    # To the client `${userHome}` is a folder, to a host that only replaces `${NAME}` it is an environment variable.
    is_place_of_client = part in PLACE_VARIABLES and part not in host.variables
    return part.replace("${", "${env:", 1) if is_place_of_client else part


# Servers by their name

logger = logging.getLogger(__name__)


def is_qualified_name(word: str) -> bool:
    """Return whether a word is `HOST:NAME` or `FILE:NAME`, and neither a module of this folder nor a Python file."""
    qualifier, colon, _ = word.rpartition(":")
    if not colon:
        return False
    path = Path(qualifier).expanduser()
    if path.is_file():
        return path.suffix.casefold() != ".py"
    return qualifier.casefold() in HOSTS and not (path.is_dir() or path.with_suffix(".py").is_file())


def find_server(name: str) -> Target:
    """Return the entry of a server, in the format of the client.

    Args:
        name: Its name in the configuration of a host, for a project in this folder or one above, or for the user;
            `HOST:NAME`; or `FILE:NAME`.

    Raises:
        CommandError: There is no such server, or several hosts have different servers with this name.
        ValueError: The named file is invalid.
    """
    qualifier, colon, key = name.rpartition(":")
    path = Path(qualifier).expanduser()
    if colon and path.is_file():
        return _server_in_file(path, key)
    host = HOSTS.get(qualifier.casefold()) if colon else None
    server_name = name if host is None else key
    servers = [each for each in _configured_servers() if host is None or each[0] == host]
    found: dict[str, Json] = {}
    for each, known_name, entry in servers:
        if known_name == server_name:
            found.setdefault(each.name, entry)  # that of the project, which comes before the user's
    if not found:
        close = nearest(server_name, [known_name for _, known_name, _ in servers])
        hint = f"; did you mean {close}?" if close else ""
        problem = (
            "is not a file, a URL, a command of several words, or a server in the configuration of a host"
        )
        message = f"{name} {problem}" if host is None else f"{host.title} has no server {server_name}"
        raise CommandError(message + hint, Status.NO_SUCH_THING)
    entry = next(iter(found.values()))
    if any(_connection(other) != _connection(entry) for other in found.values()):
        choices = " or ".join(f"{each}:{server_name}" for each in found)
        raise CommandError(
            f"several hosts have a server {server_name}, and their entries differ. Write {choices}",
            Status.NO_SUCH_THING,
        )
    return entry


def _server_in_file(path: Path, name: str) -> Json:
    host = host_of_file(path)
    if host is None:
        entries = Configuration(load(path), str(path), workspace(path)).entries
    else:
        entries = entries_in(ConfigFile(host, "user", path, host.keys))
    entry: object = entries.get(name)
    if host is not None and is_object(entry):
        entry = client_entry(host, entry)
    if not is_object(entry):
        close = nearest(name, entries)
        hint = f"; did you mean {close}?" if close else f"; it has {', '.join(entries)}" if entries else ""
        raise CommandError(f"{path} has no server {name}{hint}", Status.NO_SUCH_THING)
    return _with_absolute_paths(entry, workspace(path))


def _configured_servers() -> Iterator[tuple[Host, str, Json]]:
    """Yield host, name and entry, in the format of the client, of each enabled server; invalid files are logged."""
    for file in existing_files(Path.cwd()):
        try:
            entries = entries_in(file)
        except (CommandError, OSError) as error:
            logger.warning("%s", error)
            continue
        for name, host_entry in entries.items():
            entry = client_entry(file.host, host_entry) if is_object(host_entry) else None
            if entry is not None and not is_disabled(entry):
                if file.scope != "user":
                    entry = _with_absolute_paths(entry, workspace(file.path))
                yield file.host, name, entry


def _with_absolute_paths(entry: Json, folder: Path) -> Json:
    """Return an entry of a project with paths that work from any folder."""
    folder = Path(escaped(str(folder)))
    text = json.dumps(entry, default=str).replace("${workspaceFolder}", json.dumps(str(folder))[1:-1])
    absolute: Json = json.loads(text)
    if "command" in absolute:
        absolute["cwd"] = str(folder / Path(str(absolute.get("cwd") or "")).expanduser())
    if isinstance(env_file := absolute.get("envFile"), str) and not env_file.startswith("$"):
        absolute["envFile"] = str(folder / Path(env_file).expanduser())
    return absolute


def _connection(entry: Json) -> tuple[object, ...]:
    """Return the parts of an entry that identify the server; keys of the URL and folders differ between hosts."""
    url = entry.get("url") or entry.get("httpUrl") or entry.get("serverUrl")
    return (url, *(entry.get(key) or None for key in ("command", "args", "env", "headers")))
