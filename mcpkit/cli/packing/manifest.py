"""`manifest.json` of a bundle: who wrote it, how it is started, what its user sets (MCPB, MANIFEST.md, 0.3 and 0.4)."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from ...protocol.jsonrpc import Json
from ..exit_status import CommandError

LAUNCHER: Final = "mcpb_main.py"
"""The file that starts the server, at the top of the bundle."""

LIBRARIES: Final = "lib"
"""Folder of the vendored distributions."""

_PAGES: Final = {
    "homepage": "homepage",
    "documentation": "documentation",
    "docs": "documentation",
    "issues": "support",
    "bug tracker": "support",
    "support": "support",
}
"""Names of the manifest's URLs in `pyproject.toml`."""

_SOURCES: Final = ("repository", "source", "source code", "github")


class Setting(NamedTuple):
    """What the user of a bundle sets before it starts, and its process gets as a variable.

    Attributes:
        variable: The variable of the environment.
        default: What it is where nothing is set; None where it has to be set.
        is_secret: Whether nobody is to see it.
    """

    variable: str
    default: str | None
    is_secret: bool

    @property
    def key(self) -> str:
        """What it is called in the manifest."""
        return self.variable.lower()

    def option(self) -> Json:
        """Return it as an entry of `user_config`."""
        title = re.sub(r"[_-]+", " ", self.variable).strip().capitalize()
        told: Json = {
            "type": "string",
            "title": title,
            "description": f"The environment variable {self.variable}",
        }
        if self.is_secret:
            told["sensitive"] = True
        return told | (
            {"required": True} if self.default is None else {"required": False, "default": self.default}
        )


class Described(NamedTuple):
    """What a bundle says of its server.

    Attributes:
        name: Its name for programs.
        title: Its name for people.
        version: Its version.
        description: What it is, in a line.
        author: Who wrote it.
        email: The author's address, or None.
        license: Its license, or None.
        python: The versions of Python that it runs on, or None.
        keywords: What it is found by.
        urls: Its pages by what they are called, in lower case.
        tools: Its tools, as it lists them.
        prompts: Its prompts, as it lists them.
        has_more: Whether there may be others of them.
    """

    name: str
    title: str
    version: str
    description: str
    author: str
    email: str | None
    license: str | None
    python: str | None
    keywords: Sequence[str]
    urls: Mapping[str, str]
    tools: Sequence[Mapping[str, object]]
    prompts: Sequence[Mapping[str, object]]
    has_more: bool


def manifest(told: Described, settings: Sequence[Setting], *, is_vendored: bool, is_compiled: bool) -> Json:
    """Return the manifest of a bundle.

    Args:
        told: What it says of its server.
        settings: What its user sets.
        is_vendored: Whether it has all that it needs; else uv gets that when the bundle is installed.
        is_compiled: Whether some of that runs on this platform and version of Python alone.
    """
    env = {setting.variable: f"${{user_config.{setting.key}}}" for setting in settings}
    if is_vendored:
        start: Json = {"command": "python", "args": [f"${{__dirname}}/{LAUNCHER}"], "env": env}
    else:
        start = {"command": "uv", "args": ["run", "--directory", "${__dirname}", LAUNCHER], "env": env}
    found: Json = {
        "manifest_version": "0.3" if is_vendored else "0.4",
        "name": told.name,
        "display_name": told.title,
        "version": told.version,
        "description": told.description,
        "author": {"name": told.author, **({"email": told.email} if told.email else {})},
        **_pages(told.urls),
        "server": {"type": "python" if is_vendored else "uv", "entry_point": LAUNCHER, "mcp_config": start},
        "tools": [_named(tool) for tool in told.tools],
        "tools_generated": told.has_more,
        "prompts_generated": told.has_more
        or bool(told.prompts),  # their texts are made when they are asked for
        "keywords": list(told.keywords),
        "compatibility": _compatibility(told.python, is_compiled=is_compiled),
    }
    if told.license:
        found["license"] = told.license
    if settings:
        found["user_config"] = {setting.key: setting.option() for setting in settings}
    return {key: value for key, value in found.items() if value not in ([], {}, False)}


def check_version(version: str) -> None:
    """Check that a version is one for bundles and registries: a semantic one.

    Raises:
        CommandError: It is none.
    """
    if not re.fullmatch(r"\d+\.\d+\.\d+(?:[-+][0-9A-Za-z.+-]+)?", version):
        raise CommandError(
            f"the version must be a semantic version, got {version!r}. Add for example --version 1.0.2"
        )


def _named(tool: Mapping[str, object]) -> Json:
    description = tool.get("description")
    return {"name": tool["name"], **({"description": description} if description else {})}


def _pages(urls: Mapping[str, str]) -> Json:
    pages: Json = {page: urls[name] for name, page in _PAGES.items() if name in urls}
    source = next((urls[name] for name in _SOURCES if name in urls), None)
    return pages | ({"repository": {"type": "git", "url": source}} if source else {})


def _compatibility(python: str | None, *, is_compiled: bool) -> Json:
    if not is_compiled:
        return {"platforms": ["darwin", "win32", "linux"], "runtimes": {"python": python or ">=3.10"}}
    major, minor = sys.version_info[:2]
    return {
        "platforms": [sys.platform],
        "runtimes": {"python": f">={major}.{minor},<{major}.{minor + 1}"},
    }
