"""Interprets the target of a client, and suggests a correction for an invalid one."""

from __future__ import annotations

import inspect
import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Final, TypeAlias, TypeGuard, Union
from urllib.parse import urlsplit

from typing_extensions import TypeIs

from ..._utils.python_safe_path import module_command
from ...content.blocks import described
from ..link.transport import Transport
from .existing import existing
from .reached import Process, Remote

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from ...engine.engine import Served

Target: TypeAlias = Union[
    "Served",
    Transport,
    "ASGIApp",
    str,
    "os.PathLike[str]",
    "Sequence[str | os.PathLike[str]]",
    "Mapping[str, object]",
]
"""Targets of a client: an object, a path, a URL, a command, or a configuration or one of its entries."""

Meant: TypeAlias = Union["Served", Transport, "ASGIApp", Process, Remote]

_RUN_BY: Final[Mapping[str, str]] = {
    ".py": sys.executable,
    **dict.fromkeys((".js", ".mjs", ".cjs", ".ts", ".mts", ".cts"), "node"),
}
"""The program that runs a script, by file extension."""

_IN_FOLDERS: Final = ("server.py", "__main__.py")


def meant(target: object) -> Meant:
    """Interpret a target that is not a configuration.

    Raises:
        FileNotFoundError: There is no such file, folder or program.
        TypeError: The target has a type that cannot be connected to.
        ValueError: The target has a valid type, but cannot be connected to.
    """
    if isinstance(target, str):
        return _text(target)
    if is_path(target):
        return _path(Path(target))
    if is_command(target):
        return _command(target)
    if not isinstance(target, type) and (is_served(target) or is_transport(target) or is_app(target)):
        return target
    raise TypeError(next(_instead(target)))


def is_path(target: object) -> TypeGuard[str | os.PathLike[str]]:
    """Return whether the target is a path, including strings."""
    return isinstance(target, str | os.PathLike)


def is_command(target: object) -> TypeGuard[Sequence[object]]:
    """Return whether the target is a command, a list of strings."""
    return isinstance(target, list | tuple)


def is_served(target: object) -> TypeIs[Served]:
    """Return whether the target is a server object."""
    return hasattr(target, "engine")


def is_transport(target: object) -> TypeIs[Transport]:
    """Return whether the target has the methods of a transport."""
    return all(callable(getattr(target, name, None)) for name in ("open", "send", "close"))


def is_app(target: object) -> TypeIs[ASGIApp]:
    """Return whether the target can be called as an ASGI app."""
    if not callable(target):
        return False
    try:
        inspect.signature(target).bind(None, None, None)
    except (TypeError, ValueError):
        return False
    return True


def _text(text: str) -> Process | Remote:
    scheme, separator, _ = text.partition("://")
    if separator and scheme.isalnum():
        return _url(text)
    path = Path(text).expanduser()
    if text.strip() and path.exists():
        return _path(path)
    for hint in _instead_of_text(text):
        raise ValueError(hint)
    return _path(existing(path))


def _instead_of_text(text: str) -> Iterator[str]:
    """Yield suggestions for a string that is neither a URL nor a path."""
    if text.lstrip().startswith("{"):
        yield "the target is the text of a configuration. Parse it: Client(json.loads(text))"
    words = text.split()
    if not words:
        yield "the target is empty. Pass the path of a script, a URL, a command as a list, or a server object"
        return
    first = words[0]
    if shutil.which(first) and Path(first).suffix not in _RUN_BY:
        more = ", ..." if len(words) > 1 else ""
        yield f"{first} is a program. Pass the command as a list with one item per word: [{first!r}{more}]"
    if len(words) > 1 and Path(first).exists():
        yield f"the target is a script with arguments. Pass a list: [sys.executable, {first!r}, ...]"
    host = text.partition("/")[0]
    if "/" in text and "." in host.strip(".") and Path(host).suffix not in _RUN_BY:
        yield f"no such file: {text}. For a URL, write https://{text}"
    if host.startswith("localhost"):
        yield f"no such file: {text}. For a URL, write http://{text}"
    file, _, name = text.rpartition(":")
    if name.isidentifier() and any(Path(each).is_file() for each in (file, f"{file}.py")):
        yield f"a client cannot import an object by name from a file. Import {name}, and write Client({name})"


