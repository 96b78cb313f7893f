"""The test suites that published servers bring in their source distributions, under their library and under mcpkit."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tempfile
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.compat_servers.servers import INSTALLED, ROOT_FOLDER

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


def reason(said: str) -> str:
    """Say shortly why a test fails."""
    if refused := REFUSED.search(said):
        return f"`{refused[1]}` is refused"
    lines = [line[2:].strip() for line in said.splitlines() if line.startswith("E ")]
    return (lines or said.splitlines() or [""])[0][:120]


def source(name: str) -> Path:
    """Return the source distribution of the version that is installed, downloaded once."""
    folder = SOURCES / name
    python = str(INSTALLED / name / "bin" / "python")
    if not folder.exists():
        code = f"import importlib.metadata; print(importlib.metadata.version({name!r}))"
        version = subprocess.run(
            [python, "-c", code], check=True, capture_output=True, text=True
        ).stdout.strip()
        command = [
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-binary",
            name,
            "--no-deps",
            f"{name}=={version}",
        ]
        subprocess.run([sys.executable, *command, "--dest", str(folder)], check=True)
    return next(folder.glob("*.tar.gz"))


def ran(suite: Suite, way: str, folder: Path, results: Path) -> dict[str, str | None]:
    """Run pytest, and return for each test what it says where it fails."""
    python = str(INSTALLED / suite.name / "bin" / "python")
    words = ["-m", "mcpkit.compat", "-m", "pytest"] if way == WHOLE else ["-m", "pytest"]
    plain = ["-p", "no:mcpkit", "-p", "no:cacheprovider", "-q", "--continue-on-collection-errors"]
    settings = {
        "PATH": f"{Path(python).parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(folder),
    }
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
