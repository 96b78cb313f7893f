"""Test suites of published servers, and servers that are migrated: how they do under mcpkit."""

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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.compat_servers.peers import LISTS, Difference, Plan, Step, compare
from tests.compat_servers.servers import INSTALLED, Server
from tests.integration.compat.mcp1 import answer, entry, key

TIME_OUT = 2400.0
SOURCES = INSTALLED / "sources"
SIDE = Path(__file__).parent / "side"
MARK = ".server-side"


@dataclass(frozen=True)
class Suite:
    """The tests of a server.

    Attributes:
        name: Its package.
        folder: Where the tests are.
        is_standalone: The server uses the package `fastmcp`, the client of which is mcpkit's as well.
    """

    name: str
    folder: str = "tests"
    is_standalone: bool = False


SUITES = [
    *map(Suite, ("databricks-mcp-server", "mcp-email-server", "mcp-server-tree-sitter", "code-index-mcp")),
    Suite("duckduckgo-mcp-server", "src"),
    *map(Suite, ("mcp-server-time", "mcp-server-git", "mcp-server-fetch", "blender-mcp", "arxiv-mcp-server")),
    *map(Suite, ("awslabs-iam-mcp-server", "astrodynamics-mcp")),
    Suite("unit-converter-mcp", is_standalone=True),
    Suite("fastmcp-sample-server", is_standalone=True),
    Suite("clinical-calc-mcp", is_standalone=True),
]


def run_suite(suite: Suite) -> dict[str, Any]:
    """Run the tests of a server under its library, under mcpkit, and with the server's side of mcpkit alone.

    Returns:
        The version of the server, how many tests pass in each way (None where a way does not apply), and how often
        each reason occurs for which the others fail.
    """
    archive = source(suite.name)
    with tempfile.TemporaryDirectory(prefix="suite-") as folder:
        runs = []
        for way in ("own", "whole", "server side")[: 2 if suite.is_standalone else 3]:
            place = Path(folder, way)
            with tarfile.open(archive) as packed:
                packed.extractall(place, filter="data")
            runs.append(results_of(suite, way, next(place.iterdir()), place / "results.xml"))
    good = [name for name, failure in runs[0].items() if failure is None]
    passed: list[int | None] = [len(good)]
    reasons: list[dict[str, int]] = []
    for run in runs[1:]:
        failed = [failure for name in good if (failure := run.get(name, uncollected(run, name))) is not None]
        passed.append(len(good) - len(failed))
        reasons.append(dict(Counter(map(reason, failed)).most_common()))
    if suite.is_standalone:
        passed, reasons = [*passed, None], [*reasons, {}]
    version = archive.name.removesuffix(".tar.gz").rpartition("-")[2]
    return {"version": version, "passed": passed, "reasons": reasons}


def uncollected(run: dict[str, str | None], name: str) -> str:
    """Return the failure of the module of a test that has not run."""
    modules = (text for each, text in run.items() if text and name.startswith(each.removeprefix("::")))
    return next(modules, "not collected")


def reason(text: str) -> str:
    """Return in a few words why a test fails."""
    if refused := re.search(r"mcpkit has no '([^']+)'", text):
        return f"`{refused[1]}` is refused"
    lines = [line[2:].strip() for line in text.splitlines() if line.startswith("E ")]
    return (lines or text.splitlines() or [""])[0][:120]


def printed(name: str, code: str) -> str:
    """Return the output of code in the environment of a server."""
    command = [str(INSTALLED / name / "bin" / "python"), "-c", code]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def source(name: str) -> Path:
    """Return the source distribution of the version that is installed, downloaded once."""
    folder = SOURCES / name
    if not folder.exists():
        version = printed(name, f"import importlib.metadata; print(importlib.metadata.version({name!r}))")
        command = ["-m", "pip", "download", "--quiet", "--no-binary", name, "--no-deps", f"{name}=={version}"]
        subprocess.run([sys.executable, *command, "--dest", str(folder)], check=True)
    return next(folder.glob("*.tar.gz"))


def results_of(suite: Suite, way: str, folder: Path, results: Path) -> dict[str, str | None]:
    """Run pytest, and return the failure of each test, None where it passed; skipped tests are left out."""
    python = str(INSTALLED / suite.name / "bin" / "python")
    words = ["-m", "mcpkit.compat", "-m", "pytest"] if way == "whole" else ["-m", "pytest"]
    plain = ["-p", "no:mcpkit", "-p", "no:cacheprovider", "-q", "--continue-on-collection-errors"]
    settings = {"PATH": f"{Path(python).parent}{os.pathsep}{os.environ['PATH']}", "HOME": str(folder)}
    if way == "server side":  # each process imports `server_side` if its home has the mark
        line = f"import pathlib; (pathlib.Path.home() / {MARK!r}).exists() and __import__('server_side')"
        packages = printed(suite.name, "import sysconfig; print(sysconfig.get_path('purelib'))")
        Path(packages, "server_side.pth").write_text(f"{SIDE}\n{line}\n", "utf-8")
        (folder / MARK).touch()
    with results.with_suffix(".txt").open("wb") as log:
        subprocess.run(
            [python, *words, *plain, f"--junitxml={results}", suite.folder],
            cwd=folder,
            env=os.environ | settings,
            check=False,
            stdout=log,
            stderr=subprocess.STDOUT,
            timeout=TIME_OUT,
        )
    found: dict[str, str | None] = {}
    for case in ET.parse(results).getroot().iter("testcase") if results.exists() else ():
        failure = next((each for each in case if each.tag in {"failure", "error"}), None)
        if failure is not None or case.find("skipped") is None:
            name = f"{case.get('classname')}::{case.get('name')}"
            found[name] = None if failure is None else f"{failure.get('message')}\n{failure.text}"
    return found


