"""Imports of a server that no declared dependency brings: they work here, and not for those who install its bundle."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.metadata import packages_distributions
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from ..exit_status import CommandError
from .vendored import needed


class UndeclaredImport(NamedTuple):
    """An import that no declared dependency brings.

    Attributes:
        file: The file that has it.
        line: Its line.
        module: The module, without what is in it.
        distribution: The installed distribution that brings it; None if there is none.
    """

    file: Path
    line: int
    module: str
    distribution: str | None


def undeclared(
    entry: Path, root: Path, files: Sequence[Path], dependencies: Sequence[str]
) -> list[UndeclaredImport]:
    """Return the imports of a server, and of the files that it imports, that no declared dependency brings.

    Imports for type checkers, and those whose failure is handled, are optional.

    Args:
        entry: The file with the server.
        root: The folder from which the modules of the project are imported.
        files: The files of the bundle.
        dependencies: The declared requirements.
    """
    from packaging.utils import canonicalize_name

    modules = {_name_of(file.relative_to(root)): file for file in files if file.is_relative_to(root)}
    own = {"__main__", *(name.partition(".")[0] for name in modules)}
    brought, is_complete = _brought(tuple(dependencies))
    distributions = _distributions()
    found: dict[str, UndeclaredImport] = {}
    for file, line, module in _imports(entry, root, modules):
        if module in own or module in sys.stdlib_module_names or module in found:
            continue
        named = [canonicalize_name(each) for each in distributions.get(module, [])]
        if canonicalize_name(module) in brought or brought.intersection(named):
            continue
        if (
            not named and not is_complete and find_spec(module) is None
        ):  # a dependency that is not here may bring it
            continue
        found[module] = UndeclaredImport(file, line, module, named[0] if named else None)
    return list(found.values())


_distributions = cache(packages_distributions)
"""Distributions by the modules that they provide; reading all of them takes half a second."""


@cache
def _brought(dependencies: tuple[str, ...]) -> tuple[frozenset[str], bool]:
    """Return the distributions that requirements bring, and whether all of them are known here."""
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.utils import canonicalize_name

    names: set[str] = set()
    is_complete = True
    for text in dependencies:
        try:
            names.add(canonicalize_name(Requirement(text).name))
            names.update(canonicalize_name(each.metadata["Name"]) for each in needed([text]))
        except (InvalidRequirement, CommandError):
            is_complete = False
    return frozenset(names), is_complete


def _name_of(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imports(entry: Path, root: Path, modules: Mapping[str, Path]) -> Iterator[tuple[Path, int, str]]:
    """Yield file, line and top-level module of each import in a file, and in the files of the project it imports."""
    waiting, seen = [entry], {entry}
    while waiting:
        file = waiting.pop(0)
        package = _name_of(file.relative_to(root)).split(".")
        if file.name != "__init__.py":
            package.pop()
        try:
            body = ast.parse(file.read_bytes(), str(file)).body
        except SyntaxError:  # of a file that is imported on occasion
            continue
        for node in _statements(body):
            for name in _names(node, package):
                yield file, node.lineno, name.partition(".")[0]
                parts = name.split(".")
                inner = (modules.get(".".join(parts[:length])) for length in range(1, len(parts) + 1))
                new = {each for each in inner if each is not None} - seen
                seen |= new
                waiting += sorted(new)


def _names(node: ast.Import | ast.ImportFrom, package: Sequence[str]) -> list[str]:
    """Return the whole names that a statement imports, or takes from a module."""
    if isinstance(node, ast.Import):
        return [each.name for each in node.names]
    base = [*package[: len(package) - node.level + 1], node.module] if node.level else [node.module]
    start = ".".join(filter(None, base))
    return [f"{start}.{each.name}" if start else each.name for each in node.names]


def _statements(body: Sequence[ast.AST]) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield the imports in statements that have to succeed, in functions and classes too."""
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.Try) and node.handlers:
            yield from _statements([*node.orelse, *node.finalbody])
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from _statements(node.orelse)
        else:
            yield from _statements(list(ast.iter_child_nodes(node)))
