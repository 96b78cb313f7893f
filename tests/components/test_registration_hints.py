"""What looks like an oversight in a function is told where the function is registered."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any

import pytest

from mcpkit import Context, RegistrationError, Server
from mcpkit.testing import connect

pytestmark = pytest.mark.anyio


def forgetful(function: Callable[..., Any]) -> Callable[..., Any]:
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


def asynchronous(function: Callable[..., Any]) -> Callable[..., Any]:
    async def wrapper(*positional: Any, **named: Any) -> Any:
        return await function(*positional, **named)

    return wrapper


def careful(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


@pytest.mark.parametrize(
    ("decorator", "names"),
    [(forgetful, r"\*args and \*\*kwargs"), (asynchronous, r"\*positional and \*\*named")],
)
@pytest.mark.parametrize("kind", ["tool", "prompt", "resource"])
def test_a_wrapper_that_hides_the_signature_is_told_to_use_wraps(
    decorator: Callable[..., Any], names: str, kind: str
) -> None:
    server = Server("s")
    register = server.resource("a://b") if kind == "resource" else getattr(server, kind)
    with pytest.raises(
        RegistrationError, match=rf"wrapper: {names} say nothing.* @functools\.wraps\(function\)"
    ):
        register(decorator(lambda a: a))


async def test_a_wrapper_with_wraps_shows_what_it_wraps() -> None:
    server = Server("s")

    @server.tool
    @careful
    def double(number: int) -> int:
        return number * 2

    async with connect(server) as client:
        assert (await client.call("double", {"number": 4})).structured == 8


def test_star_args_alone_are_told_to_be_a_list() -> None:
    def total(*prices: float) -> float:
        return sum(prices)

    with pytest.raises(RegistrationError, match=r"write `prices: list\[\.\.\.\]` instead"):
        Server("s").tool(total)


@pytest.mark.parametrize("name", ["ctx", "context"])
def test_a_parameter_that_is_named_like_the_context_and_has_no_type_is_warned_about(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server("s")
    namespace: dict[str, Any] = {}
    exec(f"def look({name}, a=1): return a\ndef lazily(a=1, {name}=None): return a", namespace)
    server.tool(namespace["look"])
    server.prompt(namespace["lazily"])
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [
        (
            logging.WARNING,
            (
                f"{kind}: the parameter {name!r} has no type, so it is an argument that the client fills in; "
                f"if the Context is meant, write `{name}: Context`"
            ),
        )
        for kind in ("tool 'look'", "prompt 'lazily'")
    ]
    for uri in ("a://b", "a://{a}"):
        with pytest.raises(
            RegistrationError, match=f"the parameter {name!r}: if the Context is meant, write"
        ):
            server.resource(uri)(namespace["look"])


def test_what_has_a_type_is_not_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    server = Server("s")

    @server.tool
    def asks(ctx: Context, other: int = 1) -> int:
        return other

    @server.tool
    def tells(context: str) -> str:
        return context

    assert caplog.records == []
