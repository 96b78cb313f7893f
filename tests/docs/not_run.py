"""Writes the list of examples that are not run, `docs/project/examples.md`, from the marks in the pages.

python -m tests.docs.not_run
"""

from collections.abc import Iterator

from .pages import ROOT, Block, blocks_of

PAGE = ROOT / "docs" / "project" / "examples.md"

HEAD = """# Examples that are not run

The tests run every code block of the documentation, and compare what it prints with the page. A few blocks cannot
run in the tests: they need an account, a service, or a program of another project. This page lists them, with the
reason that stands before each block in the page. `make house` writes this page from the marks.
"""


def not_run() -> Iterator[tuple[str, Block]]:
    """Yield each block that is not run, with the path of its page from `docs/`."""
    for page in sorted((ROOT / "docs").rglob("*.md")):
        for block in blocks_of(page.read_text()):
            if block.reason:
                yield page.relative_to(ROOT / "docs").as_posix(), block


def table(blocks: list[tuple[str, Block]]) -> str:
    """Return the rows of blocks."""
    rows = [
        f"| [{page}](../{page}) | {f'`{block.title}`' if block.title else block.language} | {block.reason} |"
        for page, block in blocks
    ]
    return "\n".join(["| page | block | reason |", "| --- | --- | --- |", *rows, ""])


def text() -> str:
    """Return the page."""
    blocks = list(not_run())
    python = [each for each in blocks if each[1].language == "python"]
    others = [each for each in blocks if each[1].language != "python"]
    return f"{HEAD}\n## Python\n\n{table(python)}\n## Commands and configuration\n\n{table(others)}"


if __name__ == "__main__":
    PAGE.write_text(text())
