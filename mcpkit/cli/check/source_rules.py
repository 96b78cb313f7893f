"""Rule for the source code of a server: blocking calls in `async def` functions; and the files to read."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ..server_loader import import_root, parse_server_location
from .rule_form_and_host_limits import CheckInputs, Problem, rule

_MAX_FILES: Final = 200


def sources_of(target: str) -> list[Path]:
    """Return the source file of a server and its own modules that it imports; empty for a URL or a command.

    Args:
        target: `FILE.py`, `FILE.py:OBJECT`, or `MODULE:OBJECT` in the working directory.
    """
    try:
        place = parse_server_location(target)
    except FileNotFoundError:  # a command that ends with a file
        return []
    if place is None:
        return []
    if place.path is None:
        root = Path.cwd()
        waiting = list(_files(root, place.module.split(".")))
    else:
        root, waiting = import_root(place.path.parent), [place.path]
    found = dict.fromkeys(waiting)
    while waiting and len(found) < _MAX_FILES:
        path = waiting.pop(0)
        for each in _imported_files(path, root):
            if each not in found:
                found[each] = None
                waiting.append(each)
    return list(found)


def _imported_files(path: Path, root: Path) -> Iterator[Path]:
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for each in node.names:
                yield from _files(root, each.name.split("."))
        elif isinstance(node, ast.ImportFrom):
            folder = path.parents[node.level - 1] if 0 < node.level <= len(path.parents) else root
            parts = node.module.split(".") if node.module else []
            yield from _files(folder, parts)
            for each in node.names:
                yield from _files(folder, [*parts, each.name])


def _files(folder: Path, parts: list[str]) -> Iterator[Path]:
    """Yield the file of a module if it is below a folder."""
    if parts:
        module = folder.joinpath(*parts)
        for path in (module.with_suffix(".py"), module / "__init__.py"):
            if path.is_file():
                yield path


_BLOCKING: Final = {
    "time.sleep": "asyncio.sleep",
    "subprocess.run": "asyncio.create_subprocess_exec",
    "subprocess.call": "asyncio.create_subprocess_exec",
    "subprocess.check_call": "asyncio.create_subprocess_exec",
    "subprocess.check_output": "asyncio.create_subprocess_exec",
    "os.system": "asyncio.create_subprocess_shell",
    "os.popen": "asyncio.create_subprocess_shell",
    "urllib.request.urlopen": "httpx.AsyncClient",
    "socket.create_connection": "asyncio.open_connection",
    "sqlite3.connect": "asyncio.to_thread",
    "psycopg2.connect": "psycopg.AsyncConnection",
    "shutil.copyfile": "asyncio.to_thread",
    "shutil.copytree": "asyncio.to_thread",
    "shutil.rmtree": "asyncio.to_thread",
    "input": "ctx.elicit",
    **{
        f"{library}.{verb}": "httpx.AsyncClient"
        for library in ("requests", "httpx")
        for verb in ("delete", "get", "head", "patch", "post", "put", "request", "stream")
    },
}
"""Blocking calls by their full names, and their replacements."""

_READS: Final = ("read", "readlines", "readline", "write", "writelines")


@rule("blocks-the-loop", "error")
def blocking_call(inputs: CheckInputs) -> Iterator[Problem]:
    """An `async def` function makes a blocking call, such as `time.sleep`, which stops all other requests."""
    for path in inputs.sources:
        try:
            tree = ast.parse(path.read_bytes(), str(path))
        except (OSError, SyntaxError, ValueError):
            continue  # starting the server reports the error
        names = _imported_names(tree)
        for function in ast.walk(tree):
            if isinstance(function, ast.AsyncFunctionDef):
                for call, instead in _blocking_calls(function, names):
                    yield Problem(
                        f"{path.name}:{call.lineno} {function.name}",
                        f"{ast.unparse(call.func)} blocks the event loop, so the server cannot handle other requests",
                        f"use await {instead}, or declare the function with `def`, which runs in a thread",
                    )


def _imported_names(tree: ast.Module) -> dict[str, str]:
    """Return the full names of imported objects, by their local names."""
    names = {"input": "input"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for each in node.names:
                package = each.name.partition(".")[0]
                names[each.asname or package] = each.name if each.asname else package
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names |= {each.asname or each.name: f"{node.module}.{each.name}" for each in node.names}
    return names


def _blocking_calls(function: ast.AsyncFunctionDef, names: dict[str, str]) -> Iterator[tuple[ast.Call, str]]:
    """Yield blocking calls in a function, without nested functions, and their replacements."""
    waiting: list[ast.AST] = [*function.body]
    open_files: set[str] = set()
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            continue  # they are called elsewhere, such as in a thread
        if isinstance(node, ast.With):
            open_files |= {
                item.optional_vars.id
                for item in node.items
                if _is_open(item.context_expr) and isinstance(item.optional_vars, ast.Name)
            }
        if isinstance(node, ast.Call):
            instead = _BLOCKING.get(_full_name(node.func, names))
            if instead is None and isinstance(node.func, ast.Attribute) and node.func.attr in _READS:
                of = node.func.value
                if _is_open(of) or (isinstance(of, ast.Name) and of.id in open_files):
                    instead = "asyncio.to_thread"
            if instead is not None:
                yield node, instead
        waiting += ast.iter_child_nodes(node)


def _is_open(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "open"


def _full_name(node: ast.AST, names: dict[str, str]) -> str:
    """Return the full name of a called function, as `module.function`; empty for another expression."""
    if isinstance(node, ast.Name):
        return names.get(node.id, "")
    if isinstance(node, ast.Attribute):
        before = _full_name(node.value, names)
        return f"{before}.{node.attr}" if before else ""
    return ""
