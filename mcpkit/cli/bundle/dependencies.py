"""Dependencies of a server: installed distributions to vendor, and imports that no dependency provides."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.metadata import Distribution, PackageNotFoundError, distribution, packages_distributions
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from ..exit_status import CommandError, Status


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


def files_of(installed: Distribution) -> Iterator[tuple[str, Path]]:
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
