"""The server object that a word of a command line means: in a file or in a module."""

from __future__ import annotations

import asyncio
import inspect
import sys
import traceback
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Final, NamedTuple, TypeGuard

from ..._utils.option_checks import nearest
from ...client.targets.infer_target import existing
from ...content.blocks import described
from ..exit_status import CommandError, Status
from .folders import projects_of, root_of

if TYPE_CHECKING:
    from ...server import Server  # which those who ask servers do without

_STANDARD: Final = str(Path(traceback.__file__).parent)
_INSTALLED: Final = frozenset({"site-packages", "dist-packages"})


class Place(NamedTuple):
    """Where a server is looked for.

    Attributes:
        path: The file; None where a module is named.
        module: The module, as it is imported.
        name: The object in it, which may have dots; None for the only server.
    """

    path: Path | None
    module: str
    name: str | None


class Found(NamedTuple):
    """A server, and where it was found.

    Attributes:
        server: The server.
        name: The object's name in its module.
        module: The module.
        factory: The function of that name that has made the server; None where the object is the server.
        is_awaited: Whether what the function returns has to be awaited.
    """

    server: Server
    name: str
    module: ModuleType
    factory: Callable[[], object] | None = None
    is_awaited: bool = False


class NoServerInError(CommandError):
    """A module that can be imported has no server of mcpkit in it.

    Args:
        module: The module.
        word: What the command line calls it.
    """

    def __init__(self, module: ModuleType, word: str) -> None:
        super().__init__(f"{word} has no mcpkit Server", Status.NO_SUCH_THING)
        self.module = module


def place_of(word: str) -> Place | None:
    """Return where a word says that a server is: `FILE.py`, `FILE.py:OBJECT`, `MODULE:OBJECT`; None for other words.

    Raises:
        FileNotFoundError: There is no such file.
    """
    path, colon, name = word.rpartition(":")
    if not (colon and path and _is_dotted(name)) or len(path) == 1:  # C:\server.py has no object
        path, name = word, ""
    if path.casefold().endswith(".py"):
        file = existing(Path(path).expanduser())
        return Place(file.absolute(), _module_of(file.absolute()), name or None)
    if name and _is_dotted(path):
        return Place(None, path, name)
    return None


def found(word: str, *, calls_unnamed: bool = True) -> Found:
    """Import the server that a word means, or call the function that makes it.

    Args:
        word: `FILE.py`, for its only server, or its only function that is annotated to return one; `FILE.py:OBJECT`;
            or `MODULE:OBJECT`, found from this folder. OBJECT is a server, or a function, `async` or not, that
            returns one.
        calls_unnamed: Whether `FILE.py` may also mean such a function.

    Raises:
        NoServerInError: The file has neither.
        CommandError: There is none; the message says what to write instead.
        FileNotFoundError: There is no such file.
    """
    place = place_of(word)
    if place is None:
        raise CommandError(f"the server must be FILE.py, FILE.py:OBJECT or MODULE:OBJECT, got {word!r}")
    module = imported(place)
    return (
        _named(module, place.name, word) if place.name else _only(module, word, calls_unnamed=calls_unnamed)
    )


def imported(place: Place) -> ModuleType:
    """Import the module of a place; the folder that it is found from goes first where Python looks.

    Raises:
        CommandError: There is no such module, or it raises; the message has its file, line and error.
    """
    folder = str(Path.cwd() if place.path is None else root_of(place.path.parent))
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        if place.path is None or _is_free(place):
            return import_module(place.module)
        return _loaded(place.path)
    except ModuleNotFoundError as error:
        if place.path is None and error.name is not None and f"{place.module}.".startswith(f"{error.name}."):
            raise CommandError(
                f"no module named {error.name} in {folder} or on sys.path. Check its name, or run the command in its "
                "folder",
                Status.NO_SUCH_THING,
            ) from None
        raise CommandError(broken(error)) from error
    except Exception as error:
        raise CommandError(broken(error)) from error


