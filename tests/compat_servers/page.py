"""The page of docs/reference that says how published servers fared."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from suites import Migrated, Passed

from tests.compat_servers.peers import Difference, Verdict
from tests.compat_servers.servers import DIFFERS, INSTALLED, ROOT_FOLDER, SERVERS, Server

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
    seen = [
        {
            "version": row.version,
            "transport": row.transport,
            "revision": row.revision,
            "counts": row.counts,
            "requests": row.verdict.requests,
            "equal": row.verdict.equal,
            "varying": row.verdict.varying,
            "why": sorted(
                {row.why(each) or f"**unexplained**: `{each.label}`" for each in row.verdict.differences}
            ),
        }
        for row in rows
    ]
    (KEPT / f"{server.name}.json").write_text(json.dumps(seen, indent=1))


def keep_suite(passed: Passed) -> None:
    """Put away how a suite went, for the page."""
    SUITES_KEPT.mkdir(parents=True, exist_ok=True)
    (SUITES_KEPT / f"{passed.name}.json").write_text(json.dumps(asdict(passed), indent=1))


def keep_migrated(fared: Migrated) -> None:
    """Put away how a server fared that was rewritten, for the page."""
    MIGRATED_KEPT.mkdir(parents=True, exist_ok=True)
    (MIGRATED_KEPT / f"{fared.name}.json").write_text(json.dumps(asdict(fared), indent=1))


def write() -> None:
    """Write the page from what was put away."""
    notes: list[str] = []
    lines = [BEGINNING, _table(SERVERS_HEAD)]
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
            lines.append(_table([*first, row["transport"], row["revision"], *compared]))
    lines += ["", *(f"{number}. {why}" for number, why in enumerate(notes, 1))]
    lines += ["", CHOSEN, "", _table(("server", "chosen for"))]
    lines += [_table((server.name, server.chosen_for)) for server in SERVERS]
    lines += ["", MIGRATED_BEGIN, "", _table(MIGRATED_HEAD), *_migrated()]
    lines += ["", SUITES_BEGIN, "", _table(SUITES_HEAD)]
    for file in sorted(SUITES_KEPT.glob("*.json")):
        suite = json.loads(file.read_text())
        found = [suite[name] for name in ("own", "ours", "beside")]
        numbers = ["-" if each is None else str(each) for each in found]
        said = [_reasons(suite[name]) for name in ("reasons", "beside_reasons")]
        lines.append(_table([suite["name"], suite["version"], *numbers, *said]))
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
            yield _table([server.name, *counted, f"no: {trouble}", *["-"] * 5])
        else:
            same, of = fared["lists"]
            calls = [str(fared["asked"]), str(fared["equal"]), marks or "-", str(fared["varying"] or "-")]
            yield _table([server.name, *counted, "yes", f"{same} of {of}", *calls])
    yield ""
    yield from (f"{number}. {why}" for number, why in enumerate(notes, 1))


def _reasons(counted: Mapping[str, int]) -> str:
    told = "; ".join(f"{said if '`' in said else f'`{said}`'} ({count})" for said, count in counted.items())
    return told.replace("|", "\\|") or "-"


def _table(cells: Sequence[str]) -> str:
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
MIGRATED_HEAD = (
    *("server", "files", "marks", "runs", "lists equal"),
    *("calls", "equal", "differ", "vary"),
)
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
