"""Table of the supported hosts: their configuration files, and the format of the servers in them."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from ..._utils.option_checks import nearest
from ..exit_status import CommandError, Status

Scope = Literal["user", "project", "local"]
Format = Literal["JSON", "TOML", "YAML"]

Fixed: TypeAlias = tuple[tuple[str, object], ...]
"""Keys and values that are the same for all servers; the value `{name}` stands for the name of the server."""


@dataclass(frozen=True)
class FileLocation:
    """Path of a user's file on each platform.

    `~` is the home folder. `$XDG_CONFIG_HOME` defaults to `~/.config`, `%APPDATA%` to `~/AppData/Roaming`.

    Attributes:
        linux: The path on Linux and any platform that is not listed.
        macos: The path on macOS; empty if it is the one on Linux.
        windows: The path on Windows; empty if it is the one on Linux.
        variable: Environment variable with the folder of the file, which wins; empty for none.
        below: Path of the file in that folder.
    """

    linux: str
    macos: str = ""
    windows: str = ""
    variable: str = ""
    below: str = ""


@dataclass(frozen=True)
class StdioFormat:
    """Format of a server that the host starts as a process.

    Attributes:
        fixed: Keys and values of each entry.
        command: Key of the program.
        env: Key of the environment variables.
        cwd: Key of the working directory; None if the host has none.
        env_file: Key of a file with environment variables; None if the host has none.
    """

    fixed: Fixed = ()
    command: str = "command"
    env: str = "env"
    cwd: str | None = None
    env_file: str | None = None


@dataclass(frozen=True)
class UrlFormat:
    """Format of a server at a URL.

    Attributes:
        fixed: Keys and values of each entry.
        url: Key of the URL.
        headers: Key of the headers.
    """

    fixed: Fixed = ()
    url: str = "url"
    headers: str = "headers"


@dataclass(frozen=True)
class Host:
    """A program that connects to MCP servers.

    Attributes:
        name: The name on the command line.
        title: The name of the product.
        source: URL of the documentation or of the source code that reads the configuration.
        user: File of the user.
        format: Format of the files.
        keys: Keys of the object with the servers.
        stdio: Format of servers that the host starts.
        project: File of a project, relative to its folder; None if there is none.
        local: File of a project that is not shared, relative to its folder; None if there is none.
        local_keys: Keys of the servers of a project in the file of the user; `{folder}` stands for the path of the
            repository. Empty if there are none.
        http: Format of servers at a URL; None if the host supports none.
        sse: Format of servers with HTTP+SSE of 2024-11-05; None if the host supports none.
        program: The program of the host on the PATH; empty if there is none.
        has_plain_names: Whether names of servers may only have letters, digits, hyphens and underscores.
        variables: Spellings of variables that the host replaces in values.
        remark: Message to the user after each installation.
        project_remark: Message to the user after an installation in a project.
    """

    name: str
    title: str
    source: str
    user: FileLocation
    format: Format = "JSON"
    keys: tuple[str, ...] = ("mcpServers",)
    stdio: StdioFormat = StdioFormat()
    project: str | None = None
    local: str | None = None
    local_keys: tuple[str, ...] = ()
    http: UrlFormat | None = None
    sse: UrlFormat | None = None
    program: str = ""
    has_plain_names: bool = False
    variables: tuple[str, ...] = ()
    remark: str = ""
    project_remark: str = ""


_STDIO: Final = (("type", "stdio"),)
_TYPED_HTTP: Final = UrlFormat((("type", "http"),))
_TYPED_SSE: Final = UrlFormat((("type", "sse"),))
_GOOSE: Final = (("enabled", True), ("name", "{name}"), ("description", ""), ("timeout", 300))

_PLAIN_OR_BRACED: Final = ("$NAME", "${NAME}")
PLACE_VARIABLES: Final = (
    "${userHome}",
    "${workspaceFolder}",
    "${workspaceFolderBasename}",
    "${pathSeparator}",
    "${/}",
)
"""Variables of editors for folders and separators."""

_HOSTS: Final = (
    Host(
        # Variables: https://github.com/modelcontextprotocol/servers/issues/1039
        "claude-desktop",
        "Claude Desktop",
        "https://modelcontextprotocol.io/docs/develop/connect-local-servers",
        FileLocation(
            "$XDG_CONFIG_HOME/Claude/claude_desktop_config.json",
            "~/Library/Application Support/Claude/claude_desktop_config.json",
            "%APPDATA%/Claude/claude_desktop_config.json",
        ),
        remark="Quit and restart the host to load the server.",
    ),
    Host(
        # Variables: https://code.claude.com/docs/en/mcp#environment-variable-expansion-in-mcp-json
        "claude-code",
        "Claude Code",
        "https://code.claude.com/docs/en/mcp",
        FileLocation("~/.claude.json", variable="CLAUDE_CONFIG_DIR", below=".claude.json"),
        stdio=StdioFormat(_STDIO),
        project=".mcp.json",
        local_keys=("projects", "{folder}", "mcpServers"),
        http=_TYPED_HTTP,
        sse=_TYPED_SSE,
        program="claude",
        has_plain_names=True,
        project_remark="The host asks for confirmation before it starts a server of a project.",
        variables=("${NAME}", "${NAME:-default}"),
    ),
    Host(
        # Variables: https://cursor.com/docs/mcp#config-interpolation
        "cursor",
        "Cursor",
        "https://cursor.com/docs/mcp",
        FileLocation("~/.cursor/mcp.json"),
        stdio=StdioFormat(_STDIO, env_file="envFile"),
        project=".cursor/mcp.json",
        http=UrlFormat(),
        sse=UrlFormat(),
        program="cursor",
        variables=("${env:NAME}", *PLACE_VARIABLES),
    ),
    Host(
        # Variables: https://code.visualstudio.com/docs/reference/variables-reference
        "vscode",
        "VS Code",
        "https://code.visualstudio.com/docs/copilot/reference/mcp-configuration",
        FileLocation(
            "$XDG_CONFIG_HOME/Code/User/mcp.json",
            "~/Library/Application Support/Code/User/mcp.json",
            "%APPDATA%/Code/User/mcp.json",
        ),
        keys=("servers",),
        stdio=StdioFormat(_STDIO, cwd="cwd", env_file="envFile"),
        project=".vscode/mcp.json",
        http=_TYPED_HTTP,
        sse=_TYPED_SSE,
        program="code",
        variables=("${env:NAME}", "${input:ID}", "${command:ID}", "${config:NAME}", *PLACE_VARIABLES),
    ),
    Host(
        # Variables: https://docs.windsurf.com/windsurf/cascade/mcp#config-interpolation
        "windsurf",
        "Windsurf",
        "https://docs.windsurf.com/windsurf/cascade/mcp",
        FileLocation("~/.codeium/windsurf/mcp_config.json"),
        http=UrlFormat(url="serverUrl"),
        sse=UrlFormat(url="serverUrl"),
        program="windsurf",
        remark="Refresh the list of servers in the host to load the server.",
        variables=("${env:NAME}", "${file:PATH}"),
    ),
    Host(
        # Variables: https://github.com/google-gemini/gemini-cli/blob/main/packages/cli/src/utils/envVarResolver.ts
        "gemini-cli",
        "Gemini CLI",
        "https://github.com/google-gemini/gemini-cli/blob/main/docs/tools/mcp-server.md",
        FileLocation("~/.gemini/settings.json", variable="GEMINI_CLI_HOME", below=".gemini/settings.json"),
        stdio=StdioFormat(cwd="cwd"),
        project=".gemini/settings.json",
        http=_TYPED_HTTP,
        sse=_TYPED_SSE,
        program="gemini",
        variables=_PLAIN_OR_BRACED,
    ),
    Host(
        # Variables: https://github.com/QwenLM/qwen-code/blob/main/packages/cli/src/utils/envVarResolver.ts
        "qwen-code",
        "Qwen Code",
        "https://github.com/QwenLM/qwen-code/blob/main/docs/users/features/mcp.md",
        FileLocation("~/.qwen/settings.json", variable="QWEN_HOME", below="settings.json"),
        stdio=StdioFormat(cwd="cwd"),
        project=".qwen/settings.json",
        http=UrlFormat(url="httpUrl"),
        sse=UrlFormat(),
        program="qwen",
        project_remark="The host asks for confirmation before it starts a server of a project.",
        variables=_PLAIN_OR_BRACED,
    ),
    Host(
        # Variables: https://github.com/openai/codex/issues/7367
        "codex",
        "Codex",
        "https://github.com/openai/codex/blob/main/codex-rs/config/src/mcp_types.rs",
        FileLocation("~/.codex/config.toml", variable="CODEX_HOME", below="config.toml"),
        format="TOML",
        keys=("mcp_servers",),
        stdio=StdioFormat(cwd="cwd"),
        project=".codex/config.toml",
        http=UrlFormat(headers="http_headers"),
        program="codex",
        has_plain_names=True,
        project_remark="The host reads this file only in a trusted project.",
    ),
    Host(
        # Variables: https://github.com/zed-industries/zed/issues/60459
        "zed",
        "Zed",
        "https://zed.dev/docs/ai/mcp",
        FileLocation(
            "$XDG_CONFIG_HOME/zed/settings.json", "~/.config/zed/settings.json", "%APPDATA%/Zed/settings.json"
        ),
        keys=("context_servers",),
        project=".zed/settings.json",
        http=UrlFormat(),
        program="zed",
    ),
    Host(
        # Variables: https://github.com/block/goose/blob/main/crates/goose/src/agents/extension_manager.rs
        "goose",
        "goose",
        "https://github.com/block/goose/blob/main/documentation/docs/guides/config-files.md",
        FileLocation(
            "$XDG_CONFIG_HOME/goose/config.yaml",
            windows="%APPDATA%/Block/goose/config/config.yaml",
            variable="GOOSE_PATH_ROOT",
            below="config/config.yaml",
        ),
        format="YAML",
        keys=("extensions",),
        stdio=StdioFormat((*_GOOSE, ("type", "stdio")), command="cmd", env="envs"),
        http=UrlFormat((*_GOOSE, ("type", "streamable_http")), url="uri"),
        program="goose",
        has_plain_names=True,
    ),
    Host(
        # Variables: https://docs.qoder.com/cli/using-cli
        "qodercli",
        "Qoder CLI",
        "https://docs.qoder.com/cli/using-cli",
        FileLocation("~/.qoder/settings.json", variable="QODER_CONFIG_DIR", below="settings.json"),
        project=".mcp.json",
        local=".qoder/settings.local.json",
        http=_TYPED_HTTP,
        sse=_TYPED_SSE,
        program="qodercli",
        project_remark="The host asks for confirmation before it starts a server of a project.",
    ),
)

HOSTS: Final[Mapping[str, Host]] = MappingProxyType({host.name: host for host in _HOSTS})
"""The hosts by name."""


# Configuration files of hosts on this machine

_ROOTS: Final = {
    "$XDG_CONFIG_HOME": ("XDG_CONFIG_HOME", ".config"),
    "%APPDATA%": ("APPDATA", "AppData/Roaming"),
}


@dataclass(frozen=True)
class ConfigFile:
    """A configuration file of a host, which may not exist.

    Attributes:
        host: The host.
        scope: The scope of its servers.
        path: The path.
        keys: Keys of the object with the servers.
    """

    host: Host
    scope: Scope
    path: Path
    keys: tuple[str, ...]


def host_by_name(name: str) -> Host:
    """Return a host.

    Raises:
        CommandError: No host has this name; the message lists the names.
    """
    host = HOSTS.get(name.casefold())
    if host is None:
        close = nearest(name, HOSTS)
        hint = f"did you mean {close}?" if close else f"mcpkit supports {', '.join(HOSTS)}"
        raise CommandError(f"unknown host {name}; {hint}", Status.NO_SUCH_THING)
    return host


def files_of(host: Host, folder: Path) -> Iterator[ConfigFile]:
    """Yield the files of a host for a project in a folder; in the home folder, that is the file of the user."""
    user = user_file(host.user)
    yield ConfigFile(host, "user", user, host.keys)
    if host.project is not None and folder / host.project != user:
        yield ConfigFile(host, "project", folder / host.project, host.keys)
    if host.local is not None:
        yield ConfigFile(host, "local", folder / host.local, host.keys)
    if host.local_keys:
        repository = next((each for each in (folder, *folder.parents) if (each / ".git").exists()), folder)
        keys = tuple(key.replace("{folder}", repository.as_posix()) for key in host.local_keys)
        yield ConfigFile(host, "local", user, keys)


def file_of(host: Host, scope: Scope, folder: Path) -> ConfigFile:
    """Return the file of a host with a scope, for a project in a folder.

    Raises:
        CommandError: The host has no file with this scope.
    """
    files = list(files_of(host, folder))
    for file in files:
        if file.scope == scope:
            return file
    raise CommandError(
        f"{host.title} has no scope {scope}. Use one of {', '.join(file.scope for file in files)}"
    )


def user_file(location: FileLocation, platform: str = sys.platform) -> Path:
    """Return the path of a file of the user.

    Args:
        location: The location in the table of hosts.
        platform: The platform, as in `sys.platform`.
    """
    folder = os.environ.get(location.variable) if location.variable else None
    if folder:
        return Path(folder).expanduser() / location.below
    path = {"darwin": location.macos, "win32": location.windows}.get(platform) or location.linux
    root, _, rest = path.partition("/")
    if root == "~":
        return Path.home() / rest
    variable, default = _ROOTS[root]
    value = os.environ.get(variable, "")
    return (Path(value) if Path(value).is_absolute() else Path.home() / default) / rest


def existing_files(folder: Path) -> Iterator[ConfigFile]:
    """Yield the files that exist: of projects in a folder and the folders above, then of the user."""
    for each in (folder, *folder.parents):
        for host in HOSTS.values():
            for file in files_of(host, each):
                if file.scope != "user" and file.path.is_file():
                    yield file
        if each == Path.home():
            break
    for host in HOSTS.values():
        if (path := user_file(host.user)).is_file():
            yield ConfigFile(host, "user", path, host.keys)


def host_of_file(path: Path) -> Host | None:
    """Return the host of a file by its path or its format; None for JSON at any other path."""
    suffix = path.suffix.casefold()
    if suffix != ".json":
        return {".toml": HOSTS["codex"], ".yaml": HOSTS["goose"], ".yml": HOSTS["goose"]}.get(suffix)
    path = path.absolute()
    for host in HOSTS.values():
        ends = [Path(file).parts for file in (host.project, host.local) if file]
        if path == user_file(host.user) or any(path.parts[-len(end) :] == end for end in ends):
            return host
    return None


def is_installed(host: Host, created: Collection[Path] = ()) -> bool:
    """Return whether a host seems to be installed: its folder, its file or its program exists.

    Args:
        host: The host.
        created: Files and folders that mcpkit has created, which do not count.
    """
    path = user_file(host.user)
    if path.is_file() and path not in created:
        return True
    folder = path.parent
    if folder != Path.home() and folder.is_dir():
        if folder not in created:
            return True
        if any(each not in created and not each.name.startswith(path.name) for each in folder.iterdir()):
            return True
    return bool(host.program and shutil.which(host.program))
