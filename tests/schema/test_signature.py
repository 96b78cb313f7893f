"""What is read from a callable."""

# ruff: noqa: UP045 - the old spellings of unions are tested on purpose
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Optional

import pytest
from pydantic import Field

from mcpkit.common.errors import RegistrationError
from mcpkit.schema import Arguments, Signature, UnresolvedHint
from mcpkit.schema.parameters import empty

if TYPE_CHECKING:
    from somewhere import Nowhere


class Ctx:
    """Stands for what a framework injects."""


def of(fn: Callable[..., Any]) -> Signature:
    return Signature.of(fn, is_injected=lambda annotation, default: annotation is Ctx)


def names(fn: Callable[..., Any]) -> list[str]:
    return [parameter.name for parameter in of(fn).parameters]


def plain(city: str, days: int = 3, *, unit: str = "c") -> bool:
    """Say it.

    Args:
        city: Where.
        days: How long.
    """
    return True


async def coroutine(ctx: Ctx, city: str) -> None: ...


class Weather:
    """Weather of one place."""

    def method(self, city: str) -> int:
        """Ask."""
        return 1

    @classmethod
    def of_class(cls, city: str) -> int:
        return 1

    @staticmethod
    def static(city: str) -> int:
        return 1

    async def __call__(self, city: str) -> int:
        return 1


def test_a_function() -> None:
    signature = of(plain)
    assert signature.name == "plain"
    assert signature.description == "Say it."
    assert signature.returns is bool
    assert not signature.is_async
    assert [
        (p.name, p.annotation, p.default, p.is_required, p.description) for p in signature.parameters
    ] == [
        ("city", str, empty, True, "Where."),
        ("days", int, 3, False, "How long."),
        ("unit", str, "c", False, None),
    ]


def test_what_is_injected_is_no_argument() -> None:
    signature = of(coroutine)
    assert [p.name for p in signature.injected] == ["ctx"]
    assert [p.name for p in signature.parameters] == ["city"]
    assert signature.is_async
    assert signature.returns is type(None)


@pytest.mark.parametrize("fn", [Weather().method, Weather.of_class, Weather.static, Weather().static])
def test_methods_do_not_show_what_they_are_bound_to(fn: Callable[..., Any]) -> None:
    assert names(fn) == ["city"]
    assert of(fn).returns is int
    assert of(fn).name == fn.__name__


def test_a_callable_object_is_named_and_described_by_its_class() -> None:
    signature = of(Weather())
    assert signature.name == "Weather"
    assert signature.description == "Weather of one place."
    assert [p.name for p in signature.parameters] == ["city"]
    assert signature.is_async


def test_what_a_partial_binds_is_no_argument() -> None:
    assert names(functools.partial(plain, "here")) == ["days", "unit"]
    assert names(functools.partial(plain, days=1)) == ["city", "unit"]
    assert names(functools.partial(functools.partial(plain, days=1), unit="f")) == ["city"]
    assert of(functools.partial(coroutine, city="x")).is_async
    assert of(functools.partial(plain, days=1)).name == "plain"


def test_a_wrapper_shows_what_it_wraps() -> None:
    @functools.wraps(plain)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return plain(*args, **kwargs)

    assert names(wrapper) == ["city", "days", "unit"]


def test_the_annotation_describes_before_the_docstring() -> None:
    def f(
        a: Annotated[int, "from text"],
        b: Annotated[int, Field(description="from Field")],
        c: int = Field(3, description="from default"),
        d: int = 0,
    ) -> None:
        """Do.

        Args:
            a: docstring
            b: docstring
            c: docstring
            d: docstring
        """

    assert [p.description for p in of(f).parameters] == [
        "from text",
        "from Field",
        "from default",
        "docstring",
    ]


def test_metadata_stays_with_the_parameter() -> None:
    marker = object()

    def f(a: int) -> None: ...

    f.__annotations__["a"] = Annotated[int, marker]
    assert of(f).parameters[0].metadata == (marker,)


def test_keyword_arguments_of_any_name() -> None:
    def f(**rest: int) -> None: ...

    def untyped(**rest) -> None: ...  # type: ignore[no-untyped-def]  # what is tested

    assert of(f).extra is int
    assert of(untyped).extra is Any
    assert of(plain).extra is empty


def test_positional_variables_are_refused_with_what_to_write() -> None:
    def f(*cities: str) -> None: ...

    with pytest.raises(RegistrationError, match=r"f: .*\*cities.*write `cities: list\[\.\.\.\]`"):
        of(f)


def test_positional_only_is_refused_with_what_to_write() -> None:
    def f(city: str, /) -> None: ...

    with pytest.raises(RegistrationError, match=r"f: .*'city'.*remove the `/`"):
        of(f)


def test_a_method_without_its_object_is_refused() -> None:
    with pytest.raises(RegistrationError, match="include an instance"):
        of(Weather.method)


def test_a_callable_without_signature_is_refused() -> None:
    with pytest.raises(RegistrationError, match="wrap it in a function"):
        of(dict.fromkeys if False else min)


def test_a_name_defined_later_can_be_tried_again() -> None:
    namespace: dict[str, Any] = {}
    source = "from __future__ import annotations\ndef f(a: Later) -> list[Later]: ...\n"
    exec(source, namespace)
    with pytest.raises(UnresolvedHint, match="'Later' is not defined"):
        of(namespace["f"])
    namespace["Later"] = int
    assert of(namespace["f"]).parameters[0].annotation is int


def test_a_name_for_type_checkers_only_says_what_to_do() -> None:
    def f(a: Nowhere) -> None: ...

    with pytest.raises(UnresolvedHint, match="TYPE_CHECKING"):
        of(f)


def test_local_names_that_the_function_uses_are_found() -> None:
    class Local: ...

    def f(a: Local) -> Any:
        return Local

    assert of(f).parameters[0].annotation is Local


def test_strings_inside_types_are_forward_references() -> None:
    def f(a: list[Weather] | None = None) -> None: ...

    assert of(f).parameters[0].annotation == Optional[list[Weather]]


def test_a_hint_that_is_no_type_is_refused() -> None:
    def f(a: "1 +") -> None: ...  # noqa: F722  # type: ignore[valid-type]  # what is tested

    with pytest.raises(RegistrationError, match="type hints cannot be read"):
        of(f)


def test_a_field_as_default_is_the_default_and_is_passed() -> None:
    def f(a: int = Field(5, ge=1), b: list[int] = Field(default_factory=list), c: int = Field()) -> None: ...

    signature = of(f)
    arguments = Arguments.of(signature)
    assert arguments.schema["required"] == ["c"]
    assert arguments.schema["properties"]["a"] == {"type": "integer", "minimum": 1, "default": 5}
    assert arguments.validate({"c": 1}) == {"a": 5, "b": [], "c": 1}
    first, second = arguments.validate({"c": 1})["b"], arguments.validate({"c": 1})["b"]
    assert first is not second
