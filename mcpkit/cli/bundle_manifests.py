"""`manifest.json` of a bundle, and `server.json` for the MCP registry.

The formats are 0.3 and 0.4 of MCPB (MANIFEST.md), and the schema of 2025-12-11 (docs/reference/server-json in the
registry).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from ..protocol.jsonrpc import Json
from .bundle_contents import Project
from .exit_status import CommandError

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
"""URLs of the manifest by their names in `pyproject.toml`."""

_SOURCES: Final = ("repository", "source", "source code", "github")


class UserSetting(NamedTuple):
    """An environment variable that the user of a bundle sets.

    Attributes:
        variable: The variable.
        default: The default; None if the user has to set it.
        is_secret: Whether hosts hide the value.
    """

    variable: str
    default: str | None
    is_secret: bool


class BundleInfo(NamedTuple):
    """Description of the server in a bundle.

    Attributes:
        name: The name.
        title: The display name.
        version: The version.
        description: The description in one line.
        author: The name of the author.
        email: The address of the author, or None.
        project: The project of the server.
        tools: Its tools.
        prompts: Its prompts.
        is_complete: Whether these are all tools and prompts.
    """

    name: str
    title: str
    version: str
    description: str
    author: str
    email: str | None
    project: Project
    tools: Sequence[Mapping[str, object]]
    prompts: Sequence[Mapping[str, object]]
    is_complete: bool


def create_manifest(
    info: BundleInfo, settings: Sequence[UserSetting], *, is_vendored: bool, is_compiled: bool
) -> Json:
    """Return the manifest of a bundle.

    Args:
        info: The description of the server.
        settings: The environment variables that the user sets.
        is_vendored: Whether the bundle has the dependencies; else uv installs them.
        is_compiled: Whether a file runs on this platform and version of Python only.
    """
    urls, python = info.project.urls, info.project.python
    env = {each.variable: f"${{user_config.{each.variable.lower()}}}" for each in settings}
    command, arguments = "uv", ["run", "--directory", "${__dirname}", LAUNCHER]
    if is_vendored:
        command, arguments = "python", [f"${{__dirname}}/{LAUNCHER}"]
    platforms, runtime = ["darwin", "win32", "linux"], python or ">=3.10"
    if is_compiled:
        major, minor = sys.version_info[:2]
        platforms, runtime = [sys.platform], f">={major}.{minor},<{major}.{minor + 1}"
    source = next((urls[name] for name in _SOURCES if name in urls), None)
    manifest: Json = {
        "manifest_version": "0.3" if is_vendored else "0.4",
        "name": info.name,
        "display_name": info.title,
        "version": info.version,
        "description": info.description,
        "author": {"name": info.author, **({"email": info.email} if info.email else {})},
        **{page: urls[name] for name, page in _PAGES.items() if name in urls},
        "repository": {"type": "git", "url": source} if source else {},
        "server": {
            "type": "python" if is_vendored else "uv",
            "entry_point": LAUNCHER,
            "mcp_config": {"command": command, "args": arguments, "env": env},
        },
        "tools": [
            {key: tool[key] for key in ("name", "description") if key == "name" or tool.get(key)}
            for tool in info.tools
        ],
        "tools_generated": not info.is_complete,
        # The text of a prompt is made on request, so that the manifest cannot list prompts.
        "prompts_generated": not info.is_complete or bool(info.prompts),
        "keywords": list(info.project.keywords),
        "compatibility": {"platforms": platforms, "runtimes": {"python": runtime}},
        "license": info.project.license or "",
        "user_config": {each.variable.lower(): _user_option(each) for each in settings},
    }
    return {key: value for key, value in manifest.items() if value not in ([], {}, False, "")}


def _user_option(setting: UserSetting) -> Json:
    """Return the entry of `user_config` of a setting."""
    option: Json = {
        "type": "string",
        "title": re.sub(r"[_-]+", " ", setting.variable).strip().capitalize(),
        "description": f"The environment variable {setting.variable}",
    }
    if setting.is_secret:
        option["sensitive"] = True
    option["required"] = setting.default is None
    return option if setting.default is None else {**option, "default": setting.default}


def check_version(version: str) -> None:
    """Raise a `CommandError` if a version is not a semantic version."""
    if not re.fullmatch(r"\d+\.\d+\.\d+(?:[-+][0-9A-Za-z.+-]+)?", version):
        raise CommandError(
            f"the version must be a semantic version, got {version!r}. Add for example --version 1.0.2"
        )


# server.json

_REQUIREMENTS: Final = {
    "name": (
        r"(?=.{3,200}$)[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+",
        "the registry requires a name such as io.github.USER/weather. Correct --registry",
    ),
    "title": (r".{1,100}", "the registry requires a title of 1 to 100 characters. Add --title"),
    "description": (
        r".{1,100}", "the registry requires a description of 1 to 100 characters. Add --description",
    ),
    "version": (
        r"(?!.*\.[xX](\.|$)).{1,255}", "the registry requires one version, such as 1.0.2. Add --version",
    ),
    "websiteUrl": (r"https?://\S+", "homepage in [project.urls] is not an HTTP URL. Correct it"),
}  # fmt: skip
"""Pattern and error message of members that the registry checks; it refuses versions that may be ranges."""


def create_server_json(
    info: BundleInfo,
    settings: Sequence[UserSetting],
    *,
    name: str,
    pypi: str | None,
    download: str | None,
    remote: str | None,
) -> Json:
    """Return the content of `server.json`; the `fileSha256` of a download is empty.

    Args:
        info: The description of the server.
        settings: The environment variables that the user sets.
        name: The name in the registry.
        pypi: The name of the package on PyPI, or None.
        download: The URL where users download the bundle, or None.
        remote: The URL where the server runs, or None.

    Raises:
        CommandError: The registry would refuse a member; the message has the option to add.
    """
    packages: list[Json] = []
    if pypi:
        packages.append(
            {"registryType": "pypi", "identifier": pypi, "version": info.version, "runtimeHint": "uvx"}
        )
    if download:
        packages.append({"registryType": "mcpb", "identifier": download, "fileSha256": ""})
    for package in packages:
        package["transport"] = {"type": "stdio"}
        if settings:
            package["environmentVariables"] = [_registry_variable(each) for each in settings]
    urls = info.project.urls
    source = next((urls[key] for key in ("repository", "source", "github") if key in urls), "")
    service = re.match(r"https://(github|gitlab)\.com/", source)
    detail: Json = {
        "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
        "name": name,
        "title": info.title,
        "description": info.description,
        "version": info.version,
        "websiteUrl": urls.get("homepage"),
        "repository": {"url": source, "source": service[1]} if service else None,
        "packages": packages or None,
        "remotes": [{"type": "streamable-http", "url": remote}] if remote else None,
    }
    detail = {key: value for key, value in detail.items() if value is not None}
    for key, (pattern, message) in _REQUIREMENTS.items():
        if key in detail and not re.fullmatch(pattern, detail[key], re.DOTALL):
            raise CommandError(message)
    if remote and not re.fullmatch(r"https?://\S+", remote):
        raise CommandError("the registry requires an HTTP URL of a running server. Correct --remote")
    return detail


def _registry_variable(setting: UserSetting) -> Json:
    default = {} if setting.default is None else {"default": setting.default}
    is_required = setting.default is None
    return {"name": setting.variable, **default, "isRequired": is_required, "isSecret": setting.is_secret}
