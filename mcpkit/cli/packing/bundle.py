"""`mcpkit bundle`: packs a server for people who install it by a click, and describes it for the registry."""

from __future__ import annotations

import asyncio
import getpass
import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import click

from ...client.client import Client
from ...protocol.jsonrpc import Json
from ...protocol.revisions import LATEST
from ..console import write_stderr
from ..exit_status import CommandError
from ..targets.served import Found, found
from . import vendored
from .archive import write_archive
from .files import ProjectFiles
from .imports import undeclared
from .manifest import LAUNCHER, LIBRARIES, Described, Setting, check_version, manifest
from .project import Project, project_of
from .registry import server_json

_LAUNCHER: Final = '''\
"""Starts the server of this bundle."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / folder) for folder in {folders!r}]

from {module} import {name} as server  # noqa: E402
{made}
server.run()
'''

_PYPROJECT: Final = """\
[project]
name = {name}
version = {version}
requires-python = {python}
dependencies = {dependencies}

[tool.uv]
package = false
"""


class Lists(NamedTuple):
    """What a server has."""

    tools: Sequence[Mapping[str, object]]
    prompts: Sequence[Mapping[str, object]]
    is_complete: bool


@click.command("bundle", epilog="Example: mcpkit bundle server.py --secret API_KEY")
@click.argument("target")
@click.option(
    "-o", "--out", type=click.Path(path_type=Path), help="Output file (default: NAME-VERSION.mcpb)."
)
@click.option(
    "--vendor",
    is_flag=True,
    help="Include the installed dependencies in the bundle. Without it, uv installs them.",
)
@click.option("--large", "takes_large", is_flag=True, help="Also include files above 5 MB.")
@click.option(
    "--secret",
    "secrets",
    multiple=True,
    metavar="NAME",
    help="Secret environment variable that the user sets.",
)
@click.option(
    "--setting",
    "settings",
    multiple=True,
    metavar="NAME[=DEFAULT]",
    help="Environment variable that the user sets.",
)
@click.option("--name", help="Name (default: of the project or the server).")
@click.option("--title", help="Display name (default: the server's title or name).")
@click.option("--version", help="Version (default: of the project or the server).")
@click.option("--description", help="Description in one line.")
@click.option("--author", help="Name of the author.")
@click.option("--registry", metavar="NAMESPACE/NAME", help="Also write server.json for the MCP registry.")
@click.option("--pypi", metavar="NAME", help="For server.json: name of the package on PyPI.")
@click.option("--download", metavar="URL", help="For server.json: URL where users download the bundle.")
@click.option("--remote", metavar="URL", help="For server.json: URL where the server runs over HTTP.")
def command(
    target: str,
    out: Path | None,
    vendor: bool,
    takes_large: bool,
    secrets: Sequence[str],
    settings: Sequence[str],
    name: str | None,
    title: str | None,
    version: str | None,
    description: str | None,
    author: str | None,
    registry: str | None,
    pypi: str | None,
    download: str | None,
    remote: str | None,
) -> None:
    """Pack a server as an .mcpb bundle, which hosts can install.

    TARGET is a file with a server (server.py, or server.py:name). The bundle contains all files of its project except
    those in .gitignore or .mcpbignore, hidden files, tests, keys, and, without --large, files above 5 MB.
    """
    named = found(target)
    file = Path(named.module.__file__ or "").resolve()
    project = project_of(file)
    asked = [
        *(_setting(each, is_secret=True) for each in secrets),
        *(_setting(each, is_secret=False) for each in settings),
    ]
    lists = asyncio.run(_lists(named))
    info = named.server.engine.declared.identity(LATEST).info
    told = Described(
        name=re.sub(r"[^a-z0-9._-]+", "-", (name or project.name or str(info["name"])).lower()).strip("-"),
        title=title or str(info.get("title") or info["name"]),
        version=version or project.version or str(info["version"]),
        description=description
        or project.description
        or _first_line(named)
        or f"The MCP server {info['name']}",
        author=author or project.author or _user(),
        email=None if author else project.email,
        license=project.license,
        python=project.python,
        keywords=project.keywords,
        urls=project.urls,
        tools=lists.tools,
        prompts=lists.prompts,
        has_more=not lists.is_complete,
    )
    check_version(told.version)
    content = _content(project, named, file, told, is_vendored=vendor, takes_large=takes_large)
    is_compiled = vendor and any(each.endswith((".so", ".pyd", ".dylib", ".dll")) for each in content)
    if registry:  # what it would refuse is told before anything is written
        _detail(told, registry, asked, "0" * 64, pypi, download, remote)
    elif pypi or download or remote:
        raise click.UsageError(
            "--pypi, --download and --remote need --registry. Add --registry NAMESPACE/NAME"
        )
    content["manifest.json"] = _json(manifest(told, asked, is_vendored=vendor, is_compiled=is_compiled))
    path = out or Path(f"{told.name}-{told.version}.mcpb")
    digest = write_archive(path.absolute(), content)
    print(f"{path}  {_size(path.stat().st_size)}, {len(content)} files")
    print(f"sha256  {digest}")
    if registry:
        detail = _detail(told, registry, asked, digest, pypi, download, remote)
        Path("server.json").write_bytes(_json(detail))
        print("server.json")


