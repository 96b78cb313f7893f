"""What is read from a docstring, in each of the three styles."""

from __future__ import annotations

import subprocess
import sys

import pytest

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
