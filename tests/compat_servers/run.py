"""Run published servers under the library that they were written for and under mcpkit, and compare what they say.

`make compat` installs them and runs this, which writes docs/reference/compat-servers.md. It ends with status 1 where
an answer differs and the table of the servers does not say why.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from suites import SUITES, Migrated, Passed, Suite, migrate, run_suite

from tests.compat_servers.peers import (
    Difference,
    Http,
    Kit,
    Peer,
    Plan,
    Stdio,
    Step,
    Verdict,
    compare,
    free_port,
    travel,
)
from tests.compat_servers.servers import DIFFERS, INSTALLED, ROOT_FOLDER, SERVERS, Server

REVISIONS = ("2025-11-25", "2024-11-05")
NOWHERE = "http://127.0.0.1:9"  # a proxy that nothing listens at: what looks for the network fails at once
DATE = "2025-01-01T00:00:00Z"


def main() -> int:
    """Try each server, print a line for each journey, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", help="only servers with this in their name")
    for option, description in (
        ("--held-out", "also those that are held out"),
        ("--suites", "also the test suites that servers bring"),
        ("--migrated", "also what becomes of servers that are rewritten"),
        ("--without-journeys", "no more than the suites, and what is rewritten"),
        ("--itself", "compare with its own library once more: nothing may differ"),
    ):
        parser.add_argument(option, action="store_true", help=description)
    at_once = 4 * (os.cpu_count() or 1)
    parser.add_argument("--at-once", type=int, default=at_once, help="how many servers are tried at a time")
    parser.add_argument("--keep", type=Path, help="a folder for what was said, and the notes of the servers")
    options = parser.parse_args()
    wanted = [
        server
        for server in SERVERS
        if any(part in server.name for part in options.only or [""])
        and (options.held_out or not server.is_held_out)
    ]
    with ThreadPoolExecutor(options.at_once) as pool:
        comparing = [
            (server, [pool.submit(tried, server, *way, options.keep, options.itself) for way in ways(server)])
            for server in wanted
            if not options.without_journeys
        ]
        rewriting = [pool.submit(rewritten, each, options.keep) for each in wanted if options.migrated]
        names = {server.name for server in wanted if options.suites}
        testing = [pool.submit(tested, suite) for suite in SUITES if suite.name in names]
        is_right = True
        for server, rows_to_come in comparing:
            rows = [each.result() for each in rows_to_come]
            is_right &= all(row.is_whole and not row.unexplained() for row in rows)
            if not options.itself:
                keep_rows(server, rows)
        is_right &= all(each.result() for each in rewriting)
        for each in testing:
            each.result()
    write_page()
    return 0 if is_right else 1


def ways(server: Server) -> Iterator[tuple[str, str, str]]:
    """Tell in which ways a server is tried: its transport, the environment of mcpkit's run, and the revision."""
    kinds = [("stdio", server.name)]
    if server.http:
        kinds.append(("HTTP", server.name))
    if server.without_library:
        kinds.append(("stdio, `mcp` not installed", f"{server.name}-alone"))
    for transport, environment in kinds:
        for revision in REVISIONS:
            yield transport, environment, revision


def tested(suite: Suite) -> None:
    """Run the tests of one server, and put away how they went."""
    passed = run_suite(suite)
    print(passed.line(), flush=True)
    store_result(SUITES_KEPT, passed)


