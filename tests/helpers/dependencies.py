"""What the tests of hidden parameters have in common: functions of every kind to depend on."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterator
from dataclasses import dataclass
from typing import Annotated, Any

from mcpkit import Depends


@dataclass
class Database:
    name: str


def plain() -> Database:
    return Database("plain")


async def coroutine() -> Database:
    return Database("coroutine")


def generator() -> Iterator[Database]:
    yield Database("generator")


async def async_generator() -> AsyncIterator[Database]:
    yield Database("async_generator")


class Factory:
    def method(self) -> Database:
        return Database("method")

    async def __call__(self) -> Database:
        return Database("callable")

    @classmethod
    def of_class(cls) -> Database:
        return Database(cls.__name__)


class Settings(Database):
    def __init__(self, based_on: Annotated[Database, Depends(plain)]) -> None:
        super().__init__(f"on {based_on.name}")


class ManyTimes:
    """A generator where a callable object is wanted."""

    def __call__(self) -> Generator[Database, None, None]:
        yield Database("yielded by an object")


def awaitable() -> Coroutine[Any, Any, Database]:
    return coroutine()


@functools.wraps(coroutine)
def wrapper() -> Coroutine[Any, Any, Database]:
    return coroutine()


def with_a_name(name: str) -> Database:
    return Database(name)


KINDS: list[tuple[Callable[..., Any], str]] = [
    (plain, "plain"),
    (coroutine, "coroutine"),
    (generator, "generator"),
    (async_generator, "async_generator"),
    (Factory().method, "method"),
    (Factory(), "callable"),
    (Factory.of_class, "Factory"),
    (Settings, "on plain"),
    (ManyTimes(), "yielded by an object"),
    (awaitable, "coroutine"),
    (wrapper, "coroutine"),
    (functools.partial(with_a_name, name="partial"), "partial"),
    (functools.partial(with_a_name, "by position"), "by position"),
    (lambda: Database("lambda"), "lambda"),
]


def takes_an_argument(url: str) -> str:
    return url
