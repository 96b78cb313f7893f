"""Signatures and docstrings of callables."""

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import pytest
from pydantic import Field

from mcpkit._utils.exceptions import RegistrationError
from mcpkit.schema import Arguments, Signature, UnresolvedHint
from mcpkit.schema.docstrings import read
from mcpkit.schema.function_signatures import empty
from tests.helpers.tables import each_row

if TYPE_CHECKING:
    pass


class Ctx:
    """Stands for what a framework injects."""


def signature_of(fn: Callable[..., Any]) -> Signature:
    return Signature.of(fn, is_injected=lambda annotation, default: annotation is Ctx)


def names(fn: Callable[..., Any]) -> list[str]:
    return [parameter.name for parameter in signature_of(fn).parameters]


def plain(city: str, days: int = 3, *, unit: str = "c") -> bool:
    """Say it.

    Args:
        city: Where.
        days: How long.
    """
    return True


async def coroutine(ctx: Ctx, city: str) -> None: ...


def test_signature_of_function() -> None:
    signature = signature_of(plain)
    assert signature.name == "plain"
    assert signature.description == "Say it."
    assert signature.returns is bool
    assert not signature.is_async
    assert [(p.name, p.annotation, p.default, p.is_required,
        p.description) for p in signature.parameters] == [("city", str, empty, True, "Where."), ("days", int,
        3, False, "How long."), ("unit", str, "c", False, None)]  # fmt: skip


def test_signature_of_partial_omits_bound_arguments() -> None:
    assert names(functools.partial(plain, "here")) == ["days", "unit"]
    assert names(functools.partial(plain, days=1)) == ["city", "unit"]
    assert names(functools.partial(functools.partial(plain, days=1), unit="f")) == ["city"]
    bound = signature_of(functools.partial(coroutine, city="x"))
    assert ([p.name for p in bound.injected], [*bound.parameters], bound.is_async) == (["ctx"], [], True)
    assert bound.returns is type(None)
    assert signature_of(functools.partial(plain, days=1)).name == "plain"


def test_signature_annotation_describes_before_docstring() -> None:
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

    assert [p.description for p in signature_of(f).parameters] == ["from text", "from Field", "from default",
        "docstring"]  # fmt: skip


def star(*cities: str) -> None: ...


def positional(city: str, /) -> None: ...


@each_row(("function", "message"), [
    (star, r"star: .*\*cities.*write `cities: list\[\.\.\.\]`"),
    (positional, "positional: .*'city'.*remove the `/`"),
])  # fmt: skip
def test_signature_of_parameters_without_names_is_refused(function: Any, message: str) -> None:
    with pytest.raises(RegistrationError, match=message):
        signature_of(function)


def test_signature_unresolved_hint_can_be_retried() -> None:
    namespace: dict[str, Any] = {}
    source = "from __future__ import annotations\ndef f(a: Later) -> list[Later]: ...\n"
    exec(source, namespace)
    with pytest.raises(UnresolvedHint, match="'Later' is not defined"):
        signature_of(namespace["f"])
    namespace["Later"] = int
    assert signature_of(namespace["f"]).parameters[0].annotation is int


def test_signature_field_as_default() -> None:
    def f(a: int = Field(5, ge=1), b: list[int] = Field(default_factory=list), c: int = Field()) -> None: ...

    signature = signature_of(f)
    arguments = Arguments.of(signature)
    assert arguments.schema["required"] == ["c"]
    assert arguments.schema["properties"]["a"] == {"type": "integer", "minimum": 1, "default": 5}
    assert arguments.validate({"c": 1}) == {"a": 5, "b": [], "c": 1}
    first, second = arguments.validate({"c": 1})["b"], arguments.validate({"c": 1})["b"]
    assert first is not second


@each_row("text", [None, "", "   "])
def test_docstring_missing_has_no_description(text: str | None) -> None:
    documentation = read(text)
    assert documentation.description is None
    assert documentation.arguments == {}


@each_row("text", [
    "Add.\n\nReturns:\n    The sum\n    of both.", "Add.\n\nReturns: The sum\n    of both.",
    "Add.\n\n    Returns:\n        int: The sum\n        of both.\n    ",
    "Add.\n\nReturn:\n    list[int]: The sum\n    of both.",
    "Add.\n\nReturns\n-------\nint\n    The sum\n    of both.\n",
    "Add.\n\nReturns\n-------\nThe sum\nof both.\n", "Add.\n\n:returns: The sum\n    of both.\n:rtype: int",
    "Add.\n\n:param a: One.\n:return: The sum\n    of both.",
    "Add.\n\nArgs:\n    a: One.\n\nReturns:\n    The sum\n    of both.\n",
    "Add.\n\nParameters\n----------\na : int\n    One.\n\nReturns\n-------\nint\n    The sum\n    of both.",
])  # fmt: skip
def test_docstring_returns_section_in_all_styles(text: str) -> None:
    assert read(text).description == "Add.\n\nReturns: The sum\nof both."


