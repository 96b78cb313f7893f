"""Functions for worker processes, in a module that these can import."""

import asyncio
import gc
import os
import pickle
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from mcpkit import Context, ProtocolError, ToolError
from mcpkit._utils.exceptions import ArgumentsError, Problem
from mcpkit.exceptions import ResourceNotFoundError


@dataclass
class Place:
    process: int
    parent: int


class TalkativeError(ToolError):
    """Cannot be made from its `args`."""

    def __init__(self, subject: str, *, code: int) -> None:
        super().__init__(f"something is wrong with {subject}")
        self.code = code
        self.lock = threading.Lock()


def where() -> Place:
    return Place(os.getpid(), os.getppid())


def add(a: int, b: int = 1) -> int:
    return a + b


async def add_later(a: int, b: int) -> int:
    await asyncio.sleep(0)
    return a + b


class Scales:
    def __init__(self, factor: int) -> None:
        self.factor = factor

    def weigh(self, weight: int) -> int:
        return weight * self.factor

    @staticmethod
    def units() -> str:
        return "kg"


def spin(folder: str) -> None:
    """Write the process id to a file, and keep a processor busy for ever."""
    write_process_id(folder, "process")
    while True:
        pass


def write_process_id(folder: str, name: str) -> None:
    """Write this process's id to a file, which appears at once with all that it holds."""
    path = Path(folder) / name
    new = path.with_name(f"{name}.new")
    new.write_text(str(os.getpid()))
    new.rename(path)


def fail(how: str) -> Any:
    class LocalError(ToolError):
        pass

    errors: dict[str, BaseException] = {
        "tool": ToolError("the text"), "talkative": TalkativeError("x", code=7),
        "local": LocalError("of here"), "unpicklable": ToolError(threading.Lock()),
        "protocol": ProtocolError(-31000, "the message", {"a": 1}),
        "missing": ResourceNotFoundError("data://x"),
        "arguments": ArgumentsError([Problem("field", "is wrong")]), "value": ValueError("internal"),
        "exit": SystemExit(3), "interrupt": KeyboardInterrupt(), "stop": StopIteration(),
        "close": GeneratorExit(),
    }  # fmt: skip
    if how == "end":
        os._exit(3)
    raise errors[how]


def unpicklable() -> Any:
    return threading.Lock()


class Shown:
    """Can be shown, but not sent to another process."""

    def __init__(self) -> None:
        self.lock = threading.Lock()

    def _repr_markdown_(self) -> str:
        return f"shown in {os.getpid()}"


def shown() -> Any:
    return [Shown(), "text"]


def numbers():  # type: ignore[no-untyped-def]
    yield os.getpid()
    yield {"a": 2}


async def numbers_later():  # type: ignore[no-untyped-def]
    yield os.getpid()
    yield {"a": 2}


def described(value: Place) -> str:
    return f"{type(value).__name__} in {os.getpid()}"


def fork(where: str, how: str, token: int) -> Any:
    """Fork a child, which ends in some way, and return the token with the process of the function and the child's."""
    if where == "generator":
        return iter(_forked_in_generator(how, token))
    if where == "coroutine":
        return _forked_in_coroutine(how, token)
    if where == "thread":
        children: list[int] = []
        thread = threading.Thread(target=lambda: children.append(_fork(how)))
        thread.start()
        thread.join()
        return [token, os.getpid(), *children]
    return [token, os.getpid(), _fork(how)]


def _forked_in_generator(how: str, token: int) -> Iterator[int]:
    yield token
    yield os.getpid()
    yield _fork(how)


async def _forked_in_coroutine(how: str, token: int) -> list[int]:
    await asyncio.sleep(0)
    return [token, os.getpid(), _fork(how)]


def _fork(how: str) -> int:
    child = os.fork()
    if child:
        return child
    if how == "exit":
        sys.exit(3)
    if how == "_exit":
        os._exit(0)
    if how == "raise":
        raise ValueError("in the child")
    if how == "interrupt":
        raise KeyboardInterrupt
    if how == "exec":
        os.execv(sys.executable, [sys.executable, "-c", "pass"])
    return 0


def forge(number: int) -> str:
    """Answer a call of another number, as a child might."""
    [connection] = [
        each
        for each in gc.get_objects()
        if isinstance(each, Connection) and not each.closed and each.writable and each.readable
    ]
    connection.send_bytes(pickle.dumps((number, "forged", None)))
    return "real"


def takes_context(ctx: Context) -> None: ...


def replaced() -> None: ...


kept = replaced


def replaced() -> None: ...  # type: ignore[no-redef]  # another function goes by its name now
