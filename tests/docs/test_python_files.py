"""Each Python block of the documentation is a program: it runs when a reader saves it as a file.

The blocks with a title that stand above it on the page are saved beside it, since it may import them.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

from .pages import ROOT, blocks_of

MAX_SECONDS = 60
"""A block takes one or two; a busy machine takes longer."""

NOT_DONE = {
    "docs/client/authentication.md",
    "docs/guides/argument-types.md",
    "docs/guides/change-notifications.md",
    "docs/guides/client-capabilities.md",
    "docs/guides/context.md",
    "docs/guides/dependencies.md",
    "docs/guides/header-arguments.md",
    "docs/guides/progress-and-logging.md",
    "docs/guides/prompts.md",
    "docs/guides/providers.md",
    "docs/guides/resources.md",
    "docs/guides/rich-content.md",
    "docs/guides/testing.md",
    "docs/guides/timeouts-and-cancellation.md",
}
"""Pages with blocks that continue a block above them. Remove a page when all of its blocks are programs; add none."""

NOT_ALONE = {
    ("docs/cookbook/search-files.md", "server.py"): "it serves the files that the program above it writes",
    ("docs/learn/add-login.md", "log_in.py"): "it connects to the server above it, which the reader starts",
}


class Program(NamedTuple):
    """A Python block, and the files that the page shows above it."""

    page: str
    line: int
    name: str
    text: str
    files: dict[str, str]


def programs() -> Iterator[Program]:
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        files: dict[str, str] = {}
        for block in blocks_of(page.read_text()):
            if block.language not in {"python", "json"}:
                continue
            name = block.title or "example.py"
            page_name = str(page.relative_to(ROOT))
            if block.language == "python" and block.is_run and (page_name, name) not in NOT_ALONE:
                yield Program(page_name, block.line, name, block.text, dict(files))
            if block.title is not None:
                files[block.title] = block.text


def fault(program: Program, folder: Path) -> str | None:
    """Run a program in an empty folder and return the last line of its error."""
    folder.mkdir()
    for name, text in {**program.files, program.name: program.text}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    # A server over HTTP runs until it is stopped, and at a fixed port, so it is loaded without `__main__`.
    is_http_server = '.run("http"' in program.text
    load = ["-c", "import runpy, sys; runpy.run_path(sys.argv[1])"] if is_http_server else []
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    try:
        done = subprocess.run(
            [sys.executable, *load, program.name],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), "PATH": path},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=MAX_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return f"it runs for more than {MAX_SECONDS} seconds"
    return (
        done.stderr.strip().rpartition("\n")[2] or f"exit status {done.returncode}"
        if done.returncode
        else None
    )


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_python_blocks_run_as_files(tmp_path: Path) -> None:
    all_programs = list(programs())
    folders = [tmp_path / str(number) for number in range(len(all_programs))]

    with ThreadPoolExecutor(os.cpu_count()) as executor:
        found = list(executor.map(fault, all_programs, folders))

    faulty = [(program, text) for program, text in zip(all_programs, found, strict=True) if text is not None]
    unexpected = [
        f"{program.page}:{program.line}: {text}" for program, text in faulty if program.page not in NOT_DONE
    ]
    assert not unexpected, "\n".join(unexpected)
    done = NOT_DONE - {program.page for program, _ in faulty}
    assert not done, f"all blocks of these pages run now: remove {sorted(done)} from NOT_DONE"
