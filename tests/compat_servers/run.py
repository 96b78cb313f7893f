"""Run published servers under the library that they were written for and under mcpkit, and compare their responses.

`make compat` installs them and runs this, which writes docs/project/compat-servers.md. It ends with status 1 where
a response differs for no reason of the table of servers.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from suites import SUITES, Suite, run_suite

from tests.compat_servers import peers
from tests.compat_servers.servers import DIFFERS, INSTALLED, ROOT_FOLDER, SERVERS, Server

REVISIONS = ("2025-11-25", "2024-11-05")
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy")
NOWHERE = "http://127.0.0.1:9"  # a proxy that nothing listens at: what looks for the network fails at once
GIT = {
    f"GIT_{role}_{key}": value
    for role in ("AUTHOR", "COMMITTER")
    for key, value in {"NAME": "Ada", "EMAIL": "ada@example.org", "DATE": "2025-01-01T00:00:00Z"}.items()
}
PAGE = ROOT_FOLDER / "docs" / "project" / "compat-servers.md"
RESULTS = INSTALLED / "seen"


def main() -> int:
    """Run each server, print a line for each journey, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", help="only servers with this in their name")
    for option, description in (
        ("--held-out", "also those that are held out"),
        ("--suites", "also the test suites that servers bring"),
    ):
        parser.add_argument(option, action="store_true", help=description)
    options = parser.parse_args()
    wanted = [
        server
        for server in SERVERS
        if any(part in server.name for part in options.only or [""])
        and (options.held_out or not server.is_held_out)
    ]
    with ThreadPoolExecutor(4 * (os.cpu_count() or 1)) as pool:
        comparing = [
            (server, [pool.submit(compared, server, *way) for way in ways(server)]) for server in wanted
        ]
        names = {server.name for server in wanted if options.suites}
        testing = [pool.submit(tested, suite) for suite in SUITES if suite.name in names]
        is_right = True
        for server, futures in comparing:
            rows = [each.result() for each in futures]
            is_right &= all(row.is_whole and not row.unexplained for row in rows)
            store("journeys", server.name, [row.cells() for row in rows])
        for future in testing:
            future.result()
    PAGE.write_text(page(), "utf-8")
    return 0 if is_right else 1


def store(kind: str, name: str, result: Any) -> None:
    """Store a result for the page."""
    (RESULTS / kind).mkdir(parents=True, exist_ok=True)
    (RESULTS / kind / f"{name}.json").write_text(json.dumps(result, indent=1))


def stored(kind: str) -> Iterator[tuple[Server, Any]]:
    """Yield the servers that have a stored result."""
    for server in SERVERS:
        if (file := RESULTS / kind / f"{server.name}.json").exists():
            yield server, json.loads(file.read_text())


def ways(server: Server) -> Iterator[tuple[str, str, str]]:
    """Yield the ways to run a server: transport, environment of mcpkit's run, and revision."""
    kinds = [("stdio", server.name)]
    if server.http:
        kinds.append(("HTTP", server.name))
    if server.without_library:
        kinds.append(("stdio, `mcp` not installed", f"{server.name}-alone"))
    for transport, environment in kinds:
        for revision in REVISIONS:
            yield transport, environment, revision


@dataclass
class Row:
    """One server over one transport, with a client of one revision.

    Attributes:
        counts: How many tools, resources, templates and prompts it lists.
    """

    server: Server
    transport: str
    revision: str
    counts: str
    verdict: peers.Verdict

    @property
    def is_whole(self) -> bool:
        """True if the server has responded under its own library."""
        return self.verdict.requests > 1

    @cached_property
    def reasons(self) -> list[tuple[peers.Difference, str | None]]:
        """The differences with their reasons."""
        known = {**DIFFERS, **self.server.differs}
        return [(each, each.reason(known)) for each in self.verdict.differences]

    @property
    def unexplained(self) -> list[peers.Difference]:
        return [each for each, reason in self.reasons if reason is None]

    def cells(self) -> dict[str, Any]:
        reasons = {reason or f"**unexplained**: `{each.label}`" for each, reason in self.reasons}
        place = {name: getattr(self, name) for name in ("transport", "revision", "counts")}
        numbers = {name: getattr(self.verdict, name) for name in ("requests", "equal", "varying")}
        package = version(self.server.name, self.server.name)
        return {"version": package, **place, **numbers, "why": sorted(reasons)}

    def line(self) -> str:
        if not self.is_whole:
            return f"{self.server.name:28} does not start over {self.transport}, by its own library"
        verdict = self.verdict
        return (
            f"{self.server.name:28} {self.transport[:12]:12} {self.revision} {self.counts:15} "
            f"{verdict.equal:4} of {verdict.requests:4} equal, {verdict.varying} vary"
        )


