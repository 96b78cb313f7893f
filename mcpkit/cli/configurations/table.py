"""The hosts: where each has its servers, and how it writes them.

All that is known of them is here. Each has the place where it is documented, or the source that reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

Scope = Literal["user", "project", "local"]
Format = Literal["JSON", "TOML", "YAML"]

Fixed: TypeAlias = tuple[tuple[str, object], ...]
"""Keys and values that are the same for all servers."""


@dataclass(frozen=True)
class Place:
    """Where a host has a file.

    `~` is the user's home, `$XDG_CONFIG_HOME` is `~/.config` where it is not set, `%APPDATA%` is `~/AppData/Roaming`.

    Attributes:
        linux: On Linux, and on all that is neither of the others.
        macos: On macOS; empty where it is as on Linux.
        windows: On Windows; empty where it is as on Linux.
        variable: A variable of the environment that names a folder, which has the file then; empty for none.
        below: Where the file is in that folder.
    """

    linux: str
    macos: str = ""
    windows: str = ""
    variable: str = ""
    below: str = ""


@dataclass(frozen=True)
class Started:
    """How a host writes a server that it starts as a process.

    Attributes:
        fixed: What is the same for all; `{name}` is the name of the server.
        command: The key of the program.
        env: The key of variables of its environment.
        cwd: The key of the folder that it starts in; None where the host has none.
        env_file: The key of a file of variables; None where the host has none.
    """

    fixed: Fixed = ()
    command: str = "command"
    env: str = "env"
    cwd: str | None = None
    env_file: str | None = None


@dataclass(frozen=True)
class Reached:
    """How a host writes a server at a URL.

    Attributes:
        fixed: What is the same for all; `{name}` is the name of the server.
        url: The key of the URL.
        headers: The key of headers.
    """

    fixed: Fixed = ()
    url: str = "url"
    headers: str = "headers"


@dataclass(frozen=True)
class Host:
    """A program that people give servers to.

    Attributes:
        name: What it is called on the command line.
        title: What its makers call it.
        source: Where its configuration is documented, or read.
        format: What its files are written in.
        keys: The key of all servers.
        user: The file for all that a user does.
        started: How it writes a server that it starts.
        project: The file of a project, from its folder; None where there is none.
        local: The file of a project that is the user's own, from its folder; None where there is none.
        local_keys: The keys of what is the user's own of a project and in the user's file, which has it by `{folder}`,
            that of the repository.
        http: How it writes a server at a URL; None where it takes none.
        sse: How it writes a server that speaks HTTP with SSE, as 2024-11-05 has it; None where it takes none.
        program: The program that is started for it in a terminal; empty where there is none.
        has_plain_names: Whether it takes only letters, digits, hyphens and underscores as the name of a server.
        variables: The spellings of variables that it replaces in values; others mean themselves.
        variables_source: Where that is documented, read or reported.
        remark: What has to be done by hand afterwards.
        project_remark: What has to be done by hand where a project has the server.
    """

    name: str
    title: str
    source: str
    format: Format
    keys: tuple[str, ...]
    user: Place
    started: Started
    project: str | None = None
    local: str | None = None
    local_keys: tuple[str, ...] = ()
    http: Reached | None = None
    sse: Reached | None = None
    program: str = ""
    has_plain_names: bool = False
    variables: tuple[str, ...] = ()
    variables_source: str = ""
    remark: str = ""
    project_remark: str = ""


_STDIO: Final = (("type", "stdio"),)
_TYPED_HTTP: Final = Reached((("type", "http"),))
_TYPED_SSE: Final = Reached((("type", "sse"),))
_GOOSE: Final = (("enabled", True), ("name", "{name}"), ("description", ""), ("timeout", 300))

_PLAIN_OR_BRACED: Final = ("$NAME", "${NAME}")
PLACES: Final = (
    "${userHome}",
    "${workspaceFolder}",
    "${workspaceFolderBasename}",
    "${pathSeparator}",
    "${/}",
)

_HOSTS: Final = (
    Host(
        "claude-desktop",
        "Claude Desktop",
        "https://modelcontextprotocol.io/docs/develop/connect-local-servers",
        "JSON",
        ("mcpServers",),
        Place(
            "$XDG_CONFIG_HOME/Claude/claude_desktop_config.json",
            "~/Library/Application Support/Claude/claude_desktop_config.json",
            "%APPDATA%/Claude/claude_desktop_config.json",
        ),
        Started(),
        remark="Quit and restart the host to load the server.",
        variables_source="https://github.com/modelcontextprotocol/servers/issues/1039",
    ),
    Host(
        "claude-code",
        "Claude Code",
        "https://code.claude.com/docs/en/mcp",
        "JSON",
        ("mcpServers",),
        Place("~/.claude.json", variable="CLAUDE_CONFIG_DIR", below=".claude.json"),
        Started(_STDIO),
        project=".mcp.json",
        local_keys=("projects", "{folder}", "mcpServers"),
        http=_TYPED_HTTP,
        sse=_TYPED_SSE,
        program="claude",
        has_plain_names=True,
        project_remark="The host asks for confirmation before it starts a server of a project.",
        variables=("${NAME}", "${NAME:-default}"),
        variables_source="https://code.claude.com/docs/en/mcp#environment-variable-expansion-in-mcp-json",
    ),
    Host(
        "cursor",
        "Cursor",
        "https://cursor.com/docs/mcp",
        "JSON",
        ("mcpServers",),
        Place("~/.cursor/mcp.json"),
        Started(_STDIO, env_file="envFile"),
        project=".cursor/mcp.json",
        http=Reached(),
        sse=Reached(),
        program="cursor",
        variables=("${env:NAME}", *PLACES),
        variables_source="https://cursor.com/docs/mcp#config-interpolation",
    ),
    Host(
        "vscode",
        "VS Code",
        "https://code.visualstudio.com/docs/copilot/reference/mcp-configuration",
        "JSON",
        ("servers",),
        Place(
            "$XDG_CONFIG_HOME/Code/User/mcp.json",
            "~/Library/Application Support/Code/User/mcp.json",
            "%APPDATA%/Code/User/mcp.json",
        ),
        Started(_STDIO, cwd="cwd", env_file="envFile"),
        project=".vscode/mcp.json",
        http=_TYPED_HTTP,
        sse=_TYPED_SSE,
        program="code",
        variables=("${env:NAME}", "${input:ID}", "${command:ID}", "${config:NAME}", *PLACES),
        variables_source="https://code.visualstudio.com/docs/reference/variables-reference",
    ),
    Host(
        "windsurf",
        "Windsurf",
        "https://docs.windsurf.com/windsurf/cascade/mcp",
        "JSON",
        ("mcpServers",),
        Place("~/.codeium/windsurf/mcp_config.json"),
        Started(),
        http=Reached(url="serverUrl"),
        sse=Reached(url="serverUrl"),
        program="windsurf",
        remark="Refresh the list of servers in the host to load the server.",
        variables=("${env:NAME}", "${file:PATH}"),
        variables_source="https://docs.windsurf.com/windsurf/cascade/mcp#config-interpolation",
    ),
    Host(
        "gemini-cli",
        "Gemini CLI",
        "https://github.com/google-gemini/gemini-cli/blob/main/docs/tools/mcp-server.md",
        "JSON",
        ("mcpServers",),
        Place("~/.gemini/settings.json", variable="GEMINI_CLI_HOME", below=".gemini/settings.json"),
        Started(cwd="cwd"),
        project=".gemini/settings.json",
        http=_TYPED_HTTP,
        sse=_TYPED_SSE,
        program="gemini",
        variables=_PLAIN_OR_BRACED,
        variables_source="https://github.com/google-gemini/gemini-cli/blob/main/packages/cli/src/utils/envVarResolver.ts",
    ),
    Host(
        "qwen-code",
        "Qwen Code",
        "https://github.com/QwenLM/qwen-code/blob/main/docs/users/features/mcp.md",
        "JSON",
        ("mcpServers",),
        Place("~/.qwen/settings.json", variable="QWEN_HOME", below="settings.json"),
        Started(cwd="cwd"),
        project=".qwen/settings.json",
        http=Reached(url="httpUrl"),
        sse=Reached(),
        program="qwen",
        project_remark="The host asks for confirmation before it starts a server of a project.",
        variables=_PLAIN_OR_BRACED,
        variables_source="https://github.com/QwenLM/qwen-code/blob/main/packages/cli/src/utils/envVarResolver.ts",
    ),
    Host(
        "codex",
        "Codex",
        "https://github.com/openai/codex/blob/main/codex-rs/config/src/mcp_types.rs",
        "TOML",
        ("mcp_servers",),
        Place("~/.codex/config.toml", variable="CODEX_HOME", below="config.toml"),
        Started(cwd="cwd"),
        project=".codex/config.toml",
        http=Reached(headers="http_headers"),
        program="codex",
        has_plain_names=True,
        project_remark="The host reads this file only in a trusted project.",
        variables_source="https://github.com/openai/codex/issues/7367",
    ),
    Host(
        "zed",
        "Zed",
        "https://zed.dev/docs/ai/mcp",
        "JSON",
        ("context_servers",),
        Place(
            "$XDG_CONFIG_HOME/zed/settings.json", "~/.config/zed/settings.json", "%APPDATA%/Zed/settings.json"
        ),
        Started(),
        project=".zed/settings.json",
        http=Reached(),
        program="zed",
        variables_source="https://github.com/zed-industries/zed/issues/60459",
    ),
    Host(
        "goose",
        "goose",
        "https://github.com/block/goose/blob/main/documentation/docs/guides/config-files.md",
        "YAML",
        ("extensions",),
        Place(
            "$XDG_CONFIG_HOME/goose/config.yaml",
            windows="%APPDATA%/Block/goose/config/config.yaml",
            variable="GOOSE_PATH_ROOT",
            below="config/config.yaml",
        ),
        Started((*_GOOSE, ("type", "stdio")), command="cmd", env="envs"),
        http=Reached((*_GOOSE, ("type", "streamable_http")), url="uri"),
        program="goose",
        has_plain_names=True,
        variables_source="https://github.com/block/goose/blob/main/crates/goose/src/agents/extension_manager.rs",
    ),
    Host(
        "qodercli",
        "Qoder CLI",
        "https://docs.qoder.com/cli/using-cli",
        "JSON",
        ("mcpServers",),
        Place("~/.qoder/settings.json", variable="QODER_CONFIG_DIR", below="settings.json"),
        Started(),
        project=".mcp.json",
        local=".qoder/settings.local.json",
        http=_TYPED_HTTP,
        sse=_TYPED_SSE,
        program="qodercli",
        project_remark="The host asks for confirmation before it starts a server of a project.",
        variables_source="https://docs.qoder.com/cli/using-cli",
    ),
)

HOSTS: Final[Mapping[str, Host]] = MappingProxyType({host.name: host for host in _HOSTS})
"""The hosts, by what they are called on the command line."""
