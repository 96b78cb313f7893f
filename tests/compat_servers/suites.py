"""Test suites of published servers: how many of their tests pass under mcpkit."""

import os
import re
import subprocess
import sys
import tarfile
import tempfile
import xml.etree.ElementTree as ET
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.compat_servers.servers import INSTALLED

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
