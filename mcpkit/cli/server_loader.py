"""Import of the server of an author: `FILE.py`, `FILE.py:OBJECT` or `MODULE:OBJECT`."""

from __future__ import annotations

import asyncio
import inspect
import sys
import traceback
from collections.abc import Awaitable, Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Final, NamedTuple, TypeGuard

from .._utils.option_checks import nearest
from ..client.targets.infer_target import existing
from ..content.blocks import described
from .exit_status import CommandError, Status

if TYPE_CHECKING:
    from ..server import Server  # imported late, since commands that call servers do without it

_STANDARD_LIBRARY: Final = str(Path(traceback.__file__).parent)
_INSTALLED: Final = frozenset({"site-packages", "dist-packages"})


# Location of a server


class ServerLocation(NamedTuple):
    """Location of a server object.

    Attributes:
        path: The file; None for a module.
        module: The name of the module.
        name: The name of the object in it, which may have dots; None for the only server.
    """

    path: Path | None
    module: str
    name: str | None


def parse_server_location(word: str) -> ServerLocation | None:
    """Parse `FILE.py`, `FILE.py:OBJECT` or `MODULE:OBJECT`; return None for other words.

    Raises:
        FileNotFoundError: The file does not exist.
    """
    path, colon, name = word.rpartition(":")
    if not (colon and path and _is_dotted(name)) or len(path) == 1:  # C:\server.py has no object
        path, name = word, ""
    if path.casefold().endswith(".py"):
        file = existing(Path(path).expanduser()).absolute()
        parts = file.relative_to(import_root(file.parent)).with_suffix("").parts
        module = ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)
        return ServerLocation(file, module, name or None)
    if name and _is_dotted(path):
        return ServerLocation(None, path, name)
    return None


def _is_dotted(text: str) -> bool:
    return all(part.isidentifier() for part in text.split("."))


def projects_of(folder: Path) -> Iterator[Path]:
    """Yield a folder and those above it that have a `pyproject.toml`, the nearest first.

    Args:
        folder: The folder, as an absolute path.
    """
    return (each for each in (folder, *folder.parents) if (each / "pyproject.toml").is_file())


def import_root(folder: Path) -> Path:
    """Return the folder from which the modules of a folder are imported: above the packages that it is in."""
    while (folder / "__init__.py").is_file():
        folder = folder.parent
    return folder


def project_folder(word: str) -> Path:
    """Return the folder of the project of a server: with `pyproject.toml`, or else of the file.

    Args:
        word: The TARGET of a command; the folder is the current one if it is not a Python file.
    """
    try:
        location = parse_server_location(word)
    except FileNotFoundError:  # a command that ends with a file
        location = None
    if location is None or location.path is None:
        return Path.cwd()
    folder = location.path.resolve().parent
    return next(projects_of(folder), import_root(folder))


# Import


class LoadedServer(NamedTuple):
    """An imported server.

    Attributes:
        server: The server.
        name: The name of the object in its module.
        module: The module.
        factory: The function with that name that returned the server; None if the object is the server.
        is_async: Whether the function is `async`.
    """

    server: Server
    name: str
    module: ModuleType
    factory: Callable[[], object] | None = None
    is_async: bool = False


class NoServerError(CommandError):
    """A module has no mcpkit server.

    Args:
        module: The module, which has been imported.
        word: Its name on the command line.
    """

    def __init__(self, module: ModuleType, word: str) -> None:
        super().__init__(f"{word} has no mcpkit Server", Status.NO_SUCH_THING)
        self.module = module


def load_server(word: str, *, calls_unnamed: bool = True) -> LoadedServer:
    """Import a server, or call the function that returns it.

    Args:
        word: `FILE.py` for its only server, or its only function that is annotated to return one; `FILE.py:OBJECT`;
            or `MODULE:OBJECT`, imported from the current folder. OBJECT is a server, or a function, `async` or not,
            that returns one.
        calls_unnamed: Whether a function is called that the word does not name.

    Raises:
        NoServerError: The file has no server, and no such function.
        CommandError: There is no such server, or the code raises; the message has the next step.
        FileNotFoundError: The file does not exist.
    """
    location = parse_server_location(word)
    if location is None:
        raise CommandError(f"the server must be FILE.py, FILE.py:OBJECT or MODULE:OBJECT, got {word!r}")
    module = _import(location)
    if location.name:
        return _named_server(module, location.name, word)
    servers = _servers_in(module)
    factories = _factories_in(module) if calls_unnamed and not servers else {}
    names = [*servers, *factories]
    if not names:
        raise NoServerError(module, word)
    if len(names) > 1:
        choices = " or ".join(f"{word}:{name}" for name in names)
        raise CommandError(f"{word} has {len(names)} servers. Write {choices}", Status.NO_SUCH_THING)
    [name] = names
    return (
        _call_factory(factories[name], name, module)
        if factories
        else LoadedServer(servers[name], name, module)
    )


