"""Reads and runs the examples of a Markdown page.

- Blocks marked `python` run in order, in one namespace for each page and in the page's own folder.
- One with `title="name.py"` is saved under that name instead and imported, so that later blocks can import it.
- What a block prints stands in a block with `title="Output"` that follows it. In it `...` stands for any text within
  a line, for what differs from run to run.
- In `console` blocks the lines that begin with `$` are commands; what they print follows. Those of `mcpkit` may fail:
  both of their outputs are shown, as in a terminal of 100 columns, and `$ echo $?` after them shows their status.
- `json` must be JSON; one with `title="name.json"` is saved under that name, too.
- A block under a comment `<!-- not run: reason -->` is not run; under its title it is saved, so that commands find it.
- A line `--8<-- "docs_src/..."` in a block stands for that file, as on the built page.
"""

import contextlib
import importlib
import io
import json
import linecache
import logging
import os
import re
import shlex
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]

_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*)(?P<options>[^\n`]*)$")
_INCLUDED = re.compile(r'--8<-- "(docs_src/[^"]+)"\n')
_TITLE = re.compile(r'title="([^"]*)"')
_NOT_RUN = re.compile(r"<!-- not run: (\S.*) -->")
_RUNNABLE = {"python", "console", "json"}
SHOWN_ONLY = {"text", "diff"}


class WrongPageError(AssertionError):
    """An example of a page has another result than the page shows."""


class Block(NamedTuple):
    """A fenced block of a page."""

    line: int
    """The line of its first line of text, from 1."""
    language: str
    title: str | None
    text: str
    reason: str | None
    """Why it is not run."""

    @property
    def is_run(self) -> bool:
        return self.reason is None

    @property
    def is_output(self) -> bool:
        return self.title == "Output"


def blocks_of(page: str) -> Iterator[Block]:
    """Give the fenced blocks of a page in order."""
    lines = page.split("\n")
    before = ""
    number = 0
    while number < len(lines):
        fence = _FENCE.match(lines[number])
        if fence is None:
            before = lines[number].strip() or before
            number += 1
            continue
        start = number + 1
        end = start
        while lines[end].strip() != "```":
            end += 1
            if end == len(lines):
                raise WrongPageError(f"line {start}: the block has no end")
        indent = len(fence["indent"])
        text = "".join(f"{line[indent:]}\n" for line in lines[start:end])
        text = _INCLUDED.sub(lambda found: (ROOT / found[1]).read_text(), text)
        title = _TITLE.search(fence["options"])
        mark = _NOT_RUN.fullmatch(before)
        reason = mark[1] if mark else None
        yield Block(start + 1, fence["language"], title[1] if title else None, text, reason)
        before = ""
        number = end + 1


def _loggers() -> dict[logging.Logger, tuple[int, list[logging.Handler]]]:
    """Return level and handlers of all loggers that there are."""
    found = [each for each in logging.root.manager.loggerDict.values() if isinstance(each, logging.Logger)]
    return {logger: (logger.level, list(logger.handlers)) for logger in found}


class Runner:
    """Runs the blocks of one page.

    Args:
        name: The page's name, for messages.
        folder: An empty folder in which its files are written and its commands run.
    """

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self._folder = folder
        self._module = types.ModuleType("page_" + re.sub(r"\W", "_", name))
        self._printed: str | None = None
        self._status = 0
        self._imported: list[str] = []

    def run(self, page: str) -> int:
        """Run the page and return how many blocks were run.

        Raises:
            WrongPageError: A result differs from the page; the message names page and line.
            Exception: Whatever an example raises.
        """
        modules = dict(sys.modules)
        loggers = _loggers()
        old_folder = Path.cwd()
        old_path = os.environ["PATH"]
        # So that what a page starts as `python` is the one that runs the page.
        os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{old_path}"
        sys.modules[self._module.__name__] = self._module
        sys.path.insert(0, str(self._folder))
        os.chdir(self._folder)
        try:
            count = sum(self._run(block) for block in blocks_of(page))
            self._check_shown(page.count("\n") + 1)
            return count
        finally:
            os.chdir(old_folder)
            os.environ["PATH"] = old_path
            sys.path.remove(str(self._folder))
            del sys.modules[self._module.__name__]
            for name in self._imported:
                sys.modules.pop(name, None)
                if name in modules:
                    sys.modules[name] = modules[name]
            for logger, (_, handlers) in _loggers().items():
                old_level, old_handlers = loggers.get(logger, (logging.NOTSET, []))
                logger.setLevel(old_level)
                for handler in set(handlers) - set(old_handlers):
                    logger.removeHandler(handler)

    def _run(self, block: Block) -> bool:
        if block.is_output:
            self._compare(block)
            return False
        self._check_shown(block.line)
        if not block.is_run or block.language in SHOWN_ONLY:
            if block.language == "python" and block.title is not None:
                (self._folder / block.title).write_text(block.text)
            return False
        if block.language not in _RUNNABLE:
            raise self._wrong(block.line, f"a block of {block.language or 'no language'} cannot be run")
        if block.language == "json":
            self._parse(block)
        elif block.language == "console":
            self._run_commands(block)
        elif block.title is not None:
            self._printed = self._import(block, block.title.removesuffix(".py"))
        else:
            self._printed = self._capture(block.text, block.line)
        return True

    def _import(self, block: Block, name: str) -> str:
        (self._folder / f"{name}.py").write_text(block.text)
        importlib.invalidate_caches()
        sys.modules.pop(name, None)  # a module of another test may go by the same name
        self._imported.append(name)
        return self._capture(f"import {name}\n", block.line)

    def _capture(self, source: str, line: int) -> str:
        file = f"{self.name}:{line}"
        linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            exec(compile(source, file, "exec"), self._module.__dict__)
        return output.getvalue()

    def _compare(self, block: Block) -> None:
        if self._printed is None:
            raise self._wrong(block.line, "no example stands before this output")
        if not fits(self._printed, block.text):
            raise self._wrong(
                block.line, f"the page shows\n{block.text}\nbut the example printed\n{self._printed}"
            )
        self._printed = None

    def _check_shown(self, line: int) -> None:
        if self._printed:
            raise self._wrong(line, f"the output of the example before is not shown:\n{self._printed}")
        self._printed = None

    def _parse(self, block: Block) -> None:
        try:
            json.loads(block.text)
        except ValueError as error:
            raise self._wrong(block.line, f"not JSON: {error}") from None
        if block.title is not None:
            (self._folder / block.title).write_text(block.text)

    def _run_commands(self, block: Block) -> None:
        for command, shown in self._steps(block):
            printed = self._command(shlex.split(command, comments=True), block.line)
            if printed is not None and not fits(printed, shown):
                raise self._wrong(
                    block.line, f"`{command}` is shown to print\n{shown}\nbut it printed\n{printed}"
                )

    def _steps(self, block: Block) -> Iterator[tuple[str, str]]:
        """Give the commands of a console block, and what each is shown to print."""
        steps = re.split(r"^\$ ", block.text, flags=re.MULTILINE)
        if steps[0] or len(steps) == 1:
            raise self._wrong(block.line, "a console block begins with a command: `$ ...`")
        for step in steps[1:]:
            command, _, shown = step.partition("\n")
            yield command, shown

    def _command(self, words: list[str], line: int) -> str | None:
        """Run `python ...` and `mcpkit ...`, check `make ...`, whose output is checked where its target is tested."""
        if words == ["echo", "$?"]:
            return f"{self._status}\n"
        if words[0] == "cat":
            return "".join((self._folder / name).read_text() for name in words[1:])
        if words[0] == "mcpkit":
            return self._mcpkit(words[1:])
        if words[0] == "make":
            targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
            for word in words[1:]:
                if "=" not in word and word not in targets:
                    raise self._wrong(line, f"the Makefile has no target {word}")
            return None
        if words[0] != "python":
            raise self._wrong(line, f"`{words[0]}` is not run; say why in a comment <!-- not run: ... -->")
        done = self._python(words[1:], PY_COLORS="0")
        if done.returncode:
            raise self._wrong(line, f"`{shlex.join(words)}` failed:\n{done.stdout}{done.stderr}")
        return done.stdout

    def _python(self, words: list[str], stderr: int = subprocess.PIPE, **settings: str) -> Any:
        return subprocess.run(
            [sys.executable, *words],
            cwd=self._folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), **settings},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            timeout=60,
        )

    def _mcpkit(self, words: list[str]) -> str:
        home = self._folder / ".home"
        home.mkdir(exist_ok=True)
        settings = {"COLUMNS": "100", "NO_COLOR": "1", "HOME": str(home)}
        done = self._python(["-m", "mcpkit", *words], subprocess.STDOUT, **settings)
        self._status = done.returncode
        return done.stdout

    def _wrong(self, line: int, message: str) -> WrongPageError:
        return WrongPageError(f"{self.name}, line {line}: {message}")


def fits(printed: str, shown: str) -> bool:
    """Return whether a page shows the output."""
    pattern = ".*".join(map(re.escape, _tidy(shown).split("...")))
    return re.fullmatch(pattern, _tidy(printed)) is not None


def _tidy(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip("\n").split("\n"))