def _content(
    project: Project, named: Found, file: Path, told: Described, *, is_vendored: bool, takes_large: bool
) -> dict[str, bytes | Path]:
    """Return the files of a bundle, without its manifest."""
    module = named.module.__name__
    depth = module.count(".") + (file.name == "__init__.py")
    root = file.parents[depth]
    if module.startswith("_") or not all(part.isidentifier() for part in module.split(".")):
        raise CommandError(
            f"{file.name} cannot be imported, as this is not a module name. Rename it, for example to server.py"
        )
    folder = project.folder.resolve()
    files = ProjectFiles(folder, takes_large=takes_large)
    content: dict[str, bytes | Path] = {path.as_posix(): folder / path for path in files.paths}
    if file.relative_to(folder).as_posix() not in content:
        raise CommandError(
            f"the server's file {file.relative_to(folder)} is excluded by .gitignore or .mcpbignore. Remove that rule"
        )
    if taken := content.keys() & {"manifest.json", LAUNCHER}:
        raise CommandError(
            f"{folder} contains {min(taken)}, a file that mcpkit writes to the bundle. Add it to .mcpbignore"
        )
    _warn(project, file, root, files, is_vendored=is_vendored)
    folders = [root.relative_to(folder).as_posix()]
    if is_vendored:
        folders.append(LIBRARIES)
        for distribution in vendored.needed(project.dependencies):
            content |= {f"{LIBRARIES}/{each.name}": each.path for each in vendored.files_of(distribution)}
    elif not project.has_pyproject:
        content["pyproject.toml"] = _pyproject(project, told)
    content[LAUNCHER] = _launcher(named, folders).encode()
    return content


def _launcher(named: Found, folders: Sequence[str]) -> str:
    """Return the program that starts the server of a bundle."""
    first, dot, inner = named.name.partition(
        "."
    )  # of an object in another, only the outer one can be imported
    server = f"server{dot}{inner}" + ("()" if named.factory else "")
    made = "" if server == "server" else f"\nserver = {server}"
    if named.is_awaited:
        made = f"\nimport asyncio  # noqa: E402\n\nserver = asyncio.run({server})"
    return _LAUNCHER.format(folders=list(folders), module=named.module.__name__, name=first, made=made)


