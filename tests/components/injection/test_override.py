"""Tests put other functions in the place of those that hidden parameters depend on."""

# Without `from __future__ import annotations`: the annotations name what is local to a test, which strings cannot.
from collections.abc import Callable
from typing import Annotated, Any

import pytest

from mcpkit import Complete, Depends, RegistrationError, Server
from mcpkit.testing import connect
from tests.helpers.dependencies import KINDS, Database, coroutine, generator, plain, takes_an_argument

pytestmark = pytest.mark.anyio

OTHERS = [(function, name) for function, name in KINDS if name != "on plain"]
"""What can take the place of `plain`; the one that is left out depends on it."""


def uses(db: Annotated[Database, Depends(plain)]) -> str:
    return db.name


@pytest.fixture
def server() -> Server:
    server = Server("s")

    @server.tool
    async def look(name: Annotated[str, Depends(uses)]) -> str:
        return name

    @server.prompt
    def ask(day: Annotated[str, Complete(lambda value, db=Depends(coroutine): [db.name])]) -> str:
        return day

    return server


async def look_at(server: Server) -> str:
    async with connect(server) as client:
        return (await client.call("look")).text


@pytest.mark.parametrize(("function", "name"), OTHERS, ids=[name for _, name in OTHERS])
async def test_any_kind_of_function_takes_the_place_of_another(
    function: Callable[[], Any], name: str, server: Server
) -> None:
    with server.override(plain, function):
        assert await look_at(server) == name
    assert await look_at(server) == "plain"


async def test_the_place_is_taken_in_completion_too(server: Server) -> None:
    with server.override(coroutine, lambda: Database("fake")):
        async with connect(server) as client:
            answer = await client.complete("ask", "day", "")
    assert answer == ["fake"]


async def test_overrides_nest_and_are_taken_back_whatever_happens(server: Server) -> None:
    def fails(body: Callable[[], object]) -> None:
        with server.override(plain, lambda: Database("first")), server.override(uses, lambda: "second"):
            body()

    with server.override(plain, lambda: Database("outer")):
        with pytest.raises(ZeroDivisionError):
            fails(lambda: 1 // 0)
        assert await look_at(server) == "outer"
        with server.override(plain, lambda: Database("inner")):
            assert await look_at(server) == "inner"
        assert await look_at(server) == "outer"
    assert await look_at(server) == "plain"


async def test_what_takes_a_place_may_depend_on_what_was_there(server: Server) -> None:
    def fake(db: Annotated[Database, Depends(plain)]) -> Database:
        return Database(f"fake {db.name}")

    with server.override(plain, fake):
        assert await look_at(server) == "fake plain"


def test_a_place_that_is_nobodys_or_cannot_be_taken_is_refused(server: Server) -> None:
    with pytest.raises(RegistrationError, match="nothing here depends on"), server.override(generator, plain):
        pass
    with (
        pytest.raises(RegistrationError, match="takes 'url', which nothing fills"),
        server.override(plain, takes_an_argument),
    ):
        pass
