"""Docstrings in each of the three styles, and as authors write them: no text of an argument is lost."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import count, product

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcpkit.schema.docstring import read

GOOGLE = """Get the forecast.

    It is for one place.

    Args:
        latitude (float): Degrees north,
            from -90 to 90.
        **extra: Anything else.

    Returns:
        The forecast.

    Note:
        Only in the US.
    """
NUMPY = """Get the forecast.

    It is for one place.

    Parameters
    ----------
    latitude : float
        Degrees north,
        from -90 to 90.
    **extra
        Anything else.

    Returns
    -------
    str
        The forecast.

    Notes
    -----
    Only in the US.
    """
REST = """Get the forecast.

    It is for one place.

    :param latitude: Degrees north,
        from -90 to 90.
    :type latitude: float
    :param extra: Anything else.
    :returns: The forecast.

    Only in the US.
    """


@pytest.mark.parametrize("text", [GOOGLE, NUMPY, REST], ids=["google", "numpy", "rest"])
def test_each_argument_has_its_text(text: str) -> None:
    arguments = read(text).arguments
    assert " ".join(arguments["latitude"].split()) == "Degrees north, from -90 to 90."
    assert arguments["extra"] == "Anything else."


@pytest.mark.parametrize("text", [GOOGLE, NUMPY, REST], ids=["google", "numpy", "rest"])
def test_the_description_is_all_but_the_argument_sections(text: str) -> None:
    description = read(text).description
    assert description is not None
    assert description.startswith("Get the forecast.\n\nIt is for one place.\n\n")
    assert "latitude" not in description
    assert "Anything else" not in description
    assert description.endswith("Only in the US.")


@pytest.mark.parametrize("text", [GOOGLE, NUMPY, REST], ids=["google", "numpy", "rest"])
def test_what_is_said_of_the_result_stays_in_the_description(text: str) -> None:
    assert "The forecast." in (read(text).description or "")


@pytest.mark.parametrize("text", [None, "", "   "])
def test_no_docstring_is_no_description(text: str | None) -> None:
    documentation = read(text)
    assert documentation.description is None
    assert documentation.arguments == {}


def test_a_docstring_without_sections_is_kept_as_it_is() -> None:
    assert read("Do it.\n\n    - one\n    - two\n\n    More: words.").description == (
        "Do it.\n\n- one\n- two\n\nMore: words."
    )


def test_several_numpy_arguments_share_a_text() -> None:
    assert read("X.\n\nParameters\n----------\na, b : int\n    Both.\n").arguments == {
        "a": "Both.",
        "b": "Both.",
    }


@pytest.mark.parametrize("header", ["Args", "Arguments", "Parameters", "Params", "Keyword Args"])
def test_google_headers_have_many_names(header: str) -> None:
    assert read(f"X.\n\n{header}:\n    a: The a.\n").arguments == {"a": "The a."}


def test_a_section_that_cannot_be_read_stays_in_the_description() -> None:
    documentation = read("X.\n\nArgs:\n    nothing of the kind\n")
    assert documentation.arguments == {}
    assert "nothing of the kind" in (documentation.description or "")


def test_a_line_that_only_looks_like_a_header_is_text() -> None:
    assert read("X.\n\nArgs:\nnot indented").description == "X.\n\nArgs:\nnot indented"


@pytest.mark.slow
def test_the_parser_is_imported_for_sections_only() -> None:
    code = (
        "import sys; from mcpkit.schema.docstring import read; read('Just text.\\n\\nMore.');"
        "assert 'docstring_parser' not in sys.modules;"
        "read('X.\\n\\nArgs:\\n    a: b\\n'); assert 'docstring_parser' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    "text",
    [
        "Add.\n\nReturns:\n    The sum\n    of both.",
        "Add.\n\nReturns: The sum\n    of both.",
        "Add.\n\n    Returns:\n        int: The sum\n        of both.\n    ",
        "Add.\n\nReturn:\n    list[int]: The sum\n    of both.",
        "Add.\n\nReturns\n-------\nint\n    The sum\n    of both.\n",
        "Add.\n\nReturns\n-------\nThe sum\nof both.\n",
        "Add.\n\n:returns: The sum\n    of both.\n:rtype: int",
        "Add.\n\n:param a: One.\n:return: The sum\n    of both.",
        "Add.\n\nArgs:\n    a: One.\n\nReturns:\n    The sum\n    of both.\n",
        "Add.\n\nParameters\n----------\na : int\n    One.\n\nReturns\n-------\nint\n    The sum\n    of both.",
    ],
)
def test_what_is_returned_reads_alike_in_all_styles(text: str) -> None:
    assert read(text).description == "Add.\n\nReturns: The sum\nof both."


@pytest.mark.parametrize(
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
        ("Returns the sum of both.", "Returns the sum of both."),
        ("Add.\n\n:rtype: int", "Add."),
        ("Add.\n\nReturns:", "Add."),
    ],
)
def test_other_words_about_the_result(text: str, description: str) -> None:
    assert read(text).description == description


DRAWN = settings(
    max_examples=int(os.environ.get("MCPKIT_TEST_EXAMPLES", "200")),
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
NAMES = {
    "query": "query",
    "limit": "limit",
    "_hint": "_hint",
    "$from": "start",
    "start": "start",
    "ctx": None,
}
HEADINGS = ["Args:", "Arguments:", "Parameters:", "Params:", "Keyword Args:", "Other Parameters:"]
MARKS = ["", "- ", "* ", "+ ", "\N{BULLET} ", "1. ", "2) ", "(3) "]
DECORATIONS = ["{}", "`{}`", "``{}``", "**{}**", "*{}*", '"{}"', "'{}'", "__{}__", "**`{}`**", "<{}>"]
KINDS = [
    "",
    " (str)",
    " (str, optional)",
    " (required)",
    " [int]",
    " (list[str], default: 5)",
    " (from 1 to #)",
]
COLONS = [": ", " : ", ":", " - ", " -- ", " \N{EN DASH} ", " \N{EM DASH} ", " => "]
NOISE = [
    "| name | # |",
    "Free words # here.",
    "```python",
    "# print(#)",
    "***",
    "TODO(me): #",
    "(#",
    "[x] #",
    "#,,",
]


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
def test_no_text_is_lost_however_it_is_written(drawn: tuple[str, dict[str, list[str]]]) -> None:
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


def test_an_argument_in_a_list_and_in_any_decoration_has_its_text() -> None:
    for mark, decoration, colon in product(MARKS, DECORATIONS, COLONS):
        lines = [f"    {mark}{decoration.format(name)}{colon}The {name}." for name in ("query", "limit")]
        documentation = read("\n".join(["Find.", "", "Args:", *lines]), NAMES)
        assert documentation.arguments == {"query": "The query.", "limit": "The limit."}, lines
        assert documentation.description == "Find."


def test_a_name_that_is_no_parameter_stays_in_the_description() -> None:
    documentation = read("Find.\n\nArgs:\n    query: What.\n    nme: The name.\n    ctx: The context.", NAMES)
    assert documentation.arguments == {"query": "What."}
    assert documentation.description == "Find.\n\nArgs:\n    nme: The name."
