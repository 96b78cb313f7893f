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
    assert read(text) == (None, {})


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


def test_the_parser_is_imported_for_sections_only() -> None:
    code = (
        "import sys; from mcpkit.schema.docstring import read; read('Just text.\\n\\nMore.');"
        "assert 'docstring_parser' not in sys.modules;"
        "read('X.\\n\\nArgs:\\n    a: b\\n'); assert 'docstring_parser' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
