"""The project of a server: its metadata in `pyproject.toml` or in the script, and its files."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.metadata import Distribution, PackageNotFoundError, distribution, packages_distributions
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from ..content.blocks import described
from ..protocol.jsonrpc import Json, is_array, is_object
from .exit_status import CommandError, Status
from .script_metadata import read_script_metadata
from .server_loader import projects_of

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec


class Project(NamedTuple):
    """Metadata of a project.

    Attributes:
        folder: The folder.
        has_pyproject: Whether it has a `pyproject.toml`.
        name: The name, or None.
        version: The version, or None.
        description: The description in one line, or None.
        author: The name of the first author, or None.
        email: The address of the author, or None.
        license: The license, or None.
        python: The versions of Python, or None.
        dependencies: The requirements (PEP 508).
        keywords: The keywords.
        urls: The URLs by name in lower case.
    """

    folder: Path
    has_pyproject: bool
    name: str | None = None
    version: str | None = None
    description: str | None = None
    author: str | None = None
    email: str | None = None
    license: str | None = None
    python: str | None = None
    dependencies: Sequence[str] = ()
    keywords: Sequence[str] = ()
    urls: Mapping[str, str] = MappingProxyType({})


def project_of(file: Path) -> Project:
    """Return the project of a file: of the nearest `pyproject.toml` with metadata, or of its `# /// script` block.

    Raises:
        CommandError: The metadata is invalid.
    """
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    parent = file.absolute().parent
    for folder in projects_of(parent):
        path = folder / "pyproject.toml"
        try:
            metadata: object = tomlkit.parse(path.read_text(encoding="utf-8")).unwrap().get("project")
        except TOMLKitError as error:
            raise CommandError(f"{path} is not valid TOML: {error}") from None
        if is_object(metadata):
            return _project(folder, metadata)
    script = read_script_metadata(file)
    if script is None:
        return Project(parent, has_pyproject=False, dependencies=["mcpkit"])
    return Project(parent, has_pyproject=False, python=script.python, dependencies=script.dependencies)


def _project(folder: Path, metadata: Json) -> Project:
    authors: object = metadata.get("authors")
    author: Json = next(filter(is_object, authors), Json()) if is_array(authors) else {}
    license_: object = metadata.get("license")
    if is_object(license_):  # the format before SPDX expressions
        license_ = _string(license_, "text")
    urls = metadata.get("urls")
    return Project(
        folder,
        has_pyproject=True,
        name=_string(metadata, "name"),
        version=_string(metadata, "version"),
        description=_string(metadata, "description"),
        author=_string(author, "name"),
        email=_string(author, "email"),
        license=license_ if isinstance(license_, str) else None,
        python=_string(metadata, "requires-python"),
        dependencies=_strings(metadata, "dependencies"),
        keywords=_strings(metadata, "keywords"),
        urls={key.casefold(): str(url) for key, url in urls.items()} if is_object(urls) else {},
    )


def _string(metadata: Json, key: str) -> str | None:
    value = metadata.get(key)
    if value is not None and not isinstance(value, str):
        raise CommandError(f"{key} in [project] must be a string, got {described(value)}")
    return value


def _strings(metadata: Json, key: str) -> Sequence[str]:
    value: object = metadata.get(key, [])
    if not is_array(value) or not all(isinstance(each, str) for each in value):
        raise CommandError(f"{key} in [project] must be a list of strings, got {described(value)}")
    return list(map(str, value))


# Files

IGNORED: Final = (
    ".*", "!.mcpbignore", "__pycache__/", "*.py[cod]", "*.egg-info/", "/build/", "/dist/", "/site/", "node_modules/",
    "venv/", "env/", "*.mcpb", "*.pem", "*.key", "*.log", "/tests/", "/test/", "*.bak", "/server.json",
)  # fmt: skip
"""Files that never belong in a bundle, and secrets, as `.gitignore` patterns."""

MAX_FILE_SIZE: Final = 5_000_000
"""Maximum size of a file in bytes without `--large`."""

_MAX_FILES: Final = 20_000


class _IgnoreRules(NamedTuple):
    """Patterns for the paths in a folder."""

    folder: Path
    patterns: GitIgnoreSpec


class ProjectFiles:
    """The files of a project for a bundle.

    `IGNORED`, each `.gitignore` of the repository and `.mcpbignore` exclude files, in this order, inner folders after
    outer ones. A pattern with `!` includes files again that an earlier pattern excludes.

    Args:
        folder: The folder of the project.
        includes_large: Whether files above `MAX_FILE_SIZE` are included.

    Attributes:
        paths: The files, relative to the folder, sorted.
        large: Files that are excluded because of their size.

    Raises:
        CommandError: The folder has too many files for a project.
    """

    def __init__(self, folder: Path, *, includes_large: bool = False) -> None:
        self._includes_large = includes_large
        self._mcpbignore = _ignore_rules(folder, ".mcpbignore")
        self.paths: list[Path] = []
        self.large: list[Path] = []
        folders = (folder, *folder.parents)
        repository = next((index for index, each in enumerate(folders) if (each / ".git").exists()), 0)
        outer = [rules for each in reversed(folders[1 : repository + 1]) for rules in _ignore_rules(each)]
        # A project that the repository ignores as a whole is packed anyway.
        outer = [rules for rules in outer if not _is_ignored(folder, [rules])]
        for path in self._walk(folder, [_parse_rules(folder, IGNORED), *outer]):
            if len(self.paths) == _MAX_FILES:
                raise CommandError(
                    f"{folder} has more than {_MAX_FILES:,} files. Move the server to its own folder, or exclude files "
                    "in .mcpbignore"
                )
            self.paths.append(path.relative_to(folder))

    def _walk(self, folder: Path, rules: Sequence[_IgnoreRules]) -> Iterator[Path]:
        rules = [*rules, *_ignore_rules(folder)]
        for path in sorted(folder.iterdir()):
            is_ignored = _is_ignored(path, [*rules, *self._mcpbignore])
            if is_ignored:
                continue
            if path.is_dir():
                is_loop = path.is_symlink() and folder.resolve().is_relative_to(path.resolve())
                if not is_loop:
                    yield from self._walk(path, rules)
            elif path.is_file():
                # A pattern with `!` also includes a large file.
                is_included = self._includes_large or is_ignored is False
                if is_included or path.stat().st_size <= MAX_FILE_SIZE:
                    yield path
                else:
                    self.large.append(path)


def _ignore_rules(folder: Path, name: str = ".gitignore") -> list[_IgnoreRules]:
    file = folder / name
    return [_parse_rules(folder, file.read_text(encoding="utf-8").splitlines())] if file.is_file() else []


def _parse_rules(folder: Path, lines: Sequence[str]) -> _IgnoreRules:
    from pathspec import GitIgnoreSpec

    # To Git `src/**` is everything in src, and not src itself, which pathspec would exclude with it.
    patterns = (line[:-1] if line.endswith("/**") else line for line in map(str.rstrip, lines))
    return _IgnoreRules(folder, GitIgnoreSpec.from_lines(patterns))


def _is_ignored(path: Path, rules: Sequence[_IgnoreRules]) -> bool | None:
    """Return whether the last rule for a path excludes it; None if there is none."""
    for each in reversed(rules):
        name = path.relative_to(each.folder).as_posix() + ("/" if path.is_dir() else "")
        if (is_ignored := each.patterns.check_file(name).include) is not None:
            return is_ignored
    return None


# Installed distributions to vendor


def installed_distributions(requirements: Iterable[str]) -> list[Distribution]:
    """Return the installed distributions that meet requirements, with all their dependencies.

    Args:
        requirements: The requirements (PEP 508).

    Raises:
        CommandError: A requirement is invalid or not installed, or another version of it is.
    """
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.utils import canonicalize_name

    found: dict[str, Distribution] = {}
    done: set[tuple[str, frozenset[str]]] = set()
    pending = [(text, frozenset({""}), "the server") for text in requirements]
    while pending:
        text, extras, dependent = pending.pop()
        try:
            required = Requirement(text)
        except InvalidRequirement as error:
            raise CommandError(
                f"{dependent} requires {text!r}, which is not a valid requirement: {error}"
            ) from None
        marker = required.marker
        if marker is not None and not any(marker.evaluate({"extra": extra}) for extra in extras):
            continue
        name = canonicalize_name(required.name)
        own_extras = frozenset({"", *required.extras})
        if (name, own_extras) in done:
            continue
        done.add((name, own_extras))
        try:
            installed = found.setdefault(name, distribution(required.name))
        except PackageNotFoundError:
            raise CommandError(
                f"{dependent} requires {required}, which is not installed. Install it and try again",
                Status.NO_SUCH_THING,
            ) from None
        if not required.specifier.contains(installed.version, prereleases=True):
            raise CommandError(
                f"{dependent} requires {required}, but {installed.version} is installed. Install a matching version"
            )
        pending += [(each, own_extras, name) for each in installed.requires or ()]
    return [found[name] for name in sorted(found)]


def files_of_distribution(installed: Distribution) -> Iterator[tuple[str, Path]]:
    """Yield the name, with slashes, and the path of each module and metadata file of a distribution."""
    top_names = set[str]()
    for file in installed.files or ():
        path = Path(str(installed.locate_file(file)))
        name = file.as_posix()
        if name.endswith((".pyc", ".pth")) or name.startswith(("../", "__editable__")) or not path.is_file():
            continue
        top_names.add(name.partition("/")[0])
        yield name, path
    if all(name.endswith((".dist-info", ".egg-info")) for name in top_names):
        yield from _editable_files(installed)


def _editable_files(installed: Distribution) -> Iterator[tuple[str, Path]]:
    name = installed.metadata["Name"].replace("-", "_")
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        raise CommandError(
            f"the modules of the editable distribution {name} cannot be found. Install it without --editable"
        )
    if spec.submodule_search_locations is None:
        yield Path(spec.origin).name, Path(spec.origin)
        return
    folder = Path(spec.origin).parent
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield f"{name}/{path.relative_to(folder).as_posix()}", path


# Imports that no dependency provides


class UndeclaredImport(NamedTuple):
    """An import that no declared dependency provides.

    Attributes:
        file: The file.
        line: The line.
        module: The top-level module.
        distribution: The installed distribution that provides it; None if there is none.
    """

    file: Path
    line: int
    module: str
    distribution: str | None


def undeclared_imports(
    entry: Path, root: Path, files: Sequence[Path], dependencies: Sequence[str]
) -> list[UndeclaredImport]:
    """Return the imports of a server, and of the files that it imports, that no declared dependency provides.

    Imports for type checkers, and those in a `try` with `except`, are optional.

    Args:
        entry: The file with the server.
        root: The folder from which the modules of the project are imported.
        files: The files of the bundle.
        dependencies: The declared requirements.
    """
    from packaging.utils import canonicalize_name

    modules = {_module_name(file.relative_to(root)): file for file in files if file.is_relative_to(root)}
    own = {"__main__", *(name.partition(".")[0] for name in modules)}
    provided, is_complete = _provided_distributions(tuple(dependencies))
    distributions = _distributions_by_module()
    found: dict[str, UndeclaredImport] = {}
    for file, line, module in _imports(entry, root, modules):
        if module in own or module in sys.stdlib_module_names or module in found:
            continue
        providers = [canonicalize_name(each) for each in distributions.get(module, [])]
        if canonicalize_name(module) in provided or provided.intersection(providers):
            continue
        # A dependency that is not installed here may provide a module that is not found.
        if providers or is_complete or find_spec(module) is not None:
            found[module] = UndeclaredImport(file, line, module, providers[0] if providers else None)
    return list(found.values())


_distributions_by_module = cache(packages_distributions)
"""Distributions by module; reading all of them takes half a second."""


@cache
def _provided_distributions(dependencies: tuple[str, ...]) -> tuple[frozenset[str], bool]:
    """Return the distributions that requirements install, and whether all of them are known here."""
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.utils import canonicalize_name

    names: set[str] = set()
    is_complete = True
    for text in dependencies:
        try:
            names.add(canonicalize_name(Requirement(text).name))
            names.update(canonicalize_name(each.metadata["Name"]) for each in installed_distributions([text]))
        except (InvalidRequirement, CommandError):
            is_complete = False
    return frozenset(names), is_complete


def _module_name(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imports(entry: Path, root: Path, modules: Mapping[str, Path]) -> Iterator[tuple[Path, int, str]]:
    """Yield file, line and top-level module of each import in a file, and in the files of the project it imports."""
    pending, known = [entry], {entry}
    while pending:
        file = pending.pop(0)
        package = _module_name(file.relative_to(root)).split(".")
        if file.name != "__init__.py":
            package.pop()
        try:
            body = ast.parse(file.read_bytes(), str(file)).body
        except SyntaxError:  # a file that may never be imported
            continue
        for node in _import_statements(body):
            for name in _imported_names(node, package):
                yield file, node.lineno, name.partition(".")[0]
                parts = name.split(".")
                inner = (modules.get(".".join(parts[:length])) for length in range(1, len(parts) + 1))
                new = {each for each in inner if each is not None} - known
                known |= new
                pending += sorted(new)


def _imported_names(node: ast.Import | ast.ImportFrom, package: Sequence[str]) -> list[str]:
    """Return the full names that a statement imports."""
    if isinstance(node, ast.Import):
        return [each.name for each in node.names]
    base = [*package[: len(package) - node.level + 1], node.module] if node.level else [node.module]
    prefix = ".".join(filter(None, base))
    return [f"{prefix}.{each.name}" if prefix else each.name for each in node.names]


def _import_statements(body: Sequence[ast.AST]) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield the imports that have to succeed, also in functions and classes."""
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.Try) and node.handlers:
            yield from _import_statements([*node.orelse, *node.finalbody])
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from _import_statements(node.orelse)
        else:
            yield from _import_statements(list(ast.iter_child_nodes(node)))