def compared(server: Server, transport: str, environment: str, revision: str) -> Row:
    """Run one server in one way, and print the comparison."""
    with tempfile.TemporaryDirectory(prefix="compat-") as work:
        server, plan = placed(server, work), []
        (RESULTS / "logs").mkdir(parents=True, exist_ok=True)
        log = RESULTS / "logs" / f"{environment}-{transport[:5]}-{revision}.txt"
        own = (server.name, False)
        runs = [
            journey(server, transport, each, plan, revision, Path(work), log)
            for each in (own, own, (environment, True))
        ]
    is_standalone = "fastmcp" in server.kind and "server" not in server.kind
    verdict = peers.compare(*runs, version(server.name, "fastmcp" if is_standalone else "mcp"))
    row = Row(server, transport, revision, counts(runs[0]), verdict)
    lines = [
        f"    {each.label}: {each.path}\n      own  {each.own[:300]}\n      ours {each.ours[:300]}"
        for each in row.unexplained[:12]
    ]
    print(row.line(), *lines, sep="\n", flush=True)
    return row


def tested(suite: Suite) -> None:
    """Run the tests of one server, and store how many passed."""
    passed = run_suite(suite)
    print(f"{suite.name:28} {passed}", flush=True)
    store("suites", suite.name, passed)


def journey(server, transport, environment, plan, revision, work, log) -> list[peers.Step]:
    """Start a server in a folder as it was for each other run, and make the journey."""
    place, is_ours = environment
    for each in work.iterdir():
        shutil.rmtree(each) if each.is_dir() else each.unlink()
    furnish(work)
    binaries = INSTALLED / place / ("Scripts" if sys.platform == "win32" else "bin")
    port = peers.free_port() if transport == "HTTP" else 0

    def filled(text: str) -> str:
        return text.replace("{work}", str(work)).replace("{port}", str(port))

    words = (server.command or server.name).split()
    words[1:] = server.http.split() if port else words[1:]
    script, *rest = map(filled, words)
    runner = ["-m", "mcpkit.compat"] if is_ours else []
    settings = {
        "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}", "HOME": str(work / "home"),
        "TMPDIR": str(work / "temporary"), "TZ": "UTC", "LANG": "C.UTF-8", "PYTHONHASHSEED": "0",
        "NO_PROXY": "127.0.0.1,localhost", **dict.fromkeys(PROXIES, NOWHERE), **GIT, **server.settings,
        **(server.http_settings if port else {}),
    }  # fmt: skip
    start = (
        [str(binaries / "python"), *runner, str(binaries / script), *rest],
        {key: filled(value) for key, value in settings.items()},
        work / "project",
        log,
    )
    peer = peers.Http(*start, port=port, path=server.path) if port else peers.Stdio(*start)
    try:
        return peers.travel(peer, server, plan, revision, is_whole=revision == REVISIONS[0])
    finally:
        peer.close()


SAMPLE = '''"""A sample."""

import json


def greet(name: str) -> str:
    """Greet."""
    if not name:
        return "nobody"
    return json.dumps(name)
'''


