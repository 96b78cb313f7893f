"""The runner of examples finds what is wrong on a page."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from textwrap import dedent

import pytest

from .pages import Runner, WrongPageError
from .show import shown


def run(page: str, folder: Path) -> int:
    return Runner("page.md", folder).run(dedent(page))


def test_a_page_that_is_right_passes(tmp_path: Path) -> None:
    page = """
        ```python
        x = 6
        ```

        ```python
        import asyncio

        await asyncio.sleep(0)
        print(x * 7)
        ```

        ```text title="Output"
        42
        ```
        """

    assert run(page, tmp_path) == 2


def test_a_wrong_output_fails_with_its_line(tmp_path: Path) -> None:
    page = """
        ```python
        print(6 * 7)
        ```

        ```text title="Output"
        41
        ```
        """

    with pytest.raises(WrongPageError, match=r"page\.md, line 7: the page shows\n41\n\nbut .* printed\n42"):
        run(page, tmp_path)


def test_an_output_that_is_not_shown_fails(tmp_path: Path) -> None:
    with pytest.raises(WrongPageError, match="is not shown"):
        run("```python\nprint(42)\n```\n", tmp_path)


def test_an_output_that_nothing_printed_fails(tmp_path: Path) -> None:
    with pytest.raises(WrongPageError, match="no example stands before"):
        run('```text title="Output"\n42\n```\n', tmp_path)


def test_an_output_of_silence_fails(tmp_path: Path) -> None:
    with pytest.raises(WrongPageError, match="the page shows\n42"):
        run('```python\nx = 42\n```\n\n```text title="Output"\n42\n```\n', tmp_path)


def test_an_example_that_raises_fails(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        run("```python\n1 / 0\n```\n", tmp_path)


def test_dots_stand_for_text_within_one_line(tmp_path: Path) -> None:
    shown = '\n```text title="Output"\nref ...)\n```\n'

    assert run("```python\nprint('ref 1a2b)')\n```\n" + shown, tmp_path) == 1
    with pytest.raises(WrongPageError):
        run("```python\nprint('ref 1a\\n2b)')\n```\n" + shown, tmp_path)


def test_a_titled_example_is_a_module_for_those_that_follow(tmp_path: Path) -> None:
    page = """
        ```python title="answer.py"
        answer = 42
        ```

        ```python
        from answer import answer

        print(answer)
        ```

        ```text title="Output"
        42
        ```

        ```console
        $ python -c "import answer; print(answer.answer)"
        42
        ```
        """

    assert run(page, tmp_path) == 3


def test_modules_of_a_page_hide_no_others_and_do_not_stay(tmp_path: Path) -> None:
    other = sys.modules["answer"] = types.ModuleType("answer")
    try:
        assert (
            run('```python title="answer.py"\nx = 1\n```\n\n```python\nfrom answer import x\n```\n', tmp_path)
            == 2
        )
        assert sys.modules["answer"] is other
    finally:
        del sys.modules["answer"]


def test_a_command_with_a_wrong_output_fails(tmp_path: Path) -> None:
    with pytest.raises(WrongPageError, match="but it printed\n42"):
        run("```console\n$ python -c 'print(42)'\n41\n```\n", tmp_path)


def test_a_command_that_fails_fails(tmp_path: Path) -> None:
    with pytest.raises(WrongPageError, match="no_such_file"):
        run("```console\n$ python no_such_file.py\n```\n", tmp_path)


def test_what_mcpkit_says_is_shown_with_its_status(tmp_path: Path) -> None:
    page = """
        ```console
        $ mcpkit lst
        Usage: mcpkit ...
        mcpkit: there is no command lst; did you mean list?
        $ echo $?
        1
        $ mcpkit --version
        mcpkit ...
        $ echo $?
        0
        ```
        """

    assert run(page, tmp_path) == 1
    with pytest.raises(WrongPageError, match="did you mean list"):
        run("```console\n$ mcpkit lst\n```\n", tmp_path)
    with pytest.raises(WrongPageError, match="but it printed\n1"):
        run("```console\n$ mcpkit lst\n...\n...\n$ echo $?\n0\n```\n", tmp_path)


def test_what_commands_print_is_written_into_a_page() -> None:
    page = "# Help\n\n```console\n$ mcpkit --version\nmcpkit ...\n$ mcpkit lst\nold\n```\n"
    now = shown(page, "page.md")
    assert "$ mcpkit --version\nmcpkit ...\n$ mcpkit lst\nUsage: mcpkit" in now
    assert now.endswith("did you mean list?\n```\n")
    assert shown(now, "page.md") == now


def test_a_target_that_the_makefile_lacks_fails(tmp_path: Path) -> None:
    with pytest.raises(WrongPageError, match="no target coffee"):
        run("```console\n$ make coffee\n```\n", tmp_path)


def test_json_that_is_none_fails(tmp_path: Path) -> None:
    with pytest.raises(WrongPageError, match="not JSON"):
        run("```json\n{'a': 1}\n```\n", tmp_path)


@pytest.mark.parametrize("block", ["```sh\nrm x\n```\n", "```console\n$ rm x\n```\n", "```\nx\n```\n"])
def test_what_cannot_be_run_fails_unless_the_page_says_why(block: str, tmp_path: Path) -> None:
    with pytest.raises(WrongPageError):
        run(block, tmp_path)

    assert run(f"<!-- not run: it needs a file -->\n\n{block}", tmp_path) == 0


def test_what_is_not_run_is_there_for_commands(tmp_path: Path) -> None:
    page = """
        <!-- not run: the command below runs it -->

        ```python title="told.py"
        print(6 * 7)
        ```

        ```console
        $ python told.py
        42
        ```
        """

    assert run(page, tmp_path) == 1


def test_a_block_without_an_end_fails(tmp_path: Path) -> None:
    with pytest.raises(WrongPageError, match="no end"):
        run("```python\nx = 1\n", tmp_path)
