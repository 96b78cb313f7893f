"""`python -m mcpkit.compat`: runs a server that was written for `mcp`, on mcpkit.

    python -m mcpkit.compat server.py [ARGUMENTS]          as `python server.py` does
    python -m mcpkit.compat -m package.server [ARGUMENTS]  as `python -m package.server` does
    python -m mcpkit.compat mcp-server-time [ARGUMENTS]    as the command of that name of an installed package does
    python -m mcpkit.compat server.py:weather              serves this object over stdio; also MODULE:OBJECT

A name that is neither a file nor a command is a module. A script that ends without having run its server is served as
`mcp run` does it: over stdio, its object called `mcp`, `server` or `app`.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Mapping
from importlib import import_module
from importlib.machinery import SourceFileLoader
from importlib.util import find_spec
from pathlib import Path
from types import CoroutineType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any, NoReturn

from ..transports.standard_streams import divert_standard_output
from .import_hook import install_hook

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

NAMES = ("mcp", "server", "app")


def main(arguments: list[str]) -> None:
    """Run the target of a command line, with the further words as its own arguments.

    If a host may have started it by a pipe, its prints go to standard error from the first line on.
    """
    if not arguments or arguments[0] in {"-h", "--help"}:
        print((__doc__ or "").strip(), file=sys.stdout if arguments else sys.stderr)
        raise SystemExit(0 if arguments else 2)
    try:
        install_hook(is_own_process=True)
    except RuntimeError as error:
        _fail(str(error))
    is_module = arguments[0] == "-m"
    if is_module and len(arguments) == 1:
        _fail("-m needs the name of a module")
    target, *rest = arguments[is_module:]
    with divert_standard_output():
        _run(target, rest, is_module=is_module)


def _run(target: str, rest: list[str], *, is_module: bool) -> None:
    path, _, name = target.rpartition(":")
    if not name.isidentifier() or len(path) < 2:  # no object, or a drive letter before it
        path, name = target, ""
    if not is_module and Path(path).is_file():
        sys.argv = [path, *rest]
        sys.path.insert(0, str(Path(path).resolve().parent))
        found = vars(_script(Path(path)))
    elif not is_module and not name and (command := _command(target)):
        sys.argv = [target, *rest]
        sys.path.insert(0, str(Path(sys.executable).parent))
        raise SystemExit(command.load()())
    else:
        sys.path.insert(0, str(Path.cwd()))  # where `python -m` finds modules
        if path.endswith(".py") or not _is_module(path, is_run=not name):
            kinds = "module" if is_module else "file, a command of an installed package or a module"
            _fail(f"{path!r} is not a {kinds}")
        sys.argv = [path, *rest]
        found = (
            vars(import_module(path)) if name else runpy.run_module(path, run_name="__main__", alter_sys=True)
        )
    _serve(found, path, name)


def _script(path: Path) -> ModuleType:
    """Run the file as `__main__`, and return the module."""
    loader = SourceFileLoader("__main__", str(path))
    module = ModuleType("__main__")
    vars(module).update(__file__=str(path), __loader__=loader, __cached__=None)
    sys.modules["__main__"] = module
    exec(loader.source_to_code(loader.get_data(str(path)), str(path)), vars(module))  # as python itself would
    return module


def _command(name: str) -> EntryPoint | None:
    """Return the console script of an installed package with this name."""
    from importlib.metadata import entry_points  # a tenth of a start, which a file does without

    return next(iter(entry_points(group="console_scripts", name=name)), None)


def _is_module(name: str, *, is_run: bool) -> bool:
    """Return True if the module exists, and can be run if `is_run`; its parent packages are imported."""
    if not all(part.isidentifier() for part in name.split(".")):
        return False
    try:
        spec = find_spec(name)
    except ModuleNotFoundError:  # of a package around it
        return False
    is_package = spec is not None and spec.submodule_search_locations is not None
    return spec is not None and not (
        is_run and is_package and not _is_module(f"{name}.__main__", is_run=False)
    )


def _serve(found: Mapping[str, object], path: str, name: str) -> None:
    """Serve the object with this name over stdio; without a name, the first default object that was not served yet."""
    for value in map(found.get, [name] if name else NAMES):
        # A function is called, as `fastmcp run FILE:FUNCTION` does.
        server: Any = value() if name and isinstance(value, FunctionType) else value
        if isinstance(server, CoroutineType):
            server = import_module("asyncio").run(server)
        engine = getattr(server, "_mcp_server", None)
        if engine is not None and isinstance(run := getattr(server, "run", None), MethodType):
            if "served" not in vars(engine):
                run()
            return
    if name:
        _fail(f"{path!r} has no FastMCP object {name!r}")


def _fail(text: str) -> NoReturn:
    print(f"python -m mcpkit.compat: {text}", file=sys.stderr)
    raise SystemExit(2)


if __name__ == "__main__":
    main(sys.argv[1:])