def tried(
    server: Server, transport: str, environment: str, revision: str, keep: Path | None, itself: bool
) -> Row:
    """Try one server in one way, and print how it fared."""
    with tempfile.TemporaryDirectory(prefix="compat-") as work:
        plan = Plan(placed(server.kit, work))
        notes = (keep or Path(work)) / f"{server.name}-{transport[:5]}-{revision}.txt"
        notes.parent.mkdir(parents=True, exist_ok=True)
        last = (server.name, False) if itself else (environment, True)
        own, again, ours = (
            journey(server, transport, each, plan, revision, Path(work), notes)
            for each in ((server.name, False), (server.name, False), last)
        )
    if keep is not None:
        for name, steps in (("own", own), ("again", again), ("ours", ours)):
            said = [[step.label, step.heard] for step in steps]
            notes.with_suffix(f".{name}.json").write_text(json.dumps(said, indent=1, ensure_ascii=False))
    is_standalone = "fastmcp" in server.kind and "server" not in server.kind
    library = version(server.name, "fastmcp" if is_standalone else "mcp")
    verdict = compare(own, again, ours, library)
    row = Row(server, version(server.name, server.name), transport, revision, counts(own), verdict)
    said = [
        f"    {each.label}: {each.path}\n      own  {each.own[:300]}\n      ours {each.ours[:300]}"
        for each in row.unexplained()[:12]
    ]
    print(row.line(), *said, sep="\n", flush=True)
    return row


def rewritten(server: Server, keep: Path | None) -> bool:
    """Rewrite one server, put away how it fares over stdio, and say whether all that differs is explained."""
    with tempfile.TemporaryDirectory(prefix="compat-") as work:
        notes = (keep or Path(work)) / f"{server.name}-migrated.txt"
        notes.parent.mkdir(parents=True, exist_ok=True)

        def make(plan: Plan, sources: Path | None) -> list[Step]:
            own = (server.name, False)
            return journey(server, "stdio", own, plan, REVISIONS[0], Path(work), notes, sources)

        fared = migrate(server, placed(server.kit, work), make, notes)
    print(fared.line(), *fared.differences, sep="\n    ", flush=True)
    store_result(MIGRATED_KEPT, fared)
    return not fared.differences


def journey(
    server: Server,
    transport: str,
    environment: tuple[str, bool],
    plan: Plan,
    revision: str,
    work: Path,
    notes: Path,
    sources: Path | None = None,
) -> list[Step]:
    """Start a server in a folder as it was for each other run, and make the journey; its code may be elsewhere."""
    place, is_ours = environment
    for each in work.iterdir():
        if each.name != notes.name:
            shutil.rmtree(each) if each.is_dir() else each.unlink()
    furnish(work)
    binaries = INSTALLED / place / ("Scripts" if sys.platform == "win32" else "bin")
    port = free_port() if transport == "HTTP" else 0
    words = {"{work}": str(work), "{port}": str(port)}
    arguments = [*server.command[:1], *server.http] if port else server.command
    script, *rest = (replaced(each, words) for each in arguments)
    runner = ["-m", "mcpkit.compat"] if is_ours else []
    command = [str(binaries / "python"), *runner, str(binaries / script), *rest]
    settings = {
        "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(work / "home"),
        "TMPDIR": str(work / "temporary"),
        "TZ": "UTC",
        "LANG": "C.UTF-8",
        "PYTHONHASHSEED": "0",
        "NO_PROXY": "127.0.0.1,localhost",
        **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy"), NOWHERE),
        **{f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in GIT.items()},
        **({"PYTHONPATH": str(sources)} if sources else {}),
        **server.settings,
        **(server.http_settings if port else {}),
    }
    settings = {key: replaced(value, words) for key, value in settings.items()}
    peer: Peer
    if port:
        peer = Http(command, settings, work / "project", notes, port, server.path)
    else:
        peer = Stdio(command, settings, work / "project", notes)
    try:
        return travel(peer, plan, revision, is_whole=revision == REVISIONS[0])
    finally:
        peer.close()


GIT = {"NAME": "Ada", "EMAIL": "ada@example.org", "DATE": DATE}


