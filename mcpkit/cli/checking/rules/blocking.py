"""Functions that block the event loop: `async def`, and a call in it that waits."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from ..finding import Found, Looked, rule

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
        f"requests.{verb}": "httpx.AsyncClient"
        for verb in ("delete", "get", "head", "patch", "post", "put", "request")
    },
    **{
        f"httpx.{verb}": "httpx.AsyncClient"
        for verb in ("delete", "get", "head", "patch", "post", "put", "request", "stream")
    },
}
"""Calls that wait, by their whole names, and what to call instead."""

_READS: Final = ("read", "readlines", "readline", "write", "writelines")


@rule("blocks-the-loop", "error")
def blocks(looked: Looked) -> Iterator[Found]:
    """An `async def` function makes a blocking call, such as `time.sleep`, which stops all other requests."""
    for path in looked.sources:
        try:
            tree = ast.parse(path.read_bytes(), str(path))
        except (OSError, SyntaxError, ValueError):
            continue  # whoever starts the server hears of it
        names = _imported(tree)
        for function in ast.walk(tree):
            if isinstance(function, ast.AsyncFunctionDef):
                for call, instead in _waiting(function, names):
                    yield Found(
                        f"{path.name}:{call.lineno} {function.name}",
                        f"{ast.unparse(call.func)} blocks the event loop, so the server cannot handle other requests",
                        f"use await {instead}, or declare the function with `def`, which runs in a thread",
                    )


def _imported(tree: ast.Module) -> dict[str, str]:
    """Return what names of a module stand for, with dots."""
    names = {"input": "input"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for each in node.names:
                names[each.asname or each.name.partition(".")[0]] = (
                    each.name if each.asname else each.name.partition(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names |= {each.asname or each.name: f"{node.module}.{each.name}" for each in node.names}
    return names


def _waiting(function: ast.AsyncFunctionDef, names: dict[str, str]) -> Iterator[tuple[ast.Call, str]]:
    """Yield calls of a function itself that wait, and what to call instead."""
    waiting: list[ast.AST] = [*function.body]
    opened: set[str] = set()
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            continue  # they are called elsewhere, such as in a thread
        if isinstance(node, ast.With):
            opened |= {
                item.optional_vars.id
                for item in node.items
                if _is_open(item.context_expr) and isinstance(item.optional_vars, ast.Name)
            }
        if isinstance(node, ast.Call):
            instead = _BLOCKING.get(_whole(node.func, names))
            if instead is None and isinstance(node.func, ast.Attribute) and node.func.attr in _READS:
                of = node.func.value
                if _is_open(of) or (isinstance(of, ast.Name) and of.id in opened):
                    instead = "asyncio.to_thread"
            if instead is not None:
                yield node, instead
        waiting += ast.iter_child_nodes(node)


def _is_open(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "open"


def _whole(node: ast.AST, names: dict[str, str]) -> str:
    """Return what is called, as `module.function`; an empty text for what is no name."""
    if isinstance(node, ast.Name):
        return names.get(node.id, "")
    if isinstance(node, ast.Attribute):
        before = _whole(node.value, names)
        return f"{before}.{node.attr}" if before else ""
    return ""
