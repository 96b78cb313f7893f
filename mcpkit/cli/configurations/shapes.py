"""Entries of servers: as each host writes them, and as a client reads them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from ...client.targets.infer_target import HttpServerConfig, StdioServerConfig
from ...protocol.jsonrpc import Json, is_array, is_object
from ..exit_status import CommandError
from .table import Fixed, Host, Reached
from .variables import as_clients_write, escaped


def entry_of(
    host: Host, name: str, server: StdioServerConfig | HttpServerConfig, env_file: Path | None = None
) -> Json:
    """Return the entry of a server, as a host writes it.

    Args:
        host: The host.
        name: What the server is called there.
        server: How it is reached.
        env_file: A file of variables, for a host that takes one.

    Raises:
        CommandError: The host cannot reach it so.
    """
    if isinstance(server, HttpServerConfig):
        reached = _reached(host, server)
        entry = {**_named(reached.fixed, name), reached.url: server.url}
        return {**entry, reached.headers: dict(server.headers)} if server.headers else entry
    started = host.started
    program, *arguments = server.command
    entry = {**_named(started.fixed, name), started.command: program, "args": arguments}
    if server.env:
        entry[started.env] = dict(server.env)
    if started.env_file and env_file is not None:
        entry[started.env_file] = str(env_file)
    if started.cwd and server.cwd is not None:
        entry[started.cwd] = str(server.cwd)
    return entry


def _reached(host: Host, server: HttpServerConfig) -> Reached:
    reached = host.sse if server.transport == "sse" else host.http
    if reached is not None:
        return reached
    if host.http is None:
        raise CommandError(
            f"{host.title} does not support URLs in its configuration. Add the URL in its settings, or use a proxy "
            f'command such as "npx -y mcp-remote {server.url}"'
        )
    raise CommandError(
        f"{host.title} does not support the HTTP+SSE transport of 2024-11-05. Use a Streamable HTTP URL"
    )


def _named(fixed: Fixed, name: str) -> Json:
    return {key: name if value == "{name}" else value for key, value in fixed}


def read_by_clients(host: Host, entry: Json) -> Json | None:
    """Return an entry of a host as a client reads it; None if it is not of a server that can be reached.

    Only what the host replaces by a variable is one for the client too.
    """
    written = as_clients_write(host, entry)
    assert is_object(written), "the result is an object"
    if host.name == "codex":
        return _of_codex(written)
    if host.name == "goose":
        return _of_goose(entry, written)
    return written if any(isinstance(value, str | dict) for value in _ways(written)) else None


def _ways(entry: Json) -> Iterable[object]:
    return (entry.get(key) for key in ("command", "url", "httpUrl", "serverUrl"))


def _of_codex(entry: Json) -> Json:
    token = entry.get("bearer_token_env_var")
    return _without_nothing(
        {
            **{key: entry.get(key) for key in ("command", "args", "cwd", "url", "enabled")},
            "env": {
                **_texts(entry, "env"),
                **{name: f"${{{name}}}" for name in _names(entry, "env_vars") if name in os.environ},
            },
            "headers": {
                **_texts(entry, "http_headers"),
                **{
                    name: f"${{{variable}}}"
                    for name, variable in _texts(entry, "env_http_headers").items()
                    if os.environ.get(str(variable), "").strip()
                },
                **({"Authorization": f"Bearer ${{{token}}}"} if token else {}),
            },
            "timeout": entry.get("tool_timeout_sec"),
            "enabledTools": entry.get("enabled_tools"),
            "disabledTools": entry.get("disabled_tools"),
        }
    )


def _of_goose(raw: Json, entry: Json) -> Json | None:
    if entry.get("type") not in {"stdio", "streamable_http", "sse"}:
        return None  # a part of goose itself
    secrets = {name: f"${{{name}}}" for name in _names(entry, "env_keys") if name in os.environ}
    is_started = entry.get("type") == "stdio"
    return _without_nothing(
        {
            "command": entry.get("cmd") if is_started else None,
            "args": entry.get("args"),
            "env": {**_texts(entry, "envs"), **secrets} if is_started else None,
            "url": entry.get("uri"),
            "headers": _goose_headers(_texts(raw, "headers"), {**_texts(entry, "envs"), **secrets}),
            "enabled": entry.get("enabled"),
            "timeout": entry.get("timeout"),
            "includeTools": entry.get("available_tools"),
        }
    )


def _goose_headers(headers: Json, known: Json) -> Json:
    """Return headers in which goose has replaced `$NAME` and `${NAME}`, for the variables of the entry alone."""

    def value(found: re.Match[str]) -> str:
        name = found[1] or found[2]
        return str(known[name]) if name in known else escaped(found[0])

    reference = r"\$(?:\{\s*([A-Za-z_]\w*)\s*\}|([A-Za-z_]\w*))|\$"
    return {name: re.sub(reference, value, str(text)) for name, text in headers.items()}


def _without_nothing(entry: Json) -> Json:
    return {key: value for key, value in entry.items() if value not in (None, {}, [])}


def _texts(entry: Json, key: str) -> Json:
    values = entry.get(key)
    return values if is_object(values) else {}


def _names(entry: Json, key: str) -> list[str]:
    """Return the names of variables, which codex writes as text or as objects."""
    values = entry.get(key)
    listed: list[object] = values if is_array(values) else []
    names = (each.get("name") if is_object(each) else each for each in listed)
    return [name for name in names if isinstance(name, str)]