def furnish(work: Path) -> None:
    """Put there what the servers look at."""
    for name in ("home", "temporary", "project", "repository"):
        (work / name).mkdir()
    (work / "project" / "sample.py").write_text(
        '"""A sample."""\n\nimport json\n\n\ndef greet(name: str) -> str:\n    """Greet."""\n'
        '    if not name:\n        return "nobody"\n    return json.dumps(name)\n'
    )
    (work / "project" / "notes.txt").write_text("one\ntwo\n")
    (work / "page.html").write_text("<html><body><h1>Title</h1><ul><li>one</li></ul></body></html>")
    repository = work / "repository"
    environment = os.environ | {
        f"GIT_{who}_{key}": value for who in ("AUTHOR", "COMMITTER") for key, value in GIT.items()
    }
    (repository / "old.txt").write_text("one\ntwo\n")
    for command in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "Begin"]):
        subprocess.run(["git", *command], cwd=repository, check=True, env=environment)
    (repository / "old.txt").write_text("one\nthree\n")
    (repository / "new.txt").write_text("new\n")
    for each in sorted(work.rglob("*"), reverse=True):
        os.utime(each, (1_735_689_600, 1_735_689_600))


def replaced(text: str, words: Mapping[str, str]) -> str:
    """Put words where they stand in braces."""
    for word, value in words.items():
        text = text.replace(word, value)
    return text


def placed(kit: Kit, work: str) -> Kit:
    """Put the folder into what is asked."""
    calls = json.loads(json.dumps(list(kit.calls)).replace("{work}", work))
    return Kit(calls, [each.replace("{work}", work) for each in kit.reads], kit.prompts, kit.left_alone)


def counts(steps: Sequence[Step]) -> str:
    """Say how many of each sort a server lists."""
    found = []
    for name in ("tools", "resources", "resourceTemplates", "prompts"):
        listed = [
            len(step.heard[-1]["result"][name])
            for step in steps
            if step.heard and name in (step.heard[-1].get("result") or {}) and "/list" in step.label
        ]
        found.append(str(sum(listed)) if listed else "-")
    return " / ".join(found)


def version(environment: str, package: str) -> str:
    """Return the version of a package, as `requirements/` pins it."""
    text = (Path(__file__).parent / "requirements" / f"{environment}.txt").read_text("utf-8")
    for line in text.splitlines():
        name, _, found = line.partition("==")
        if re.sub(r"[-_.]+", "-", name).lower() == package:
            return found
    return ""


PAGE = ROOT_FOLDER / "docs" / "reference" / "compat-servers.md"


@dataclass(frozen=True)
class Row:
    """One server over one transport, with a client of one revision.

    Attributes:
        counts: How many tools, resources, templates and prompts it lists.
    """

    server: Server
    version: str
    transport: str
    revision: str
    counts: str
    verdict: Verdict

    def why(self, difference: Difference) -> str | None:
        """Say why an answer may differ, or return None."""
        place = f"{difference.label}: {difference.path}: {difference.own} / {difference.ours}"
        known = {**DIFFERS, **self.server.differs}
        return next((why for key, why in known.items() if re.search(key, place, re.DOTALL)), None)

    @property
    def is_whole(self) -> bool:
        """Whether the server has answered under its own library at all."""
        return self.verdict.requests > 1

    def unexplained(self) -> list[Difference]:
        """Return the differences for which there is no reason."""
        return [each for each in self.verdict.differences if self.why(each) is None]

    def line(self) -> str:
        """Say it in a line."""
        told = self.verdict
        differing = told.requests - told.equal
        if not self.is_whole:
            return f"{self.server.name:28} does not start over {self.transport}, by its own library"
        return (
            f"{self.server.name:28} {self.version:18} {self.transport[:12]:12} {self.revision} "
            f"{self.counts:15} {told.equal:4} of {told.requests:4} equal, {differing} differ, {told.varying} vary"
        )


def keep_rows(server: Server, rows: Sequence[Row]) -> None:
    """Put away what was seen of a server, for the page."""
    KEPT.mkdir(parents=True, exist_ok=True)
    seen = []
    for row in rows:
        why = {row.why(each) or f"**unexplained**: `{each.label}`" for each in row.verdict.differences}
        place = {name: getattr(row, name) for name in ("version", "transport", "revision", "counts")}
        numbers = {name: getattr(row.verdict, name) for name in ("requests", "equal", "varying")}
        seen.append({**place, **numbers, "why": sorted(why)})
    (KEPT / f"{server.name}.json").write_text(json.dumps(seen, indent=1))