def broken(error: BaseException) -> str:
    """Say what an author's module raised, and where: file, line and error."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}: SyntaxError: {error.msg}"
    files = [
        frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith("<")
    ]
    ours = str(Path(__file__).parents[2])
    theirs = [frame for frame in files if not frame.filename.startswith((ours, _STANDARD))]
    own = [frame for frame in theirs if not _INSTALLED.intersection(Path(frame.filename).parts)]
    where = next((f"{frame.filename}:{frame.lineno}: " for frame in reversed(own or theirs)), "")
    return f"{where}{type(error).__name__}: {error}"


def servers_in(module: ModuleType) -> dict[str, Server]:
    """Return the servers that a module has, each once, by the first of its names."""
    servers: dict[str, Server] = {}
    for name, value in vars(module).items():
        if is_server(value) and not any(value is other for other in servers.values()):
            servers[name] = value
    return servers


def is_server(found: object) -> TypeGuard[Server]:
    """Say whether an object is a server of mcpkit."""
    from ...server import Server

    return isinstance(found, Server)


def _only(module: ModuleType, word: str, *, calls_unnamed: bool) -> Found:
    servers = servers_in(module)
    factories = _factories_in(module) if calls_unnamed and not servers else {}
    names = [*servers, *factories]
    if not names:
        raise NoServerInError(module, word)
    if len(names) > 1:
        named = " or ".join(f"{word}:{name}" for name in names)
        raise CommandError(f"{word} has {len(names)} servers. Write {named}", Status.NO_SUCH_THING)
    [name] = names
    return _made(factories[name], name, module) if factories else Found(servers[name], name, module)


def _named(module: ModuleType, name: str, word: str) -> Found:
    value: object = module
    instead = _instead(module, name, word.rpartition(":")[0])
    for part in name.split("."):
        try:
            value = getattr(value, part)
        except AttributeError:
            raise CommandError(
                f"module {module.__name__} has no {name}{instead}", Status.NO_SUCH_THING
            ) from None
    if inspect.isroutine(value):
        return _made(value, name, module)
    if not is_server(value):
        raise CommandError(
            f"{word} is not a Server but of type {type(value).__name__}{instead}", Status.NO_SUCH_THING
        )
    return Found(value, name, module)


def _factories_in(module: ModuleType) -> dict[str, Callable[..., object]]:
    """Return the functions of a module that are annotated to return a server and can be called without arguments."""
    from ...server import Server

    factories: dict[str, Callable[..., object]] = {}
    for name, value in vars(module).items():
        if inspect.isfunction(value) and value.__module__ == module.__name__ and _takes_nothing(value):
            with suppress(Exception):  # annotations may name what is imported for type checkers alone
                returned: object = inspect.get_annotations(value, eval_str=True).get("return")
                if isinstance(returned, type) and issubclass(returned, Server):
                    factories[name] = value
    return factories


def _made(factory: Callable[..., object], name: str, module: ModuleType) -> Found:
    """Call a function that returns a server, `async` or not.

    Raises:
        CommandError: It needs arguments, raises, or returns something else.
    """
    where = f"{module.__file__}: {name}()"
    if not _takes_nothing(factory):
        raise CommandError(
            f"{where} has parameters without defaults. Name a function that can be called without arguments",
            Status.NO_SUCH_THING,
        )
    try:
        value = factory()
        is_awaited = inspect.isawaitable(value)
        if inspect.isawaitable(value):
            with ThreadPoolExecutor(
                1
            ) as thread:  # a worker of uvicorn imports its server inside its event loop
                value = thread.submit(asyncio.run, _result(value)).result()
    except Exception as error:
        raise CommandError(broken(error)) from error
    if not is_server(value):
        raise CommandError(f"{where} must return a Server, got {described(value)}", Status.NO_SUCH_THING)
    return Found(value, name, module, factory, is_awaited)


async def _result(value: Awaitable[object]) -> object:
    return await value


def _takes_nothing(function: Callable[..., object]) -> bool:
    try:
        inspect.signature(function).bind()
    except (TypeError, ValueError):
        return False
    return True


def _instead(module: ModuleType, name: str, path: str) -> str:
    names = list(servers_in(module))
    if not names:
        return f", and module {module.__name__} has no Server"
    return f"; did you mean {path}:{nearest(name, names) or names[0]}?"


def _is_dotted(text: str) -> bool:
    return all(part.isidentifier() for part in text.split("."))


def folder_of(word: str) -> Path:
    """Return the folder of the project that a server is in: of a file, that of its `pyproject.toml` or its own.

    Args:
        word: What the command line names; of all that is no file, the folder is this one.
    """
    try:
        place = place_of(word)
    except FileNotFoundError:  # a command that ends with a file
        place = None
    if place is None or place.path is None:
        return Path.cwd()
    folder = place.path.resolve().parent
    return next(projects_of(folder), root_of(folder))


def _module_of(path: Path) -> str:
    parts = path.relative_to(root_of(path.parent)).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


def _is_free(place: Place) -> bool:
    """Say whether importing a file's module by its name brings that file: none of that name has been imported yet."""
    if not _is_dotted(place.module):
        return False
    known = sys.modules.get(place.module)
    return known is None or getattr(known, "__file__", None) == str(place.path)


def _loaded(path: Path) -> ModuleType:
    """Load a file under a name of its own: its name is no module's, or another module has it."""
    name = "".join(letter if letter.isidentifier() or letter.isdigit() else "_" for letter in path.stem)
    spec = spec_from_file_location(f"_{name}", path)
    assert spec is not None
    assert spec.loader is not None, "its name ends with .py"
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
