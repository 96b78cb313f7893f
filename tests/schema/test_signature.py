"""Signatures and docstrings of callables."""

from __future__ import annotations

import functools
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Annotated, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field

from mcpkit.common.errors import RegistrationError
from mcpkit.schema import Arguments, Signature, UnresolvedHint
from mcpkit.schema.docstring import read
from mcpkit.schema.parameters import empty
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


def test_signature_injected_parameter_is_no_argument() -> None:
    signature = signature_of(coroutine)
    assert [p.name for p in signature.injected] == ["ctx"]
    assert [p.name for p in signature.parameters] == ["city"]
    assert signature.is_async
    assert signature.returns is type(None)


def test_signature_of_partial_omits_bound_arguments() -> None:
    assert names(functools.partial(plain, "here")) == ["days", "unit"]
    assert names(functools.partial(plain, days=1)) == ["city", "unit"]
    assert names(functools.partial(functools.partial(plain, days=1), unit="f")) == ["city"]
    assert signature_of(functools.partial(coroutine, city="x")).is_async
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


def test_signature_star_args_are_refused() -> None:
    def f(*cities: str) -> None: ...

    with pytest.raises(RegistrationError, match=r"f: .*\*cities.*write `cities: list\[\.\.\.\]`"):
        signature_of(f)


def test_signature_positional_only_is_refused() -> None:
    def f(city: str, /) -> None: ...

    with pytest.raises(RegistrationError, match=r"f: .*'city'.*remove the `/`"):
        signature_of(f)


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


@each_row(
    "text",
    [
        "Add.\n\nReturns:\n    The sum\n    of both.", "Add.\n\nReturns: The sum\n    of both.",
        "Add.\n\n    Returns:\n        int: The sum\n        of both.\n    ",
        "Add.\n\nReturn:\n    list[int]: The sum\n    of both.",
        "Add.\n\nReturns\n-------\nint\n    The sum\n    of both.\n",
        "Add.\n\nReturns\n-------\nThe sum\nof both.\n", "Add.\n\n:returns: The sum\n    of both.\n:rtype: int",
        "Add.\n\n:param a: One.\n:return: The sum\n    of both.",
        "Add.\n\nArgs:\n    a: One.\n\nReturns:\n    The sum\n    of both.\n",
        "Add.\n\nParameters\n----------\na : int\n    One.\n\nReturns\n-------\nint\n    The sum\n    of both.",
    ],
)  # fmt: skip
def test_docstring_returns_section_in_all_styles(text: str) -> None:
    assert read(text).description == "Add.\n\nReturns: The sum\nof both."


@each_row(
    ("text", "description"),
    [
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
    ],
)  # fmt: skip
def test_docstring_other_result_sections(text: str, description: str) -> None:
    assert read(text).description == description


DRAWN = settings(derandomize=True)


NAMES = {
    "query": "query", "limit": "limit", "_hint": "_hint", "$from": "start", "start": "start", "ctx": None,
}  # fmt: skip


HEADINGS = ["Args:", "Arguments:", "Parameters:", "Params:", "Keyword Args:", "Other Parameters:"]


MARKS = ["", "- ", "* ", "+ ", "\N{BULLET} ", "1. ", "2) ", "(3) "]


DECORATIONS = ["{}", "`{}`", "``{}``", "**{}**", "*{}*", '"{}"', "'{}'", "__{}__", "**`{}`**", "<{}>"]


KINDS = [
    "", " (str)", " (str, optional)", " (required)", " [int]", " (list[str], default: 5)", " (from 1 to #)",
]  # fmt: skip


COLONS = [": ", " : ", ":", " - ", " -- ", " \N{EN DASH} ", " \N{EM DASH} ", " => "]


NOISE = [
    "| name | # |", "Free words # here.", "```python", "# print(#)", "***", "TODO(me): #", "(#", "[x] #", "#,,",
]  # fmt: skip


@st.composite
def docstrings(draw: st.DrawFn) -> tuple[str, dict[str, list[str]]]:
    """Draw a docstring, and the unique words in it by the name that they are about; those of no argument by ""."""
    numbers = count(1)
    words: dict[str, list[str]] = {}

    def text(about: str, pattern: str = "#") -> str:
        while "#" in pattern:
            word = f"WORD{next(numbers)}X"
            words.setdefault(about, []).append(word)
            pattern = pattern.replace("#", word, 1)
        return pattern

    def entry(inner: str, deeper: str, *, is_numpy: bool) -> list[str]:
        if draw(st.integers(0, 4)) == 0:
            return [inner + text("", draw(st.sampled_from(NOISE)))]
        name = draw(st.sampled_from([*NAMES, "other"]))
        about = "" if name == "other" else NAMES[name] or "hidden"
        if is_numpy:
            return [f"{name} : int", deeper + text(about), deeper + text(about, "And #.")]
        kind = draw(st.sampled_from(KINDS))
        if is_plain:
            lines = [inner + name + text(about, kind) + ": " + text(about)]
        else:
            lines = [inner + draw(st.sampled_from(MARKS)) + draw(st.sampled_from(DECORATIONS)).format(name)]
            lines[0] += text(about, kind) + draw(st.sampled_from(COLONS)) + text(about)
        for more in draw(st.lists(st.sampled_from([inner, deeper, deeper + "  ", ""]), max_size=2)):
            lines += [more + text(about, "and #")] if more else ["", deeper + text(about)]
        return lines

    style = draw(st.sampled_from(["google", "numpy", "rest"]))
    lines = [text("", draw(st.sampled_from(["Find.", "Find.\n\nMore #.", ""])))]
    for _ in range(draw(st.integers(1, 2))):
        is_plain = draw(st.booleans())
        if style == "google":
            lines += ["", draw(st.sampled_from(HEADINGS))]
            for _ in range(draw(st.integers(1, 4))):
                lines += entry("    ", "        ", is_numpy=False)
        elif style == "numpy":
            lines += ["", "Parameters", "----------", *(["    " + text("")] if is_plain else [])]
            for _ in range(draw(st.integers(1, 4))):
                lines += entry("", "    ", is_numpy=True)
        else:
            name = draw(st.sampled_from([*NAMES, "other"]))
            about = "" if name == "other" else NAMES[name] or "hidden"
            lines += [f":param str {name}: {text(about)}", f"    {text(about)}", f":type {name}: str", ""]
        after = draw(st.sampled_from(["", "Returns:\n    A #.", "Raises:\n    ValueError: #"]))
        lines += ["", text("", after)]
    return "\n".join(lines), words


@DRAWN
@given(docstrings())
def test_docstring_no_text_is_lost(drawn: tuple[str, dict[str, list[str]]]) -> None:
    text, words = drawn
    documentation = read(text, NAMES)
    description = documentation.description or ""
    for name, each in words.items():
        if name == "hidden":
            continue
        place = documentation.arguments.get(name, "") if name else description
        lost = [word for word in each if word not in place]
        assert all(word in str(documentation.arguments) + description for word in lost), (text, lost)
        if name:  # after a line that begins nothing known, what goes on there is no text of an argument
            assert each[0] in place, (text, name, documentation.arguments)
