"""Published servers rewritten by `python -m mcpkit.compat.migrate`: whether they run, list and answer the same."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.integration.compat.migrate_judge import LISTS, answer, entry, key
from tests.compat_servers.servers import INSTALLED, Server
from tests.helpers.published.compare import Difference, compare
from tests.helpers.published.journey import Kit, Plan, Step
from tests.helpers.published.peers import Message

MARK = re.compile(r"^(?P<file>.*\.py):(?P<line>\d+): ")
ERROR = re.compile(r"\b(\w*(?:Error|Exception): [^│\n]*)")
ASKED = re.compile(r"(call \d|made up) ")
Journey = Callable[[Plan, Path | None], list[Step]]
"""Makes a journey with a server, whose sources are in a folder, or as they are installed."""

DIFFERS = {
    r"^[^:]*: 0\.told\.failed: .* / .*Internal error \(ref ": (
        "These calls fail before and after. mcpkit tells clients the text of an error that was raised for them, a "
        "`ToolError`, and of any other no more than that there was one: its text is in the log."
    ),
    r"validation errors? for \\?\w+Arguments": "Arguments that do not fit are refused in other words.",
    r': 0\.told: \["Error executing tool .* / .*Internal error ': (
        "The server makes answers of errors by a method `call_tool` of its own. It is marked, as natively nothing "
        "calls it."
    ),
    r"the tool ran, but ": (
        "The function returns something else than its return type says. mcpkit refuses that; version 1 does so in "
        "other words, or, where the type is a plain `dict`, passes it on."
    ),
    r"Traceback .*File ": "The answer has a traceback, with the files and lines of the server.",
}
"""What is otherwise once a server is rewritten, and why: by a regular expression for the request and both answers."""


@dataclass(frozen=True)
class Migrated:
    """How a server fared.

    Attributes:
        name: The server.
        files: How many files were rewritten.
        marks: How many places are marked for a person.
        left: Why nothing was rewritten, if nothing was.
        trouble: Why it does not start, if it does not.
        lists: How many lists are the same, of how many.
        asked: How many tools were called.
        equal: How many calls were answered the same.
        varying: How many answers have parts that differ between two runs of the server as it was.
        why: Why the others differ.
    """

    name: str
    files: int
    marks: int
    left: str = ""
    trouble: str = ""
    lists: tuple[int, int] = (0, 0)
    asked: int = 0
    equal: int = 0
    varying: int = 0
    why: Sequence[str] = ()
    differences: Sequence[Difference] = ()

    def line(self) -> str:
        """Say it in a line."""
        said = self.left or self.trouble
        if not said:
            same, of = self.lists
            said = f"{same} of {of} lists, {self.equal} of {self.asked} calls equal, {self.varying} vary; {self.why}"
        return f"{self.name:28} {self.files} files, {self.marks} marks: {said}"


class Asking(Plan):
    """The calls of a kit, and every other tool with made-up arguments."""

    def steps(self, listed: Mapping[str, list[Message]]) -> list[tuple[str, str, Message]]:
        """Return them as they were made for the first server."""
        return [step for step in super().steps(listed) if ASKED.match(step[0])]


def migrate(server: Server, kit: Kit, make: Journey, notes: Path) -> Migrated:
    """Rewrite the sources of a server in a folder of their own, run both, and compare what they say.

    Args:
        server: The server.
        kit: What it is asked.
        make: Makes the journeys.
        notes: Where what the server says on standard error comes.
    """
    with tempfile.TemporaryDirectory(prefix="migrated-") as name:
        folder = Path(name)
        copy(server.name, folder)
        done = subprocess.run(
            [sys.executable, "-m", "mcpkit.compat.migrate", str(folder), "--write"],
            check=False,
            capture_output=True,
            text=True,
        )
        said = done.stderr.splitlines()
        files = sum(line.startswith("+++ ") for line in done.stdout.splitlines())
        marks = sum(MARK.match(line) is not None for line in said)
        if not files:
            reasons = [line.partition(": ")[2] or line for line in said if not MARK.match(line)]
            left = reasons[0].partition(":")[0] if reasons else "nothing in it is rewritten"
            return Migrated(server.name, files, marks, left=left)
        plan = Asking(kit)
        own, again, ours = (make(plan, None), make(plan, None), make(plan, folder))
    if not _began(ours):
        errors = ERROR.findall(notes.read_text("utf-8", "replace"))
        return Migrated(server.name, files, marks, trouble=f"`{errors[-1].strip()}`" if errors else "it ends")
    return _judged(Migrated(server.name, files, marks), own, again, ours)


def copy(name: str, folder: Path) -> None:
    """Copy what an installed package brings, as it would be imported."""
    code = f"""
from importlib.metadata import distribution
found = distribution({name!r})
files = [file for file in found.files if not {{"..", "__pycache__"}} & set(file.parts)]
first = sorted({{file.parts[0] for file in files if not file.parts[0].endswith(".dist-info")}})
print(*(found.locate_file(each) for each in first), sep="\\n")
"""
    python = str(INSTALLED / name / "bin" / "python")
    found = subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout
    for place in map(Path, found.splitlines()):
        if place.is_dir():
            shutil.copytree(place, folder / place.name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(place, folder)


def _began(steps: Sequence[Step]) -> bool:
    return "result" in steps[0].heard[-1]


def _judged(fared: Migrated, own: Sequence[Step], again: Sequence[Step], ours: Sequence[Step]) -> Migrated:
    """Compare what was said, after the normalisation of `judge`."""
    sights = [[*_seen(steps)] for steps in (own, again, ours)]
    whole = compare(*sights, version="")
    different = {each.label for each in whole.differences}
    listed = [step.label for step in sights[0] if step.label in LISTS]
    asked = len(sights[0]) - len(listed)
    return Migrated(
        fared.name,
        fared.files,
        fared.marks,
        lists=(len(listed) - len(different.intersection(listed)), len(listed)),
        asked=asked,
        equal=asked - len(different.difference(listed)),
        varying=whole.varying,
        why=sorted({why(each) for each in whole.differences}),
        differences=[each for each in whole.differences if why(each).startswith("**")],
    )


def why(difference: Difference) -> str:
    """Say why an answer may differ."""
    place = f"{difference.label}: {difference.path}: {difference.own} / {difference.ours}"
    found = (told for pattern, told in DIFFERS.items() if re.search(pattern, place, re.DOTALL))
    return next(found, f"**unexplained**: `{difference.label}`")


def _seen(steps: Sequence[Step]) -> Iterator[Step]:
    """Return the lists, whole, and the answers, as `judge` sees them."""
    lists: dict[str, dict[str, Any]] = {method: {} for method in LISTS}
    for step in steps:
        if step.label in LISTS:
            result = step.heard[-1].get("result", {})
            lists[step.label] |= {key(each): entry(each) for each in result.get(LISTS[step.label], [])}
    for method, found in lists.items():
        yield Step(method, [found])
    for step in steps:
        if ASKED.match(step.label):
            last = step.heard[-1] if step.heard else {}
            told: Any = answer(last) if {"result", "error"} & last.keys() else last
            yield Step(step.label, [{"told": told}])