@each_row(("text", "description"), [
    ("Add.\n\nReturns:\n    A dict: keys are names.", "Add.\n\nReturns: A dict: keys are names."),
    ("Add.\n\nReturns:\n    Note: nothing.", "Add.\n\nReturns: Note: nothing."),
    ("Add.\n\nReturns:\n    pd.DataFrame: The rows.", "Add.\n\nReturns: The rows."),
    ("Add.\n\nYields:\n    The next.", "Add.\n\nYields: The next."),
    ("Add.\n\n:yield: The next.", "Add.\n\nYields: The next."),
    ("Add.\n\nYields\n------\nint\n    The next.", "Add.\n\nYields: The next."),
    (
        "Cut.\n\nReturns\n-------\nhead : str\n    The first.\ntail : str\n    The rest.\n\nNotes\n-----\nQuick.",
        "Cut.\n\nReturns: head: The first.\ntail: The rest.\n\nNotes\n-----\nQuick.",
    ),
    ("Add.\n\n:returns: One.\n\nAnd more.", "Add.\n\nReturns: One.\n\nAnd more."),
    ("Returns: to sender.", "Returns: to sender."),
    ("Returns the sum of both.", "Returns the sum of both."), ("Add.\n\n:rtype: int", "Add."),
    ("Add.\n\nReturns:", "Add."),
])  # fmt: skip
def test_docstring_other_result_sections(text: str, description: str) -> None:
    assert read(text).description == description


NAMES = {
    "query": "query", "limit": "limit", "_hint": "_hint", "$from": "start", "start": "start", "ctx": None,
}  # fmt: skip


@each_row(("text", "arguments", "rest"), [
    # Google
    ("Args:\n    query: A.\n    limit (int, optional): B\n        and C.\n    ctx: D.\n\nReturns:\n    E.",
     {"query": "A.", "limit": "B\nand C."}, "\n\nReturns: E."),
    ("Arguments:\n    query: A.\n\n        More.\n    other: B.", {"query": "A.\nMore."},
     "\n\nArguments:\n    other: B."),
    ("Parameters:\n    - `query`: A.\n    * **limit**: B.\n    + _hint: C.",
     {"query": "A.", "limit": "B.", "_hint": "C."}, ""),
    ("Params:\n    1. **`query`** - A.\n    2) **limit:** B.\n    (3) <$from> \u2014 C.",
     {"query": "A.", "limit": "B.", "start": "C."}, ""),
    ("Keyword Args:\n    \u2022 query, limit: A.\n    __hint__ => B.", {"query": "A.", "limit": "A."},
     "\n\nKeyword Args:\n    __hint__ => B."),
    ("Keyword Arguments:\n    query [int] -- A.\n    limit (from 1 to 9): B.",
     {"query": "A.", "limit": "(from 1 to 9) B."}, ""),
    ("Other Parameters:\n    query\n        A.\n    limit\n        B.", {"query": "A.", "limit": "B."}, ""),
    ("Args:\n    query: A.\n    More of it.\n    limit: B.", {"query": "A.\nMore of it.", "limit": "B."}, ""),
    ("Args:\n    | name | text |\n    query: A.", {"query": "A."}, "\n\nArgs:\n    | name | text |"),
    ("Args:\n    query: A.\n    ```\n    print(1)\n    ```", {"query": "A.\n```\nprint(1)\n```"}, ""),
    ("Args:\n    ctx: A.\n      B.\n    Words.\n    query: C.", {"query": "C."}, "\n\nArgs:\n    Words."),
    ("Args:\n    ctx: A.", {}, ""), ("Args:\n    other: A.", {}, "\n\nArgs:\n    other: A."),
    ("Args:\n    query (list[str], default: 5): A.\n    limit (a long story): B.",
     {"query": "A.", "limit": "(a long story) B."}, ""),
    ("Args:\n    TODO(me): A.\n    query: B.", {"query": "B."}, "\n\nArgs:\n    TODO(me): A."),
    ("Args:\n\nWords.", {}, "\n\nArgs:\n\nWords."),
    ("Args:\n    query" + ", query" * 200 + ":\n", {}, "\n\nArgs:\n    query" + ", query" * 200 + ":"),
    # NumPy
    ("Parameters\n---\nquery : int\n    A.\n    And B.\nctx : Context\n    D.\n\nNotes\n---\nE.",
     {"query": "A.\nAnd B."}, "\n\nNotes\n---\nE."),
    ("Parameters\n---\nquery : str, the words\n    A.\nother : int\n    B.", {"query": "(str, the words) A."},
     "\n\nParameters\n---\nother : int\n    B."),
    ("Parameters\n---\n    Words.\nquery : int\n    A.", {"query": "A."}, "\n\nParameters\n---\n    Words."),
    ("Parameters\n---\nquery : int\nlimit, start : int or str\n    C.", {"limit": "C.", "start": "C."}, ""),
    ("Params\n---\n**query** : int\n    A.", {"query": "A."}, ""),
    # reST
    (":param str query: A\n    and more.\n:type query: str\n:param ctx: B.\n:param other: C.",
     {"query": "A\nand more."}, "\n\n:param other: C."),
    (":param query: A.\n:type query: the words\n:param int limit: B.\n:return: C.",
     {"query": "A.\n(the words)", "limit": "B."}, "\n\nReturns: C."),
    (":param query, limit: A.", {"query": "A.", "limit": "A."}, ""),
    (":param $from:\n:param limit: B.", {"limit": "B."}, ""),
])  # fmt: skip
def test_docstring_texts_of_arguments_are_removed_and_others_remain(text, arguments, rest) -> None:
    documentation = read(f"Find.\n\n{text}", NAMES)
    assert documentation.arguments == arguments
    assert documentation.description == f"Find.{rest}"
