"""Hidden parameters that cannot be filled are refused when they are registered."""

# Without `from __future__ import annotations`: the annotations name what is local to a test, which strings cannot.
from collections.abc import Generator
from contextlib import contextmanager
from typing import Annotated, Any

import pytest

from mcpkit import Complete, Context, Depends, FromHeader, FromState, RegistrationError, Server
from tests.helpers.dependencies import Database, plain, takes_an_argument


def takes_by_position(ctx: Context, /) -> str:
    return ctx.method


def takes_what_takes(value: Annotated[str, Depends(takes_an_argument)]) -> str:
    return value


def egg(hen: "Annotated[Any, Depends(hen)]") -> Any: ...


def hen(egg: "Annotated[Any, Depends(egg)]") -> Any: ...


@contextmanager
def managed() -> Generator[int, None, None]:
    yield 1


def test_what_cannot_be_filled_is_refused_when_it_is_registered() -> None:
    wrong: list[tuple[Any, str]] = [
        (
            Depends(takes_an_argument),
            "tool 'look': value: takes_an_argument takes 'url', which nothing fills",
        ),
        (Depends(takes_by_position), "takes_by_position takes 'ctx', which nothing fills"),
        (Depends(takes_what_takes), "value: takes_what_takes: value: takes_an_argument takes 'url'"),
        (Depends(hen), "dependencies go round in a circle: hen -> egg -> hen"),
        (Depends(managed), r"managed is a generator function under a decorator; .*@contextmanager"),
        (Depends, r"write Depends\(...\)"),
        (FromState, r"write FromState\(...\)"),
        (FromHeader("X-Tenant"), r"value: a header is a text: annotate it as `str \| None`, not `int`"),
    ]
    for mark, message in wrong:
        with pytest.raises(RegistrationError, match=message):

            @Server("s").tool
            async def look(value: Annotated[int, mark]) -> None: ...


def test_a_header_that_may_be_missing_must_have_something_in_its_place() -> None:
    with pytest.raises(RegistrationError, match="the header X-Tenant may be missing"):

        @Server("s").tool
        async def look(tenant: Annotated[str, FromHeader("X-Tenant")]) -> None: ...


@pytest.mark.parametrize("name", ["", "X Tenant", "X-Tenant:", "Ü"])
def test_a_header_has_a_name(name: str) -> None:
    with pytest.raises(RegistrationError, match="the name of a header"):
        FromHeader(name)


def test_what_a_function_has_returned_is_no_function() -> None:
    with pytest.raises(RegistrationError, match=r"Depends\(connect\), not Depends\(connect\(\)\)"):
        Depends(plain())  # type: ignore[call-overload]  # the mistake


def test_a_completer_is_refused_for_the_same_reasons() -> None:
    def cities(value: str, url: Annotated[str, Depends(takes_an_argument)]) -> list[str]: ...

    with pytest.raises(RegistrationError, match="argument 'city': url: takes_an_argument takes 'url'"):

        @Server("s").prompt
        def plan(city: Annotated[str, Complete(cities)]) -> str: ...


def test_a_positional_only_parameter_cannot_be_filled() -> None:
    with pytest.raises(RegistrationError, match="positional-only 'db'"):

        @Server("s").tool
        async def look(db: Annotated[Database, Depends(plain)], /) -> None: ...
