"""Test suites of published servers, and servers that are migrated: how they fare under mcpkit."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.compat_servers.peers import Difference, Kit, Message, Plan, Step, compare
from tests.compat_servers.servers import INSTALLED, ROOT_FOLDER, Server
from tests.integration.compat.migrate_judge import LISTS, answer, entry, key

TIME_OUT = 2400.0


SOURCES = ROOT_FOLDER / ".compat" / "sources"


REFUSED = re.compile(r"mcpkit has no '([^']+)'")


OWN, WHOLE, SERVER_SIDE = "own", "mcpkit.compat", "server side"


WAYS = (OWN, WHOLE, SERVER_SIDE)


SIDE = Path(__file__).parent / "side"


MARK = ".server-side"


@dataclass(frozen=True)
class Suite:
    """The tests of a server.

    Attributes:
        name: Its package.
        arguments: Of pytest: where the tests lie.
        is_standalone: The server is one of the package `fastmcp`, whose client is mcpkit's as well.
    """

    name: str
    arguments: Sequence[str] = ("tests",)
    is_standalone: bool = False


SUITES = [
    Suite("databricks-mcp-server"),
    Suite("mcp-email-server"),
    Suite("mcp-server-tree-sitter"),
    Suite("code-index-mcp"),
    Suite("duckduckgo-mcp-server", ["src"]),
    Suite("mcp-server-time"),
    Suite("mcp-server-git"),
    Suite("mcp-server-fetch"),
    Suite("blender-mcp"),
    Suite("arxiv-mcp-server"),
    Suite("awslabs-iam-mcp-server"),
    Suite("astrodynamics-mcp"),
    Suite("unit-converter-mcp", is_standalone=True),
    Suite("fastmcp-sample-server", is_standalone=True),
    Suite("clinical-calc-mcp", is_standalone=True),
]


@dataclass(frozen=True)
class Passed:
    """How a suite went.

    Attributes:
        name: The package.
        version: Its version.
        own: Tests that pass under the library of the server.
        ours: How many of these pass by `python -m mcpkit.compat -m pytest`.
        reasons: What the rest say, and how often.
        beside: How many pass where the server's side alone is mcpkit's, and clients and types are those of `mcp`; None
            where the server has none of `mcp`.
        beside_reasons: What the rest say then.
    """

    name: str
    version: str
    own: int
    ours: int
    reasons: Mapping[str, int]
    beside: int | None
    beside_reasons: Mapping[str, int]

    def line(self) -> str:
        """Say it in a line."""
        return (
            f"{self.name:28} {self.version:12} {self.own} pass; under mcpkit {self.ours}: {self.reasons}; "
            f"with the client of mcp {self.beside}: {self.beside_reasons}"
        )


def run_suite(suite: Suite) -> Passed:
    """Run the tests of a server in each way, and tell how they went."""
    archive = source(suite.name)
    with tempfile.TemporaryDirectory(prefix="suite-") as folder:
        runs = []
        for way in (OWN, WHOLE) if suite.is_standalone else WAYS:
            place = Path(folder, way)
            with tarfile.open(archive) as packed:
                packed.extractall(place, filter="data")
            runs.append(ran(suite, way, next(place.iterdir()), place / "results.xml"))
    good = {name for name, said in runs[0].items() if said is None}
    version = archive.name.removesuffix(".tar.gz").rpartition("-")[2]
    failed = [
        [said for name in good if (said := run.get(name, uncollected(run, name))) is not None]
        for run in runs[1:]
    ]
    passed = [len(good) - len(each) for each in failed]
    reasons = [*map(counted, failed)]
    if suite.is_standalone:
        return Passed(suite.name, version, len(good), passed[0], reasons[0], None, {})
    return Passed(suite.name, version, len(good), passed[0], reasons[0], passed[1], reasons[1])


def uncollected(run: Mapping[str, str | None], name: str) -> str:
    """Say why a test has not run: what its module says, or what stands above all."""
    modules = (said for each, said in run.items() if said and name.startswith(each.removeprefix("::")))
    return next(modules, "not collected")


def counted(failed: Sequence[str]) -> dict[str, int]:
    """Count the reasons of tests that fail."""
    return dict(Counter(map(reason, failed)).most_common())


def reason(text: str) -> str:
    """Say shortly why a test fails."""
    if refused := REFUSED.search(text):
        return f"`{refused[1]}` is refused"
    lines = [line[2:].strip() for line in text.splitlines() if line.startswith("E ")]
    return (lines or text.splitlines() or [""])[0][:120]


def source(name: str) -> Path:
    """Return the source distribution of the version that is installed, downloaded once."""
    folder = SOURCES / name
    python = str(INSTALLED / name / "bin" / "python")
    if not folder.exists():
        code = f"import importlib.metadata; print(importlib.metadata.version({name!r}))"
        version = subprocess.run(
            [python, "-c", code], check=True, capture_output=True, text=True
        ).stdout.strip()
        command = ["-m", "pip", "download", "--quiet", "--no-binary", name, "--no-deps", f"{name}=={version}"]
        subprocess.run([sys.executable, *command, "--dest", str(folder)], check=True)
    return next(folder.glob("*.tar.gz"))


def ran(suite: Suite, way: str, folder: Path, results: Path) -> dict[str, str | None]:
    """Run pytest, and return for each test what it says where it fails."""
    python = str(INSTALLED / suite.name / "bin" / "python")
    words = ["-m", "mcpkit.compat", "-m", "pytest"] if way == WHOLE else ["-m", "pytest"]
    plain = ["-p", "no:mcpkit", "-p", "no:cacheprovider", "-q", "--continue-on-collection-errors"]
    settings = {"PATH": f"{Path(python).parent}{os.pathsep}{os.environ['PATH']}", "HOME": str(folder)}
    if way == SERVER_SIDE:
        has_hook(python)
        (folder / MARK).touch()
    subprocess.run(
        [python, *words, *plain, f"--junitxml={results}", *suite.arguments],
        cwd=folder,
        env=os.environ | settings,
        check=False,
        stdout=results.with_suffix(".txt").open("wb"),
        stderr=subprocess.STDOUT,
        timeout=TIME_OUT,
    )
    return dict(told(results)) if results.exists() else {}


def has_hook(python: str) -> None:
    """Have all processes of this Python import `server_side` whose home has the mark, also those that tests start."""
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    found = subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout.strip()
    line = f"import pathlib; (pathlib.Path.home() / {MARK!r}).exists() and __import__('server_side')"
    Path(found, "server_side.pth").write_text(f"{SIDE}\n{line}\n", "utf-8")


def told(results: Path) -> Iterator[tuple[str, str | None]]:
    """Read what pytest wrote; tests that are skipped are left out."""
    for case in ET.parse(results).getroot().iter("testcase"):
        name = f"{case.get('classname')}::{case.get('name')}"
        trouble = next((each for each in case if each.tag in {"failure", "error"}), None)
        if trouble is not None:
            lines = f"{trouble.get('message')}\n{trouble.text}"
            yield name, lines
        elif case.find("skipped") is None:
            yield name, None


MARK_MIGRATED = re.compile(r"^(?P<file>.*\.py):(?P<line>\d+): ")


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
        marks = sum(MARK_MIGRATED.match(line) is not None for line in said)
        if not files:
            reasons = [line.partition(": ")[2] or line for line in said if not MARK_MIGRATED.match(line)]
            left = reasons[0].partition(". ")[0] if reasons else "nothing in it is rewritten"
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
    whole = compare(sights[0], sights[1], sights[2], version="")
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
