"""Inference of the server that a target stands for: an object, a path, a URL or a command; and configured servers."""

from __future__ import annotations

import inspect
import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, TypeGuard, Union
from urllib.parse import urlsplit

from typing_extensions import TypeIs

from ..._utils.option_checks import nearest
from ..._utils.python_safe_path import module_command
from ...content.blocks import described
from ..transport_interface_and_memory import Transport

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


@dataclass(frozen=True)
class StdioServerConfig:
    """A process that communicates over its standard streams.

    Attributes:
        command: The program and its arguments.
        env: Its environment variables.
        cwd: The working directory; None for the client's own.
    """

    # Fields that may contain secrets are not shown.
    command: Sequence[str] = field(repr=False)
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    cwd: Path | None = None


@dataclass(frozen=True)
class HttpServerConfig:
    """A server at a URL.

    Attributes:
        url: The URL.
        headers: The headers of each request.
        token: The bearer token of each request, or None.
        transport: The transport to use; None for any.
        logs_in: Whether the user logs in if the server requires it.
    """

    url: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    token: str | None = field(default=None, repr=False)
    transport: Literal["http", "sse"] | None = None
    logs_in: bool = False


@dataclass(frozen=True)
class ToolFilter:
    """A filter of the tools of a server.

    Attributes:
        include: The names of the tools to include; None for all.
        exclude: The names of the tools to exclude, even if they are included.
    """

    include: frozenset[str] | None = None
    exclude: frozenset[str] = frozenset()

    def allows(self, name: str) -> bool:
        """Return whether the filter lets a tool pass."""
        return name not in self.exclude and (self.include is None or name in self.include)


ALL_TOOLS: Final = ToolFilter()


@dataclass(frozen=True)
class ConfiguredServer:
    """A server of a configuration.

    Attributes:
        place: Its place in the configuration, for messages.
        connection: The connection settings.
        timeout: The time limit of a request in seconds; None if the configuration has none.
        tools: The filter of its tools.
    """

    place: str
    connection: StdioServerConfig | HttpServerConfig
    timeout: float | None
    tools: ToolFilter


InferredTarget: TypeAlias = Union["Served", Transport, "ASGIApp", StdioServerConfig, HttpServerConfig]

_INTERPRETERS: Final[Mapping[str, str]] = {
    ".py": sys.executable,
    **dict.fromkeys((".js", ".mjs", ".cjs", ".ts", ".mts", ".cts"), "node"),
}
"""The program that runs a script, by file extension."""

_FOLDER_SCRIPTS: Final = ("server.py", "__main__.py")


def infer_target(target: object) -> InferredTarget:
    """Interpret a target that is not a configuration.

    Raises:
        FileNotFoundError: There is no such file, folder or program.
        TypeError: The target has a type that cannot be connected to.
        ValueError: The target has a valid type, but cannot be connected to.
    """
    if isinstance(target, str):
        return _from_text(target)
    if is_path(target):
        return _from_path(Path(target))
    if is_command(target):
        return _from_command(target)
    if not isinstance(target, type) and (is_served(target) or is_transport(target) or is_app(target)):
        return target
    raise TypeError(next(_suggestions(target)))


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


def _from_text(text: str) -> StdioServerConfig | HttpServerConfig:
    scheme, separator, _ = text.partition("://")
    if separator and scheme.isalnum():
        parts = urlsplit(text)
        if parts.scheme not in {"http", "https"}:
            raise ValueError(
                f"URL scheme {parts.scheme!r} is not supported. Use http or https, or pass your own transport"
            )
        if not parts.hostname:
            raise ValueError(f"the URL has no host. Write {parts.scheme}://HOST/mcp")
        return HttpServerConfig(text)
    path = Path(text).expanduser()
    if text.strip() and path.exists():
        return _from_path(path)
    for hint in _text_suggestions(text):
        raise ValueError(hint)
    return _from_path(existing(path))


def _text_suggestions(text: str) -> Iterator[str]:
    """Yield suggestions for a string that is neither a URL nor a path."""
    if text.lstrip().startswith("{"):
        yield "the target is the text of a configuration. Parse it: Client(json.loads(text))"
    words = text.split()
    if not words:
        yield "the target is empty. Pass the path of a script, a URL, a command as a list, or a server object"
        return
    first = words[0]
    if shutil.which(first) and Path(first).suffix not in _INTERPRETERS:
        more = ", ..." if len(words) > 1 else ""
        yield f"{first} is a program. Pass the command as a list with one item per word: [{first!r}{more}]"
    if len(words) > 1 and Path(first).exists():
        yield f"the target is a script with arguments. Pass a list: [sys.executable, {first!r}, ...]"
    host = text.partition("/")[0]
    if "/" in text and "." in host.strip(".") and Path(host).suffix not in _INTERPRETERS:
        yield f"no such file: {text}. For a URL, write https://{text}"
    if host.startswith("localhost"):
        yield f"no such file: {text}. For a URL, write http://{text}"
    file, _, name = text.rpartition(":")
    if name.isidentifier() and any(Path(each).is_file() for each in (file, f"{file}.py")):
        yield f"a client cannot import an object by name from a file. Import {name}, and write Client({name})"


def _from_path(path: Path) -> StdioServerConfig:
    path = existing(path.expanduser())
    if path.is_dir():
        return _from_folder(path)
    program = _INTERPRETERS.get(path.suffix.casefold())
    if program is not None:
        return StdioServerConfig([program, str(path.absolute())])
    if os.access(path, os.X_OK):
        return StdioServerConfig([str(path.absolute())])
    raise ValueError(
        f"{path} is not a Python or Node.js script, an executable or a configuration (.json). "
        f"Pass a command, such as [sys.executable, {str(path)!r}]"
    )


def _from_folder(folder: Path) -> StdioServerConfig:
    script = next((folder / name for name in _FOLDER_SCRIPTS if (folder / name).is_file()), None)
    if script is None:
        raise FileNotFoundError(
            f"the folder {folder} has neither {' nor '.join(_FOLDER_SCRIPTS)}. Pass the path of the script"
        )
    folder = folder.absolute()
    if (folder / "__init__.py").is_file():  # a package, whose modules may import each other relatively
        module = folder.name if script.stem == "__main__" else f"{folder.name}.{script.stem}"
        paths = [str(folder.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
        return StdioServerConfig(module_command(module), {"PYTHONPATH": os.pathsep.join(paths)})
    return StdioServerConfig([sys.executable, str(script.absolute())])


def _from_command(command: Sequence[object]) -> StdioServerConfig:
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
    return StdioServerConfig(words)


def _suggestions(target: object) -> Iterator[str]:
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


def existing(path: Path) -> Path:
    """Return a path after checking that it exists.

    Raises:
        FileNotFoundError: It does not exist. The message suggests a similar name in its folder.
    """
    if path.exists():
        return path
    folder = path.parent
    if not folder.is_dir():
        raise FileNotFoundError(f"{path} does not exist, nor does the folder {folder.absolute()}")
    close = nearest(path.name, (each.name for each in folder.iterdir()))
    raise FileNotFoundError(
        f"{path} does not exist in {folder.absolute()}"
        + (f"; did you mean {folder / close}?" if close else "")
    )