def _warn(project: Project, file: Path, root: Path, files: ProjectFiles, *, is_vendored: bool) -> None:
    """Warn of what works here, and not for those who install the bundle."""
    folder = project.folder.resolve()
    for path in files.large:
        size = _size(path.stat().st_size)
        write_stderr(
            f"mcpkit: {path.relative_to(folder)} ({size}) is not included. Add --large, or !{path.name} in .mcpbignore"
        )
    place = "pyproject.toml" if project.has_pyproject else f"the script metadata of {file.name}"
    for each in undeclared(file, root, [folder / path for path in files.paths], project.dependencies):
        where = f"{each.file.relative_to(folder)}:{each.line}"
        write_stderr(
            f"mcpkit: {where} imports {each.module}, which no declared dependency provides. Add "
            f"{each.distribution or 'its distribution'} to the dependencies in {place}"
        )
    local = [] if is_vendored else [each for each in project.dependencies if re.search(r"@\s*file:", each)]
    for dependency in local:
        write_stderr(
            f"mcpkit: {dependency} exists only on this machine. Add --vendor to include it, or use a public source"
        )


def _pyproject(project: Project, told: Described) -> bytes:
    text = _PYPROJECT.format(
        name=json.dumps(told.name),
        version=json.dumps(told.version),
        python=json.dumps(project.python or ">=3.10"),
        dependencies=json.dumps(list(project.dependencies)),
    )
    return text.encode()


async def _lists(named: Found) -> Lists:
    """Return what a server has; where it does not start here, for want of a key say, nothing, and a remark is made."""
    try:
        async with Client(named.server) as client:
            capabilities = client.server_capabilities
            tools = await client.list_tools() if "tools" in capabilities else []
            prompts = await client.list_prompts() if "prompts" in capabilities else []
            return Lists(tools, prompts, is_complete=True)
    except Exception as error:  # noqa: BLE001 - whatever the author's code raises: the bundle is good without
        print(
            f"mcpkit: the manifest lists no tools or prompts, because the server did not start: {error}",
            file=sys.stderr,
        )
        return Lists([], [], is_complete=False)


def _setting(text: str, *, is_secret: bool) -> Setting:
    name, has_default, default = text.partition("=")
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise click.UsageError(
            f"{name!r} is not a valid name of an environment variable. Use letters, digits and _"
        )
    if is_secret and has_default:
        raise click.UsageError(
            f"--secret cannot have a default, which the bundle would reveal. Write --secret {name}"
        )
    return Setting(name, default if has_default else None, is_secret)


def _detail(
    told: Described,
    registry: str,
    settings: Sequence[Setting],
    digest: str,
    pypi: str | None,
    download: str | None,
    remote: str | None,
) -> Json:
    variables = [
        {
            "name": each.variable,
            "isRequired": each.default is None,
            "isSecret": each.is_secret,
            "default": each.default,
        }
        for each in settings
    ] or None
    packages: list[Mapping[str, object]] = []
    if pypi:
        packages.append(
            {"registryType": "pypi", "identifier": pypi, "version": told.version, "runtimeHint": "uvx"}
        )
    if download:
        packages.append({"registryType": "mcpb", "identifier": download, "fileSha256": digest})
    source = next((told.urls[key] for key in ("repository", "source", "github") if key in told.urls), None)
    host = re.match(r"https://(github|gitlab)\.com/", source or "")
    return server_json(
        name=registry,
        title=told.title,
        description=told.description,
        version=told.version,
        websiteUrl=told.urls.get("homepage"),
        repository={"url": source, "source": host[1]} if host else None,
        packages=[{**package, "environmentVariables": variables} for package in packages] or None,
        remotes=[{"url": remote}] if remote else None,
    )


def _first_line(named: Found) -> str | None:
    instructions = named.server.engine.declared.instructions
    return instructions.strip().splitlines()[0] if instructions and instructions.strip() else None


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # of a container without users
        return "unknown"


def _json(value: Json) -> bytes:
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()


def _size(count: int) -> str:
    return f"{count / 1_000_000:.1f} MB" if count >= 1_000_000 else f"{count / 1_000:.1f} kB"