def _import(location: ServerLocation) -> ModuleType:
    """Import the module of a server; its root folder goes first on `sys.path`."""
    path, module = location.path, location.module
    folder = str(Path.cwd() if path is None else import_root(path.parent))
    if folder not in sys.path:
        sys.path.insert(0, folder)
    known = sys.modules.get(module)
    is_free = _is_dotted(module) and (known is None or getattr(known, "__file__", None) == str(path))
    with errors_of_author():
        try:
            if path is None or is_free:
                return import_module(module)
        except ModuleNotFoundError as error:
            if path is None and error.name is not None and f"{module}.".startswith(f"{error.name}."):
                raise CommandError(
                    f"no module named {error.name} in {folder} or on sys.path. Check its name, or run the command in "
                    "its folder",
                    Status.NO_SUCH_THING,
                ) from None
            raise
        # The name of the file is not a module name, or another module has it, so the module gets a name of its own.
        name = "".join(letter if letter.isidentifier() or letter.isdigit() else "_" for letter in path.stem)
        spec = spec_from_file_location(f"_{name}", path)
        assert spec is not None
        assert spec.loader is not None, "the name of the file ends with .py"
        loaded = module_from_spec(spec)
        sys.modules[spec.name] = loaded
        spec.loader.exec_module(loaded)
        return loaded


def _named_server(module: ModuleType, name: str, word: str) -> LoadedServer:
    value: object = module
    names = list(_servers_in(module))
    hint = f", and module {module.__name__} has no Server"
    if names:
        hint = f"; did you mean {word.rpartition(':')[0]}:{nearest(name, names) or names[0]}?"
    for part in name.split("."):
        try:
            value = getattr(value, part)
        except AttributeError:
            raise CommandError(
                f"module {module.__name__} has no {name}{hint}", Status.NO_SUCH_THING
            ) from None
    if inspect.isroutine(value):
        return _call_factory(value, name, module)
    if not _is_server(value):
        raise CommandError(
            f"{word} is not a Server but of type {type(value).__name__}{hint}", Status.NO_SUCH_THING
        )
    return LoadedServer(value, name, module)


def _servers_in(module: ModuleType) -> dict[str, Server]:
    """Return the servers of a module by the first of their names."""
    servers: dict[str, Server] = {}
    for name, value in vars(module).items():
        if _is_server(value) and not any(value is other for other in servers.values()):
            servers[name] = value
    return servers


def _is_server(value: object) -> TypeGuard[Server]:
    from ..server import Server

    return isinstance(value, Server)


def _factories_in(module: ModuleType) -> dict[str, Callable[..., object]]:
    """Return the functions of a module that are annotated to return a server and can be called without arguments."""
    from ..server import Server

    factories: dict[str, Callable[..., object]] = {}
    for name, value in vars(module).items():
        if inspect.isfunction(value) and value.__module__ == module.__name__ and _needs_no_arguments(value):
            with suppress(Exception):  # annotations may have names that are imported for type checkers only
                returned: object = inspect.get_annotations(value, eval_str=True).get("return")
                if isinstance(returned, type) and issubclass(returned, Server):
                    factories[name] = value
    return factories


def _call_factory(factory: Callable[..., object], name: str, module: ModuleType) -> LoadedServer:
    """Call a function that returns a server, `async` or not.

    Raises:
        CommandError: It needs arguments, raises, or returns something else.
    """
    place = f"{module.__file__}: {name}()"
    if not _needs_no_arguments(factory):
        raise CommandError(
            f"{place} has parameters without defaults. Name a function that can be called without arguments",
            Status.NO_SUCH_THING,
        )
    with errors_of_author():
        value = factory()
        is_async = inspect.isawaitable(value)
        if inspect.isawaitable(value):
            with ThreadPoolExecutor(1) as thread:  # a worker of uvicorn calls this inside its event loop
                value = thread.submit(asyncio.run, _result(value)).result()
    if not _is_server(value):
        raise CommandError(f"{place} must return a Server, got {described(value)}", Status.NO_SUCH_THING)
    return LoadedServer(value, name, module, factory, is_async)


async def _result(value: Awaitable[object]) -> object:
    return await value


def _needs_no_arguments(function: Callable[..., object]) -> bool:
    try:
        inspect.signature(function).bind()
    except (TypeError, ValueError):
        return False
    return True


# Code of the author


@contextmanager
def errors_of_author() -> Generator[None]:
    """Context in which an error of the author's code becomes a `CommandError` with file, line and error."""
    try:
        yield
    except CommandError:
        raise
    except Exception as error:
        raise CommandError(_with_location(error)) from error


def _with_location(error: Exception) -> str:
    """Return the message of an error, with the innermost file and line of the author's code."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}: SyntaxError: {error.msg}"
    mcpkit = str(Path(__file__).parents[1])
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(("<", mcpkit, _STANDARD_LIBRARY))
    ]
    own = [frame for frame in frames if not _INSTALLED.intersection(Path(frame.filename).parts)]
    location = next((f"{frame.filename}:{frame.lineno}: " for frame in reversed(own or frames)), "")
    return f"{location}{type(error).__name__}: {error}"


@contextmanager
def program_arguments(program: str, arguments: Sequence[str]) -> Generator[None]:
    """Context in which `sys.argv` has the arguments of the author's program."""
    before, sys.argv = sys.argv, [program, *arguments]
    try:
        yield
    finally:
        sys.argv = before
