"""Rewriting of imports, as the last step: those of mcpkit replace those of version 1, and unused ones are removed."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from .blocks import Block, lines_above, without
from .file import File
from .names import RENAMED
from .nodes import OutsideImports, dotted, module_of, names_of, path_of, text_of

_WIDTH = 88
_PARTS = {
    "serve_stdio": "mcpkit.transports.stdio",
    **dict.fromkeys(("ElicitationResult", "Root", "SamplingResult"), "mcpkit.elicitation"),
}
_OWN = ("mcp.", "mcpkit")


def with_imports(before: cst.Module, module: cst.Module, file: File) -> cst.Module:
    """Return a rewritten module with the imports that it needs.

    Args:
        before: The module of version 1.
        module: The rewritten module with the old imports.
        file: Facts about the file.
    """
    used = used_names(module)
    needed = {file.name(native): native for native in sorted(file.native) if file.name(native) in used}
    blocks = _Blocks(file, needed, gone=used_names(before) - used, used=used)
    rewritten = module.visit(blocks)
    assert isinstance(rewritten, cst.Module)
    return _with_modules(rewritten, sorted(file.modules & used - _bound(rewritten)))


def used_names(module: cst.Module) -> set[str]:
    """Return the names that are used outside of imports, including those in quoted annotations and `__all__`."""
    found = _Used()
    module.visit(found)
    return found.names


class _Used(OutsideImports):
    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def visit_Attribute(self, node: cst.Attribute) -> bool:
        node.value.visit(self)
        return False

    def visit_Arg(self, node: cst.Arg) -> bool:
        node.value.visit(self)
        return False

    def visit_Name(self, node: cst.Name) -> None:
        self.names.add(node.value)

    def visit_SimpleString(self, node: cst.SimpleString) -> None:
        text = text_of(node)
        if text is not None and len(text) < 100 and " " not in text.replace(" | ", "|").replace(", ", ","):
            self.names.update(
                "".join(each if each.isalnum() or each == "_" else " " for each in text).split()
            )


class _Blocks(cst.CSTTransformer):
    """Rewrites the imports of each block, those of the module last.

    Args:
        file: Facts about the file.
        needed: Native names to import: names in the file, and in mcpkit.
        gone: Names that are no longer used.
        used: Names that are used.
    """

    def __init__(self, file: File, needed: dict[str, str], *, gone: set[str], used: set[str]) -> None:
        super().__init__()
        self._file = file
        self._needed = needed
        self._gone = gone
        self._used = used
        self._is_bound: set[str] = set()

    def leave_IndentedBlock(
        self, original_node: cst.IndentedBlock, updated_node: cst.IndentedBlock
    ) -> cst.IndentedBlock:
        block = self._rewritten(updated_node, {})
        assert isinstance(block, cst.IndentedBlock), "the block stays an IndentedBlock"
        return block

    def leave_Module(self, original_node: cst.Module, updated_node: cst.Module) -> cst.Module:
        missing = {name: native for name, native in self._needed.items() if name not in self._is_bound}
        module = self._rewritten(updated_node, missing)
        assert isinstance(module, cst.Module), "the result is a Module"
        return module

    def _rewritten(self, block: Block, missing: dict[str, str]) -> Block:
        gone: list[cst.CSTNode] = []
        body: list[cst.BaseStatement] = []
        natives: dict[str, str] = dict(missing)
        place: int | None = None
        for statement in block.body:
            assert isinstance(statement, cst.BaseStatement)
            imported = _imported(statement)
            if imported is None or isinstance(imported.names, cst.ImportStar):
                body.append(statement)
                continue
            found = self._natives(imported)
            natives |= found
            kept = [each for each in imported.names if self._stays(imported, each)]
            if (found or module_of(imported) == "mcpkit") and place is None:
                place = len(body)
            if len(kept) == len(imported.names):
                body.append(statement)
                continue
            if not kept:
                gone.append(statement)
                body.append(statement)
                continue
            kept[-1] = kept[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
            body.append(statement.with_changes(body=[imported.with_changes(names=kept)]))
        self._is_bound |= natives.keys()
        if not natives:
            return without(block.with_changes(body=body), gone)
        return self._with_natives(block.with_changes(body=body), natives, place, gone)

    def _with_natives(
        self, block: Block, natives: dict[str, str], place: int | None, gone: list[cst.CSTNode]
    ) -> Block:
        body = list(block.body)
        for module in sorted({_PARTS.get(native, "mcpkit") for native in natives.values()}):
            names = {
                name: native for name, native in natives.items() if _PARTS.get(native, "mcpkit") == module
            }
            at = _end_of_imports(body) if place is None else place
            there = body[at] if place is not None and at < len(body) else None
            present = _imported(there) if there is not None else None
            if present is not None and module_of(present) == "mcpkit" == module:
                names |= names_of(present)
            if there is not None and module == "mcpkit":
                lines = lines_above(there)
                made = _statement(module, names).with_changes(leading_lines=lines)
                if any(there is each for each in gone) or module_of(present) == "mcpkit":
                    gone[:] = [each for each in gone if each is not there]
                    body[at] = made
                else:
                    body[at] = made
                    body.insert(at + 1, there.with_changes(leading_lines=()))
            else:
                at = at + 1 if there is not None else at
                made = _statement(module, names)
                if at == 0 and body:  # there is no import yet
                    lines = lines_above(body[0])
                    body[0] = body[0].with_changes(leading_lines=lines or [cst.EmptyLine()])
                body.insert(at, made)
        return without(block.with_changes(body=body), gone)

    def _natives(self, node: cst.Import | cst.ImportFrom) -> dict[str, str]:
        """Return the native names of an import of version 1 that the file still uses."""
        found: dict[str, str] = {}
        if isinstance(node, cst.ImportFrom) and not isinstance(node.names, cst.ImportStar):
            for alias in node.names:
                native = RENAMED.get(f"{module_of(node)}.{path_of(alias.name)}")
                if native is not None and native in self._needed.values():
                    found[self._file.name(native)] = native
        return found

    def _stays(self, node: cst.Import | cst.ImportFrom, alias: cst.ImportAlias) -> bool:
        name = path_of(alias.asname.name) if alias.asname else path_of(alias.name)
        first = (name or "").partition(".")[0]
        module = module_of(node) if isinstance(node, cst.ImportFrom) else path_of(alias.name) or ""
        if module == "__future__":
            return True
        if isinstance(node, cst.ImportFrom) and f"{module}.{path_of(alias.name)}" in RENAMED:
            return False
        if f"{module}.".startswith("mcp."):
            return first in self._used
        return first not in self._gone


def _imported(node: cst.CSTNode | None) -> cst.Import | cst.ImportFrom | None:
    if isinstance(node, cst.SimpleStatementLine) and len(node.body) == 1:
        only = node.body[0]
        if isinstance(only, cst.Import | cst.ImportFrom):
            return only
    return None


def _statement(module: str, names: dict[str, str]) -> cst.SimpleStatementLine:
    order = sorted(names.items(), key=lambda item: (not item[1].isupper(), item[1][:1].islower(), item[1]))
    written = [native if name == native else f"{native} as {name}" for name, native in order]
    line = f"from {module} import {', '.join(written)}"
    if len(line) > _WIDTH:
        line = f"from {module} import (\n" + "".join(f"    {each},\n" for each in written) + ")"
    statement = cst.parse_statement(line)
    assert isinstance(statement, cst.SimpleStatementLine)
    return statement


def _bound(module: cst.Module) -> set[str]:
    found: set[str] = set()
    for each in module.body:
        imported = _imported(each)
        if imported is not None and not isinstance(imported.names, cst.ImportStar):
            found |= {name.partition(".")[0] for name in names_of(imported)}
    return found


def _end_of_imports(body: Sequence[cst.CSTNode]) -> int:
    """Return the position for an import of a package: after the others, and before those of the same package."""
    end = 0
    for index, each in enumerate(body):
        imported = _imported(each)
        if isinstance(imported, cst.ImportFrom) and imported.relative:
            return index
        if imported is not None or (index == 0 and _is_docstring(each)):
            end = index + 1
    return end


def _is_docstring(node: cst.CSTNode) -> bool:
    only = node.body[0] if isinstance(node, cst.SimpleStatementLine) else None
    return isinstance(only, cst.Expr) and isinstance(only.value, cst.SimpleString | cst.ConcatenatedString)


def _with_modules(module: cst.Module, names: Sequence[str]) -> cst.Module:
    body = list(module.body)
    for name in names:
        made = cst.SimpleStatementLine([cst.Import([cst.ImportAlias(dotted(name))])])
        at = _place_of(body, name)
        if at < len(body) and _imported(body[at]) is not None:
            made = made.with_changes(leading_lines=lines_above(body[at]))
            body[at] = body[at].with_changes(leading_lines=())
        body.insert(at, made)
    return module.with_changes(body=body)


def _place_of(body: Sequence[cst.CSTNode], name: str) -> int:
    """Return the position for `import name`: among those of its kind by name, or before all."""
    first: int | None = None
    after = 0
    for index, each in enumerate(body):
        imported = _imported(each)
        if imported is None or module_of(imported) == "__future__":
            after = index + 1 if _is_docstring(each) or imported is not None else after
            if first is not None:
                break
            continue
        is_package = module_of(imported).startswith(_OWN)
        if isinstance(imported, cst.Import) and name not in {"uvicorn"}:
            first = index if first is None else first
            if (path_of(imported.names[0].name) or "") > name:
                return index
            after = index + 1
        elif is_package:
            return index if name == "uvicorn" or first is None else after
        elif first is None and name != "uvicorn":
            return index
    return after
