"""Servers that a file imports from others: `from .app import mcp`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import libcst as cst

from .names import SERVER_CLASSES
from .nodes import module_of, names_of, path_of

_NATIVE = "mcpkit.Server"
_DEPTH = 4


class Project:
    """Finds servers in the files that a file imports, without running them.

    Files are read once, so that those rewritten meanwhile are known in their previous form.
    """

    def __init__(self) -> None:
        self._modules: dict[Path, cst.Module] = {}

    def servers_in(self, file: Path) -> dict[str, bool]:
        """Return the servers that a file imports, by the names that it imports, and whether each is native."""
        module = self._module(file)
        if module is None:
            return {}
        found: dict[str, bool] = {}
        for imported in _imports(module):
            if isinstance(imported.names, cst.ImportStar):
                continue
            dots = "." * len(imported.relative)
            name = module_of(imported, relative=True)
            for known_as in names_of(imported).values():
                is_native = self._server(file, imported, known_as, _DEPTH)
                if is_native is not None:
                    found[f"{dots}{name}.{known_as}" if name else f"{dots}{known_as}"] = is_native
        return found

    def _server(self, file: Path, imported: cst.ImportFrom, name: str, depth: int) -> bool | None:
        """Return True if an imported name is a native server, False for one of version 1, None if it is no server."""
        for place in _places(file, len(imported.relative), module_of(imported, relative=True)):
            module = self._module(place)
            if module is not None:
                return self._defined(place, module, name, depth)
        return None

    def _defined(self, file: Path, module: cst.Module, name: str, depth: int) -> bool | None:
        classes = {
            known_as: native
            for imported in _imports(module)
            if not isinstance(imported.names, cst.ImportStar)
            for known_as, what in names_of(imported).items()
            if (native := _is_native(f"{module_of(imported)}.{what}")) is not None
        }
        for each in module.body:
            bases = (
                [path_of(base.value) or "" for base in each.bases] if isinstance(each, cst.ClassDef) else []
            )
            if isinstance(each, cst.ClassDef) and (
                known := [classes[base] for base in bases if base in classes]
            ):
                classes[each.name.value] = known[0]
        makers = {
            each.name.value: classes[path_of(each.returns.annotation) or ""]
            for each in module.body
            if isinstance(each, cst.FunctionDef)
            and each.returns is not None
            and path_of(each.returns.annotation) in classes
        }
        for line in module.body:
            for small in line.body if isinstance(line, cst.SimpleStatementLine) else ():
                if isinstance(small, cst.Assign):
                    targets = [path_of(target.target) for target in small.targets]
                elif isinstance(small, cst.AnnAssign):
                    targets = [path_of(small.target)]
                else:
                    continue
                if name in targets and isinstance(small.value, cst.Call):
                    made_by = path_of(small.value.func) or ""
                    return {**classes, **makers}.get(made_by)
        for imported in _imports(module) if depth else ():
            if not isinstance(imported.names, cst.ImportStar) and name in names_of(imported):
                return self._server(file, imported, names_of(imported)[name], depth - 1)
        return None

    def module(self, file: Path) -> cst.Module:
        """Return a file in its first form.

        Raises:
            OSError: The file cannot be read.
            ValueError: The file is not Python, or not in its declared encoding; the text contains the place.
        """
        found = self._modules.get(file)
        if found is None:
            source = file.read_bytes()
            try:
                found = self._modules[file] = cst.parse_module(source)
            except cst.ParserSyntaxError as error:
                problem = error.message.splitlines()[0]
                raise ValueError(f"line {error.raw_line}: invalid Python syntax: {problem}") from error
            except (UnicodeDecodeError, LookupError, SyntaxError) as error:
                raise ValueError(f"cannot decode the file: {error}") from error
        return found

    def _module(self, file: Path) -> cst.Module | None:
        try:
            return self.module(file) if file.is_file() else None
        except (OSError, ValueError):
            return None


def _is_native(name: str) -> bool | None:
    if name in SERVER_CLASSES:
        return False
    return True if name == _NATIVE else None


def _imports(module: cst.Module) -> Iterator[cst.ImportFrom]:
    for line in module.body:
        for each in line.body if isinstance(line, cst.SimpleStatementLine) else ():
            if isinstance(each, cst.ImportFrom):
                yield each


def _places(file: Path, dots: int, module: str) -> Iterator[Path]:
    """Yield the files that an import may refer to, in order."""
    parts = module.split(".") if module else []
    folder = file.parent
    if dots:
        for _ in range(dots - 1):
            folder = folder.parent
        roots = [folder]
    else:
        roots = [folder, *folder.parents][:_DEPTH]
    for root in roots:
        place = root.joinpath(*parts)
        if parts:
            yield place.with_suffix(".py")
        yield place / "__init__.py"