def _url(url: str) -> Remote:
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"}:
        raise ValueError(
            f"URL scheme {parts.scheme!r} is not supported. Use http or https, or pass your own transport"
        )
    if not parts.hostname:
        raise ValueError(f"the URL has no host. Write {parts.scheme}://HOST/mcp")
    return Remote(url)


def _path(path: Path) -> Process:
    path = existing(path.expanduser())
    if path.is_dir():
        return _folder(path)
    program = _RUN_BY.get(path.suffix.casefold())
    if program is not None:
        return Process([program, str(path.absolute())])
    if os.access(path, os.X_OK):
        return Process([str(path.absolute())])
    raise ValueError(
        f"{path} is not a Python or Node.js script, an executable or a configuration (.json). "
        f"Pass a command, such as [sys.executable, {str(path)!r}]"
    )


def _folder(folder: Path) -> Process:
    script = next((folder / name for name in _IN_FOLDERS if (folder / name).is_file()), None)
    if script is None:
        raise FileNotFoundError(
            f"the folder {folder} has neither {' nor '.join(_IN_FOLDERS)}. Pass the path of the script"
        )
    folder = folder.absolute()
    if (folder / "__init__.py").is_file():  # its modules import each other as a package's
        paths = [str(folder.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
        return Process(module_command(_module(folder, script)), {"PYTHONPATH": os.pathsep.join(paths)})
    return Process([sys.executable, str(script.absolute())])


def _module(package: Path, script: Path) -> str:
    return package.name if script.stem == "__main__" else f"{package.name}.{script.stem}"


def _command(command: Sequence[object]) -> Process:
    if not command:
        raise ValueError(
            "the command is empty. Pass the program and its arguments, such as ['uvx', 'mcp-server-time']"
        )
    words: list[str] = []
    for index, word in enumerate(command):
        if not isinstance(word, str | os.PathLike):
            raise TypeError(f"item {index} of the command must be a string or a path, got {described(word)}")
        words.append(os.fspath(word))
    program = words[0]
    if program.startswith(("http://", "https://")):
        raise ValueError(
            "the target is a list with a URL. Pass the URL as a string, or a configuration for several servers"
        )
    if Path(program).suffix == ".py" and not os.access(program, os.X_OK):
        raise ValueError(
            f"{program!r} is not executable. Pass [sys.executable, {program!r}, ...], or {program!r} without arguments"
        )
    if len(words) == 1 and " " in program and not shutil.which(program):
        raise ValueError("the command is one item with spaces. Pass a list with one item per word")
    return Process(words)


def _instead(target: object) -> Iterator[str]:
    """Yield suggestions for an invalid target."""
    name = getattr(target, "__name__", type(target).__name__)
    if target is None:
        yield "the target is None. Pass a server object, the path of a script, a URL, or a command as a list"
    if isinstance(target, type):
        yield f"{name} is a class. Pass an instance of it"
    if isinstance(target, ModuleType):
        yield f"{name} is a module. Pass the server object in it"
    if inspect.isawaitable(target):
        if inspect.iscoroutine(target):
            target.close()
        yield "the target is an awaitable. Await it first: Client(await ...)"
    if isinstance(target, bytes):
        yield "the target is bytes. Pass a string"
    if inspect.isroutine(target):
        yield f"{name} is a function, but not an ASGI app. Call it, and pass the object that it returns"
    for app in ("http_app", "streamable_http_app"):
        if hasattr(target, app):
            yield f"{described(target)} is a server of another framework. Pass its ASGI app, .{app}(), or its script"
    if hasattr(target, "include"):
        yield f"{described(target)} has no engine. Include it in a Server, and pass the server"
    yield (
        f"a client cannot connect to {described(target)}. Pass a server object, a transport, an ASGI app, "
        "the path of a script, a URL, a command as a list, or a configuration"
    )