def store_result(folder: Path, result: Migrated | Passed) -> None:
    """Store a result for the page."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{result.name}.json").write_text(json.dumps(asdict(result), indent=1))


def write_page() -> None:
    """Write the page from what was put away."""
    notes: list[str] = []
    lines = [BEGINNING, _table_row(SERVERS_HEAD)]
    for server in SERVERS:
        file = KEPT / f"{server.name}.json"
        for number, row in enumerate(json.loads(file.read_text()) if file.exists() else ()):
            for why in row["why"]:
                if why not in notes:
                    notes.append(why)
            marks = " ".join(f"[{notes.index(why) + 1}]" for why in row["why"])
            name = f"{server.name}{' (held out)' if server.is_held_out else ''}"
            first = [name, row["version"], server.kind, row["counts"]] if number == 0 else [""] * 4
            compared = [str(row["requests"]), str(row["equal"]), marks or "-", str(row["varying"] or "-")]
            lines.append(_table_row([*first, row["transport"], row["revision"], *compared]))
    lines += ["", *(f"{number}. {why}" for number, why in enumerate(notes, 1))]
    lines += ["", CHOSEN, "", _table_row(("server", "chosen for"))]
    lines += [_table_row((server.name, server.chosen_for)) for server in SERVERS]
    lines += ["", MIGRATED_BEGIN, "", _table_row(MIGRATED_HEAD), *_migrated()]
    lines += ["", SUITES_BEGIN, "", _table_row(SUITES_HEAD)]
    for file in sorted(SUITES_KEPT.glob("*.json")):
        suite = json.loads(file.read_text())
        found = [suite[name] for name in ("own", "ours", "beside")]
        numbers = ["-" if each is None else str(each) for each in found]
        said = [_reasons(suite[name]) for name in ("reasons", "beside_reasons")]
        lines.append(_table_row([suite["name"], suite["version"], *numbers, *said]))
    PAGE.write_text("\n".join(lines) + "\n", "utf-8")


def _migrated() -> Iterator[str]:
    """Return the rows of servers that were rewritten, and the reasons of what differs below them."""
    notes: list[str] = []
    for server in SERVERS:
        file = MIGRATED_KEPT / f"{server.name}.json"
        if not file.exists():
            continue
        fared = json.loads(file.read_text())
        for why in fared["why"]:
            if why not in notes:
                notes.append(why)
        marks = " ".join(f"[{notes.index(why) + 1}]" for why in fared["why"])
        counted = [str(fared["files"]), str(fared["marks"])]
        if trouble := fared["left"] or fared["trouble"]:
            yield _table_row([server.name, *counted, f"no: {trouble}", *["-"] * 5])
        else:
            same, of = fared["lists"]
            calls = [str(fared["asked"]), str(fared["equal"]), marks or "-", str(fared["varying"] or "-")]
            yield _table_row([server.name, *counted, "yes", f"{same} of {of}", *calls])
    yield ""
    yield from (f"{number}. {why}" for number, why in enumerate(notes, 1))


def _reasons(counted: Mapping[str, int]) -> str:
    told = "; ".join(f"{said if '`' in said else f'`{said}`'} ({count})" for said, count in counted.items())
    return told.replace("|", "\\|") or "-"


def _table_row(cells: Sequence[str]) -> str:
    row = "| " + " | ".join(cells) + " |"
    heads = (SERVERS_HEAD, SUITES_HEAD, MIGRATED_HEAD, ("server", "chosen for"))
    return f"{row}\n| {' | '.join('---' for _ in cells)} |" if tuple(cells) in heads else row


KEPT = INSTALLED / "seen"
SUITES_KEPT = INSTALLED / "seen" / "suites"
SERVERS_HEAD = (
    "server",
    "version",
    "written for",
    "lists",
    "transport",
    "revision",
    *("asked", "equal", "differ", "vary"),
)
MIGRATED_KEPT = INSTALLED / "seen" / "migrated"
MIGRATED_HEAD = (*("server", "files", "marks", "runs", "lists equal"), *("calls", "equal", "differ", "vary"))
SUITES_HEAD = (
    *("server", "version", "tests", "all of `mcp` is mcpkit's", "the server's side is", "the others: all"),
    "the others: its side",
)
BEGINNING = """\
<!-- Written by tests/compat_servers/run.py: change that, and run `make compat`. -->

