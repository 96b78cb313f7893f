"""What the package is made of, read from its code and never run: modules, who imports whom, who reaches into whom.

Modules are named by their files below the package, such as `protocol/jsonrpc.py`. Every import counts: for type
checkers alone (`TYPE_CHECKING`), inside functions, and by `import_module` with a name that is written out.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[2]
PACKAGE: Final = ROOT / "mcpkit"

Trees = Mapping[str, ast.Module]
"""The code of each module."""

Graph = Mapping[str, Collection[str]]
"""What each module imports, or each room."""


class Reach(NamedTuple):
    """A use of what another module keeps to itself."""

    module: str
    line: int
    name: str

    def __str__(self) -> str:
        """Say where, as editors open it."""
        return f"{self.module}:{self.line}: {self.name}"


def read(package: Path) -> dict[str, ast.Module]:
    """Return the code of all modules below a folder."""
    return {
        path.relative_to(package).as_posix(): ast.parse(path.read_text("utf-8"))
        for path in sorted(package.rglob("*.py"))
    }


def imports(trees: Trees, package: str) -> dict[str, set[str]]:
    """Return the modules of the package that each of its modules imports.

    An import of a name from a folder (`from .protocol import jsonrpc`) is one of the module of that name if there is
    one, else one of the folder's `__init__.py`.

    Args:
        trees: The code.
        package: The name of the package.
    """
    by_name = {_dotted(module, package): module for module in trees}
    graph: dict[str, set[str]] = {}
    for module, tree in trees.items():
        names = _imported(tree, _dotted(module, package), is_folder=module.endswith("__init__.py"))
        found = {by_name.get(name) or by_name.get(name.rpartition(".")[0]) for name in names}
        graph[module] = {each for each in found if each is not None and each != module}
    return graph


def _dotted(module: str, package: str) -> str:
    return ".".join([package, *module.removesuffix(".py").split("/")]).removesuffix(".__init__")


def _imported(tree: ast.Module, importer: str, *, is_folder: bool) -> Iterator[str]:
    """Yield the dotted names that are imported: a module, or a name in one."""
    here = importer.split(".") if is_folder else importer.split(".")[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = here[: len(here) - node.level + 1] if node.level else []
            source = ".".join([*above, *([node.module] if node.module else [])])
            yield from (f"{source}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and _name_of(node.func) == "import_module" and node.args:
            name = node.args[0]
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                yield name.value


def _name_of(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def circles(graph: Graph) -> list[list[str]]:
    """Return the sets of modules in which each imports each, over others or not: the largest first."""
    after = {module: reachable(graph, module) for module in graph}
    found = {
        tuple(sorted(other for other in after[module] if module in after[other]))
        for module in graph
        if module in after[module]
    }
    return sorted(map(list, found), key=lambda circle: (-len(circle), circle))


def reachable(graph: Graph, start: str) -> set[str]:
    """Return all that something imports, over others or not."""
    found: set[str] = set()
    waiting = list(graph.get(start, ()))
    while waiting:
        module = waiting.pop()
        if module not in found:
            found.add(module)
            waiting += graph.get(module, ())
    return found


def reaches(trees: Trees, package: str) -> list[Reach]:
    """Return the uses of private names of other modules: attributes `x._y`, and `from .x import _y`.

    A private name is a module's own if the module defines it, as a function, class, variable or slot; objects of its
    own classes may use it then. What an object does with itself (`self`, `cls`, `super()`) is its own affair.
    """
    found: list[Reach] = []
    for module, tree in trees.items():
        own = _defined(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and _is_private(node.attr):
                if node.attr not in own and not _is_itself(node.value):
                    found.append(Reach(module, node.lineno, ast.unparse(node)))
            elif isinstance(node, ast.ImportFrom) and (
                node.level or (node.module or "").split(".")[0] == package
            ):
                names = [alias.name for alias in node.names if _is_private(alias.name)]
                found += [Reach(module, node.lineno, name) for name in names]
    return sorted(found)


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def _is_itself(value: ast.expr) -> bool:
    if isinstance(value, ast.Call):
        return isinstance(value.func, ast.Name) and value.func.id == "super"
    return isinstance(value, ast.Name) and value.id in {"self", "cls"}


def _defined(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and _is_itself(node.value):
            names.add(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and _is_private(node.value):
            names.add(node.value)
    return names


def entries(package: Path) -> list[str]:
    """Return the modules and the folders of modules at the root of the package."""
    return sorted(
        path.name + "/" * path.is_dir()
        for path in package.iterdir()
        if path.suffix == ".py" or any(path.rglob("*.py"))
    )


def uses(trees: Trees, *names: str) -> list[int]:
    """Return how often each name is used, be it as `Any` or as `typing.Any`; its import is no use."""
    nodes = (node for tree in trees.values() for node in ast.walk(tree))
    found = Counter(_name_of(node) for node in nodes if isinstance(node, ast.Name | ast.Attribute))
    return [found[name] for name in names]