IS_CALL = re.compile(r"(call \d|made up) ").match
IS_MARK = re.compile(r"^.*\.py:\d+: ").match
ERROR = re.compile(r"\b(\w*(?:Error|Exception): [^│\n]*)")
Journey = Callable[[Plan, Path | None], list[Step]]
"""Makes a journey with a server, the sources of which are in a folder, or as they are installed."""

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


@dataclass
class Migrated:
    """The comparison of a server with its rewritten sources.

    Attributes:
        files: How many files were rewritten.
        marks: How many places are marked for a person.
        left: Why nothing was rewritten, if nothing was.
        trouble: Why it does not start, if it does not.
        lists: How many lists are equal, of how many.
        calls: How many tools were called.
        equal: How many calls have equal responses.
        varying: How many responses have parts that differ between two runs of the server as it was.
        why: Why the others differ.
        unexplained: The differences without a reason.
    """

    name: str
    files: int
    marks: int
    left: str = ""
    trouble: str = ""
    lists: tuple[int, int] = (0, 0)
    calls: int = 0
    equal: int = 0
    varying: int = 0
    why: Sequence[str] = ()
    unexplained: Sequence[Difference] = ()

    def line(self) -> str:
        counted = (
            f"{self.lists} lists, {self.equal} of {self.calls} calls equal, {self.varying} vary; {self.why}"
        )
        outcome = self.left or self.trouble or counted
        return f"{self.name:28} {self.files} files, {self.marks} marks: {outcome}"


def migrate(server: Server, make: Journey, log: Path) -> Migrated:
    """Rewrite the sources of a server in a folder of their own, run both, and compare their responses.

    Args:
        server: The server.
        make: Makes the journeys.
        log: The standard error of the server.
    """
    with tempfile.TemporaryDirectory(prefix="migrated-") as name:
        folder = Path(name)
        copy(server.name, folder)
        command = [sys.executable, "-m", "mcpkit.compat.migrate", str(folder), "--write"]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        lines = done.stderr.splitlines()
        files = sum(line.startswith("+++ ") for line in done.stdout.splitlines())
        migrated = Migrated(server.name, files, sum(IS_MARK(line) is not None for line in lines))
        if not files:
            reasons = [line.partition(": ")[2] or line for line in lines if not IS_MARK(line)]
            migrated.left = reasons[0].partition(". ")[0] if reasons else "nothing in it is rewritten"
            return migrated
        plan = Plan(server, IS_CALL)
        own, again, ours = (make(plan, sources) for sources in (None, None, folder))
    if "result" not in ours[0].heard[-1]:
        errors = ERROR.findall(log.read_text("utf-8", "replace"))
        migrated.trouble = f"`{errors[-1].strip()}`" if errors else "it ends"
        return migrated
    normalized = [[*_normalized(steps)] for steps in (own, again, ours)]
    whole = compare(*normalized)
    different = {each.label for each in whole.differences}
    why = [(each, each.reason(DIFFERS)) for each in whole.differences]
    migrated.lists = (len(LISTS) - len(different & LISTS.keys()), len(LISTS))
    migrated.calls = len(normalized[0]) - len(LISTS)
    migrated.equal = migrated.calls - len(different - LISTS.keys())
    migrated.varying = whole.varying
    migrated.why = sorted({reason or f"**unexplained**: `{each.label}`" for each, reason in why})
    migrated.unexplained = [each for each, reason in why if reason is None]
    return migrated


def copy(name: str, folder: Path) -> None:
    """Copy the files of an installed package, as it would be imported."""
    code = f"""
from importlib.metadata import distribution
found = distribution({name!r})
files = [file for file in found.files if not {{"..", "__pycache__"}} & set(file.parts)]
first = sorted({{file.parts[0] for file in files if not file.parts[0].endswith(".dist-info")}})
print(*(found.locate_file(each) for each in first), sep="\\n")
"""
    for place in map(Path, printed(name, code).splitlines()):
        if place.is_dir():
            shutil.copytree(place, folder / place.name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(place, folder)


def _normalized(steps: Sequence[Step]) -> Iterator[Step]:
    """Yield the lists, whole, and the responses to calls, normalized."""
    lists: dict[str, dict[str, Any]] = {method: {} for method in LISTS}
    calls = []
    for step in steps:
        last = step.heard[-1] if step.heard else {}
        if step.label in LISTS:
            listed = last.get("result", {}).get(LISTS[step.label], [])
            lists[step.label] |= {key(each): entry(each) for each in listed}
        elif IS_CALL(step.label):
            calls.append(
                Step(step.label, [{"told": answer(last) if {"result", "error"} & last.keys() else last}])
            )
    yield from (Step(method, [found]) for method, found in lists.items())
    yield from calls
