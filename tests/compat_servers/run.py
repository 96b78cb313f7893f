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
from pathlib import Path

from page import Row, keep_migrated, keep_rows, keep_suite, write
from suites import SUITES, Suite, migrate, run_suite

from tests.compat_servers.peers import Http, Kit, Plan, Stdio, Step, compare, free_port, travel
from tests.compat_servers.servers import INSTALLED, SERVERS, Server

REVISIONS = ("2025-11-25", "2024-11-05")
NOWHERE = "http://127.0.0.1:9"  # a proxy that nothing listens at: what looks for the network fails at once
DATE = "2025-01-01T00:00:00Z"


def main() -> int:
    """Try each server, print a line for each journey, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", help="only servers with this in their name")
    parser.add_argument("--held-out", action="store_true", help="also those that are held out")
    parser.add_argument("--suites", action="store_true", help="also the test suites that servers bring")
    parser.add_argument(
        "--migrated", action="store_true", help="also what becomes of servers that are rewritten"
    )
    parser.add_argument(
        "--at-once", type=int, default=4 * (os.cpu_count() or 1), help="how many servers are tried at a time"
    )
    parser.add_argument("--keep", type=Path, help="a folder for what was said, and the notes of the servers")
    parser.add_argument(
        "--without-journeys", action="store_true", help="no more than the suites, and what is rewritten"
    )
    parser.add_argument(
        "--itself", action="store_true", help="compare with its own library once more: nothing may differ"
    )
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
    write()
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
    keep_suite(passed)


def tried(
    server: Server, transport: str, environment: str, revision: str, keep: Path | None, itself: bool
) -> Row:
    """Try one server in one way, and print how it fared."""
    with tempfile.TemporaryDirectory(prefix="compat-") as work:
        plan = Plan(placed(server.kit, work))
        notes = (keep or Path(work)) / f"{server.name}-{transport[:5]}-{revision}.txt"
        notes.parent.mkdir(parents=True, exist_ok=True)
        last = (server.name, False) if itself else (environment, True)
        run = [
            journey(server, transport, each, plan, revision, Path(work), notes)
            for each in ((server.name, False), (server.name, False), last)
        ]
    if keep is not None:
        for name, steps in zip(("own", "again", "ours"), run, strict=True):
            said = [[step.label, step.heard] for step in steps]
            notes.with_suffix(f".{name}.json").write_text(json.dumps(said, indent=1, ensure_ascii=False))
    is_standalone = "fastmcp" in server.kind and "server" not in server.kind
    library = version(server.name, "fastmcp" if is_standalone else "mcp")
    verdict = compare(*run, library)
    row = Row(server, version(server.name, server.name), transport, revision, counts(run[0]), verdict)
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
    keep_migrated(fared)
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


if __name__ == "__main__":
    sys.exit(main())
