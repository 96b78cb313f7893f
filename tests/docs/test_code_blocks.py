"""Rules for Python blocks of the documentation: each compiles as a file, and is at most 80 columns wide."""

from collections.abc import Iterator

from .not_run import PAGE, not_run, text
from .pages import ROOT, Block, blocks_of

MAX_COLUMNS = 80
MAX_NOT_RUN = 15


def python_blocks() -> Iterator[tuple[str, Block]]:
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        for block in blocks_of(page.read_text()):
            if block.language == "python":
                yield f"{page.relative_to(ROOT)}:{block.line}", block


def test_python_blocks_compile_as_files_and_are_narrow() -> None:
    faults = []
    for place, block in python_blocks():
        try:
            compile(block.text, place, "exec")
        except SyntaxError as error:  # also an `await` outside a function
            faults.append(f"{place}: {error}")
        width = max(map(len, block.text.splitlines()))
        if width > MAX_COLUMNS:
            faults.append(f"{place}: {width} columns")
    assert not faults, "\n".join(faults)


def test_few_python_blocks_are_not_run() -> None:
    places = [
        f"{page}:{block.line}: {block.reason}" for page, block in not_run() if block.language == "python"
    ]
    assert len(places) <= MAX_NOT_RUN, "\n".join(places)


def test_page_lists_examples_that_are_not_run() -> None:
    assert PAGE.read_text() == text(), "run `make house`"