def furnish(work: Path) -> None:
    """Write the files that the servers read."""
    for name in ("home", "temporary", "project", "repository"):
        (work / name).mkdir()
    (work / "project" / "sample.py").write_text(SAMPLE)
    (work / "project" / "notes.txt").write_text("one\ntwo\n")
    (work / "page.html").write_text("<html><body><h1>Title</h1><ul><li>one</li></ul></body></html>")
    repository = work / "repository"
    (repository / "old.txt").write_text("one\ntwo\n")
    for command in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "Begin"]):
        subprocess.run(["git", *command], cwd=repository, check=True, env=os.environ | GIT)
    (repository / "old.txt").write_text("one\nthree\n")
    (repository / "new.txt").write_text("new\n")
    for each in sorted(work.rglob("*"), reverse=True):
        os.utime(each, (1_735_689_600, 1_735_689_600))


def placed(server: Server, work: str) -> Server:
    """Replace `{work}` by the folder in the requests."""
    calls = json.loads(json.dumps(list(server.calls)).replace("{work}", work))
    return replace(server, calls=calls, reads=[each.replace("{work}", work) for each in server.reads])


def counts(steps: Sequence[peers.Step]) -> str:
    """Return how many components of each kind a server lists."""
    pages = [
        (name, step.heard[-1].get("result") or {})
        for name in peers.LISTS.values()
        for step in steps
        if step.heard
    ]
    found = {
        name: [len(page[name]) for other, page in pages if name == other and name in page]
        for name in peers.LISTS.values()
    }
    return " / ".join(str(sum(listed)) if listed else "-" for listed in found.values())


def version(environment: str, package: str) -> str:
    """Return the version of a package that `requirements/` pins."""
    text = (Path(__file__).parent / "requirements" / f"{environment}.txt").read_text("utf-8")
    pins = (line.partition("==") for line in text.splitlines())
    return next((found for name, _, found in pins if re.sub(r"[-_.]+", "-", name).lower() == package), "")


class Notes:
    """The numbered reasons below a table."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def marks(self, reasons: Sequence[str]) -> str:
        """Return references to the reasons, which are added where they are new."""
        self.texts += [reason for reason in reasons if reason not in self.texts]
        return " ".join(f"({self.texts.index(reason) + 1})" for reason in reasons) or "-"

    def __str__(self) -> str:
        return "\n".join(f"{number}. {text}" for number, text in enumerate(self.texts, 1))


def table(head: str, rows: Iterable[Sequence[object]]) -> str:
    """Return a table in Markdown; the names of the head are separated by semicolons."""
    names = head.split("; ")
    lines = [names, ["---"] * len(names), *rows]
    return "\n".join(f"| {' | '.join(map(str, cells))} |" for cells in lines)


def page() -> str:
    """Return the page of the stored results."""
    notes = Notes()
    rows: list[Sequence[object]] = []
    for server, journeys in stored("journeys"):
        name = f"{server.name}{' (held out)' if server.is_held_out else ''}"
        for number, row in enumerate(journeys):
            first = [name, row["version"], server.kind, row["counts"]] if number == 0 else [""] * 4
            place = [row["transport"], row["revision"], row["requests"], row["equal"]]
            rows.append([*first, *place, notes.marks(row["why"]), row["varying"] or "-"])
    suites = [
        [
            server.name,
            row["version"],
            *("-" if each is None else each for each in row["passed"]),
            *map(failures, row["reasons"]),
        ]
        for server, row in stored("suites")
    ]
    template = Path(__file__).with_name("page.md").read_text("utf-8")
    return template.format(
        servers=table(
            "server; version; written for; lists; transport; revision; asked; equal; differ; vary", rows
        ),
        server_notes=notes,
        chosen=table("server; chosen for", ((server.name, server.chosen_for) for server in SERVERS)),
        suites=table(SUITES_HEAD, sorted(suites, key=lambda row: row[0])),
    )


SUITES_HEAD = "server; version; tests; all of `mcp` is mcpkit's; the server's side is"
SUITES_HEAD += "; the others: all; the others: its side"


def failures(counted: Mapping[str, int]) -> str:
    """Return the reasons of failed tests, and how often each occurs."""
    texts = (f"{text if '`' in text else f'`{text}`'} ({count})" for text, count in counted.items())
    return "; ".join(texts).replace("|", "\\|") or "-"


if __name__ == "__main__":
    sys.exit(main())
