"""`mcpkit bundle`: packs a server as an .mcpb bundle, and writes `server.json` for the MCP registry."""

from __future__ import annotations

import asyncio
import getpass
import json
import os
import re
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Final
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import click
from click import argument, option

from ..client.client import Client
from ..protocol.jsonrpc import Json
from ..protocol.revisions import LATEST
from .bundle_contents import (
    Project,
    ProjectFiles,
    files_of_distribution,
    installed_distributions,
    project_of,
    undeclared_imports,
)
from .bundle_manifests import (
    LAUNCHER,
    LIBRARIES,
    BundleInfo,
    UserSetting,
    check_version,
    create_manifest,
    create_server_json,
)
from .console import write_stderr
from .exit_status import CommandError
from .hosts.install_records import hash_of, read_bytes, replace_file
from .server_loader import LoadedServer, load_server

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

_ZIP_DATE: Final = (1980, 1, 1, 0, 0, 0)
"""The earliest date that a zip archive can store."""


@click.command("bundle", epilog="Example: mcpkit bundle server.py --secret API_KEY")
@argument("target")
@option("-o", "--out", type=click.Path(path_type=Path), help="Output file (default: NAME-VERSION.mcpb).")
@option(
    "--vendor",
    is_flag=True,
    help="Include the installed dependencies in the bundle. Without it, uv installs them.",
)
@option("--large", "includes_large", is_flag=True, help="Also include files above 5 MB.")
@option(
    "--secret",
    "secrets",
    multiple=True,
    metavar="NAME",
    help="Secret environment variable that the user sets.",
)
@option(
    "--setting",
    "settings",
    multiple=True,
    metavar="NAME[=DEFAULT]",
    help="Environment variable that the user sets.",
)
@option("--name", help="Name (default: of the project or the server).")
@option("--title", help="Display name (default: the server's title or name).")
@option("--version", help="Version (default: of the project or the server).")
@option("--description", help="Description in one line.")
@option("--author", help="Name of the author.")
@option("--registry", metavar="NAMESPACE/NAME", help="Also write server.json for the MCP registry.")
@option("--pypi", metavar="NAME", help="For server.json: name of the package on PyPI.")
@option("--download", metavar="URL", help="For server.json: URL where users download the bundle.")
@option("--remote", metavar="URL", help="For server.json: URL where the server runs over HTTP.")
def command(
    target: str,
    out: Path | None,
    vendor: bool,
    includes_large: bool,
    secrets: Sequence[str],
    settings: Sequence[str],
    registry: str | None,
    pypi: str | None,
    download: str | None,
    remote: str | None,
    **texts: str | None,
) -> None:
    """Pack a server as an .mcpb bundle, which hosts can install.

    TARGET is a file with a server (server.py, or server.py:name). The bundle contains all files of its project except
    those in .gitignore or .mcpbignore, hidden files, tests, keys, and, without --large, files above 5 MB.
    """
    loaded = load_server(target)
    file = Path(loaded.module.__file__ or "").resolve()
    project = project_of(file)
    user_settings = [_user_setting(each, is_secret=True) for each in secrets]
    user_settings += [_user_setting(each, is_secret=False) for each in settings]
    info = _describe(loaded, project, **texts)
    check_version(info.version)
    content = _content(info, loaded, file, is_vendored=vendor, includes_large=includes_large)
    if registry is None and (pypi or download or remote):
        raise click.UsageError(
            "--pypi, --download and --remote need --registry. Add --registry NAMESPACE/NAME"
        )

    detail: Json = {}
    if registry is not None:  # raises before anything is written
        detail = create_server_json(
            info, user_settings, name=registry, pypi=pypi, download=download, remote=remote
        )
    is_compiled = vendor and any(each.endswith((".so", ".pyd", ".dylib", ".dll")) for each in content)
    manifest = create_manifest(info, user_settings, is_vendored=vendor, is_compiled=is_compiled)
    content["manifest.json"] = _json(manifest)
    path = out or Path(f"{info.name}-{info.version}.mcpb")
    archive = _archive(content)
    digest = hash_of(archive)
    replace_file(path, read_bytes(path), archive, is_shared=True)
    print(f"{path}  {_size(len(archive))}, {len(content)} files")
    print(f"sha256  {digest}")
    if registry is not None:
        for package in detail.get("packages", ()):
            if "fileSha256" in package:
                package["fileSha256"] = digest
        Path("server.json").write_bytes(_json(detail))
        print("server.json")


def _user_setting(text: str, *, is_secret: bool) -> UserSetting:
    name, has_default, default = text.partition("=")
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise click.UsageError(
            f"{name!r} is not a valid name of an environment variable. Use letters, digits and _"
        )
    if is_secret and has_default:
        raise click.UsageError(
            f"--secret cannot have a default, which the bundle would reveal. Write --secret {name}"
        )
    return UserSetting(name, default if has_default else None, is_secret)


def _describe(loaded: LoadedServer, project: Project, **texts: str | None) -> BundleInfo:
    """Return the description of a server: from the options of that name, its project or itself."""
    declared = loaded.server.engine.declared
    server_info = declared.identity(LATEST).info
    instructions = (declared.instructions or "").strip().splitlines()
    description = texts["description"] or project.description or (instructions[0] if instructions else None)
    name = texts["name"] or project.name or str(server_info["name"])
    lists = asyncio.run(_list_tools_and_prompts(loaded))
    return BundleInfo(
        name=re.sub(r"[^a-z0-9._-]+", "-", name.lower()).strip("-"),
        title=texts["title"] or str(server_info.get("title") or server_info["name"]),
        version=texts["version"] or project.version or str(server_info["version"]),
        description=description or f"The MCP server {server_info['name']}",
        author=texts["author"] or project.author or _user_name(),
        email=None if texts["author"] else project.email,
        project=project,
        tools=[] if lists is None else lists[0],
        prompts=[] if lists is None else lists[1],
        is_complete=lists is not None,
    )