# Published servers on mcpkit

Servers from PyPI that were written for other libraries, run by their own library and by `python -m mcpkit.compat` in
the same environment, without a change. `make compat` installs them at the versions that stand here, with `mcp` 1.30.0,
asks both the same, compares the answers as canonical JSON with all notifications on the way, runs the tests that the
servers bring, rewrites them, and writes this page.

What is asked: `initialize`, all lists to their last page, the calls whose answers need no network, each of these once
more with an argument that the tool does not have, every other tool with made-up arguments, every tool with its
arguments missing and of wrong types, all resources and prompts, completions, and what there is not. With a client of
2024-11-05 the lists and the calls alone.

`lists` counts tools, resources, templates and prompts. `vary` counts answers of which parts (times, random names)
differ between two runs under the own library, too: these parts are not compared. `serverInfo.version` is not compared
where a server says none and the library says its own.

The four that were held out ran under mcpkit for the first time when the layer was complete. Their first result: all of
`blender-mcp`, `arxiv-mcp-server` and `astrodynamics-mcp` was as it is now; with `awslabs-iam-mcp-server` the
description of one class of `mcp.types` was missing in the schemas of its tools, which has been mended.
"""
CHOSEN = "## What each was chosen for"
MIGRATED_BEGIN = """\
## Rewritten

The same servers after [`python -m mcpkit.compat.migrate FOLDER --write`](../how-to/migrate.md), which rewrites those of
`mcp.server.fastmcp`: how many files it changed, how many places it marked for a person to decide, and whether the
result, with nothing decided, starts and says over stdio what the server said before. Compared are the four lists, and
calls of all tools: those whose answers need no network, and the others with made-up arguments. What native mcpkit says
in its own way is left out of it: of schemas the names, types and which are required are compared, of descriptions the
first paragraph, and of texts that are JSON what they say."""
SUITES_BEGIN = """\
## Their own tests

The test suites in their source distributions, run by pytest: how many tests pass under their own library, and how many
of these pass under mcpkit, in two ways:

- *all of `mcp` is mcpkit's*: `python -m mcpkit.compat -m pytest`. Tests that talk to their server by the client of
  `mcp` fail, as mcpkit stands in for servers and not for clients: the client is refused by name.
- *the server's side is*: `mcp.server` and what is in it are mcpkit's, in every process, and `mcp.client`, `mcp.types`
  and `mcp.shared` are those of the `mcp` that is installed.

The last two columns say why the others fail. What is not collected fails at an import, of its own or of its conftest.
A test that fails under its own library here, as it wants the network or a package that is not installed, is not
counted.

- A KeyError of a class of `mcp.types`: the test looks a handler up in `request_handlers`, where mcpkit's classes stand.
- `assert False`: the test asks whether content that it gets in the same process is of a class of `mcp.types`.
- A CancelledError: the test waits in vain for the answer to a request that it has cancelled, or for the end of input to
  cancel what runs at once; both are [otherwise](../how-to/compat.md#what-is-otherwise) with mcpkit.

Servers of the package `fastmcp` have their client of it, which mcpkit stands in for. The source distributions of the
servers that are not here have no tests, but for `office-word-mcp-server`, whose one test converts a text by an office
program."""


if __name__ == "__main__":
    sys.exit(main())
