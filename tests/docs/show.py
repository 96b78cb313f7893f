"""Writes what the commands of pages print into the pages, where it is not what they show.

python -m tests.docs.show docs/cli/*.md
"""

import shlex
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from .pages import Block, Runner, fits


class Showing(Runner):
    """Runs a page, and keeps what its commands print."""

    def __init__(self, name: str, folder: Path) -> None:
        super().__init__(name, folder)
        self.printed: list[tuple[Block, str]] = []

    def _run_commands(self, block: Block) -> None:
        text = ""
        for command, shown in self._steps(block):
            printed = self._command(shlex.split(command, comments=True), block.line)
            is_as_shown = printed is None or fits(printed, shown)
            text += f"$ {command}\n" + (shown if is_as_shown else f"{(printed or '').rstrip()}\n")
        self.printed.append((block, text))


def shown(page: str, name: str) -> str:
    """Return a page with what its commands print now."""
    with TemporaryDirectory() as folder:
        runner = Showing(name, Path(folder))
        runner.run(page)
    for block, text in runner.printed:
        page = page.replace(f"```console\n{block.text}```", f"```console\n{text}```", 1)
    return page


if __name__ == "__main__":
    for each in map(Path, sys.argv[1:]):
        before = each.read_text()
        after = shown(before, each.name)
        if after != before:
            each.write_text(after)
            print(f"{each}: written anew")