def _user_name() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # in a container without users
        return "unknown"


async def _list_tools_and_prompts(
    loaded: LoadedServer,
) -> tuple[Sequence[Mapping[str, object]], Sequence[Mapping[str, object]]] | None:
    """Return the tools and prompts of a server; None if it does not start here, for example without its keys."""
    try:
        async with Client(loaded.server) as client:
            capabilities = client.server_capabilities
            tools = await client.list_tools() if "tools" in capabilities else []
            prompts = await client.list_prompts() if "prompts" in capabilities else []
            return tools, prompts
    except Exception as error:  # noqa: BLE001 - the code of the author may raise anything, and the bundle works without
        write_stderr(
            f"mcpkit: the manifest lists no tools or prompts, because the server did not start: {error}"
        )
        return None


# Content


def _content(
    info: BundleInfo, loaded: LoadedServer, file: Path, *, is_vendored: bool, includes_large: bool
) -> dict[str, bytes | Path]:
    """Return the files of a bundle by name, without its manifest."""
    project, module = info.project, loaded.module.__name__
    root = file.parents[module.count(".") + (file.name == "__init__.py")]
    if module.startswith("_") or not all(part.isidentifier() for part in module.split(".")):
        raise CommandError(
            f"{file.name} cannot be imported, as this is not a module name. Rename it, for example to server.py"
        )
    folder = project.folder.resolve()
    files = ProjectFiles(folder, includes_large=includes_large)
    content: dict[str, bytes | Path] = {path.as_posix(): folder / path for path in files.paths}
    if file.relative_to(folder).as_posix() not in content:
        raise CommandError(
            f"the server's file {file.relative_to(folder)} is excluded by .gitignore or .mcpbignore. Remove that rule"
        )
    if reserved := content.keys() & {"manifest.json", LAUNCHER}:
        raise CommandError(
            f"{folder} contains {min(reserved)}, a file that mcpkit writes to the bundle. Add it to .mcpbignore"
        )
    _print_warnings(project, file, root, files, is_vendored=is_vendored)
    folders = [root.relative_to(folder).as_posix()]
    if is_vendored:
        folders.append(LIBRARIES)
        for distribution in installed_distributions(project.dependencies):
            content |= {f"{LIBRARIES}/{name}": path for name, path in files_of_distribution(distribution)}
    elif not project.has_pyproject:
        pyproject = _PYPROJECT.format(
            name=json.dumps(info.name),
            version=json.dumps(info.version),
            python=json.dumps(project.python or ">=3.10"),
            dependencies=json.dumps(list(project.dependencies)),
        )
        content["pyproject.toml"] = pyproject.encode()
    content[LAUNCHER] = _launcher(loaded, folders).encode()
    return content


def _launcher(loaded: LoadedServer, folders: Sequence[str]) -> str:
    """Return the program that starts the server of a bundle."""
    # Of an object in another object, only the outer one can be imported.
    first, dot, inner = loaded.name.partition(".")
    server = f"server{dot}{inner}" + ("()" if loaded.factory else "")
    made = "" if server == "server" else f"\nserver = {server}"
    if loaded.is_async:
        made = f"\nimport asyncio  # noqa: E402\n\nserver = asyncio.run({server})"
    return _LAUNCHER.format(folders=list(folders), module=loaded.module.__name__, name=first, made=made)


def _print_warnings(
    project: Project, file: Path, root: Path, files: ProjectFiles, *, is_vendored: bool
) -> None:
    """Warn of files and dependencies that work here, but are missing in the bundle."""
    folder = project.folder.resolve()
    for path in files.large:
        size = _size(path.stat().st_size)
        write_stderr(
            f"mcpkit: {path.relative_to(folder)} ({size}) is not included. Add --large, or !{path.name} in .mcpbignore"
        )
    place = "pyproject.toml" if project.has_pyproject else f"the script metadata of {file.name}"
    packed = [folder / path for path in files.paths]
    for each in undeclared_imports(file, root, packed, project.dependencies):
        write_stderr(
            f"mcpkit: {each.file.relative_to(folder)}:{each.line} imports {each.module}, which no declared dependency "
            f"provides. Add {each.distribution or 'its distribution'} to the dependencies in {place}"
        )
    for dependency in () if is_vendored else project.dependencies:
        if re.search(r"@\s*file:", dependency):
            write_stderr(
                f"mcpkit: {dependency} exists only on this machine. Add --vendor to include it, or use a public source"
            )


def _json(value: Json) -> bytes:
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()


def _size(count: int) -> str:
    return f"{count / 1_000_000:.1f} MB" if count >= 1_000_000 else f"{count / 1_000:.1f} kB"


def _archive(content: Mapping[str, bytes | Path]) -> bytes:
    """Return a zip archive, which has the same bytes for the same content.

    Args:
        content: Bytes, or the file with them, by names with slashes.
    """
    stream = BytesIO()
    with ZipFile(stream, "w", ZIP_DEFLATED, compresslevel=9) as archive:
        for each in sorted(content):
            source = content[each]
            entry = ZipInfo(each, _ZIP_DATE)
            entry.compress_type = ZIP_DEFLATED
            is_program = isinstance(source, Path) and os.access(source, os.X_OK)
            entry.external_attr = (0o100755 if is_program else 0o100644) << 16
            archive.writestr(entry, source.read_bytes() if isinstance(source, Path) else source)
    return stream.getvalue()
