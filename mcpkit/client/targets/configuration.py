"""Servers as the configurations of hosts name them.

Read are those of Claude Desktop, Claude Code, Cursor, VS Code, Windsurf, Gemini CLI, Cline, Roo Code, LM Studio, Zed
and fastmcp.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

from ...content.blocks import described
from ...protocol.jsonrpc import Json, is_array, is_object
from . import jsonc
from .entry import Entry, is_disabled, is_entry, meant_by
from .reached import Configured
from .variables import Variables

logger = logging.getLogger(__name__)

_SERVERS: Final = ("mcpServers", "servers", "context_servers")
"""The key with the servers: in most hosts, in VS Code, in Zed."""


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
        self._variables = Variables(folder, _descriptions(content.get("inputs")))
        servers = {"server": content} if self._is_entry else self._servers(content)
        self.entries = {name: entry for name, entry in servers.items() if self._is_wanted(name, entry)}
        if not self.entries:
            raise ValueError(f"{place}: the configuration has no enabled server")

    def _servers(self, content: Json) -> Json:
        if is_object(inner := content.get("mcp")) and "servers" in inner:  # settings of VS Code's
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
            f"servers or context_servers, or be one entry with command or url{meant_by(content, _SERVERS)}"
        )

    def _is_wanted(self, name: str, entry: object) -> bool:
        if not is_object(entry) or self._is_entry:
            return True
        if self._is_zed and not is_entry(entry):
            logger.warning(
                "%s: server %s is ignored, because an extension of Zed starts it. Write an entry "
                "with command to use it",
                self._place,
                name,
            )
            return False
        return not is_disabled(entry)

    def read(self, name: str) -> Configured:
        """Read one of the entries, with its variables filled in.

        Raises:
            TypeError: Something is of another type than it has to be.
            ValueError: Something is missing, or contradicts itself; no value is shown, as it might be a secret.
        """
        place = self._place if self._is_entry else f"{self._place}, server {name!r}"
        entry = self.entries[name]
        if not is_object(entry):
            raise TypeError(
                f"{place}: the entry must be an object with command or url, got {described(entry)}"
            )
        return Entry(entry, place, self._variables, self._folder, counts_seconds=self._is_zed).read()


def load(path: Path) -> Json:
    """Read a configuration, which may have comments and commas after the last item.

    Raises:
        ValueError: It is no JSON, or no object.
    """
    try:
        content = jsonc.loads(path.read_text(encoding="utf-8-sig"))
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


def _descriptions(inputs: object) -> dict[str, str]:
    """Return what VS Code would ask its user for, by id."""
    if not is_array(inputs):
        return {}
    return {
        str(each["id"]): str(each.get("description", ""))
        for each in inputs
        if is_object(each) and "id" in each
    }
