"""The page of docs/reference that says what was seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from journey import NONE, Seen

from tests.servers.servers import ROOT_FOLDER, Server

PAGE = ROOT_FOLDER / "docs" / "reference" / "servers.md"
WAYS = {"stdio": "stdio", "http": "streamable HTTP", "sse": "HTTP+SSE"}
TRIED = ("call", "read", "prompt", "elicitation", "sampling", "roots", "progress", "changes", "cancel")
HEADINGS = [
    *(
        "server",
        "version",
        "transport",
        "revision",
        "lists",
        "call",
        "read",
        "prompt",
        "elicit",
        "sample",
        "roots",
    ),
    *("progress", "changes", "cancel", "closed in"),
]


@dataclass(frozen=True)
class Row:
    """One server over one transport in one revision.

    Attributes:
        revision: The one that was asked for; None for what the client found out.
    """

    server: Server
    version: str
    transport: str
    revision: str | None
    seen: Seen

    def expected(self, column: str) -> str | None:
        """What is known to be otherwise in a column, and why."""
        differs = self.server.differs
        spoken = self.seen.get("revision", "")
        for key in (
            f"{column}, {self.transport}, {spoken}",
            f"{column}, {self.transport}",
            f"{column}, {spoken}",
            column,
        ):
            if key in differs:
                return differs[key]
        return None

    def failures(self) -> list[str]:
        """What went otherwise than it should, a line for each thing."""
        where = f"{self.server.name} over {self.transport} ({self.revision or 'found out'})"
        lines = []
        for column, seen in self.seen.items():
            is_known = self.expected(column) is not None
            if seen.startswith("no") and not is_known:
                lines.append(f"{where}: {column}: {seen}")
            if seen == "yes" and is_known:
                lines.append(f"{where}: {column}: works, so take it out of what differs")
        return lines


HEAD = """\
<!-- Written by tests/servers/run.py: change that, and run `make servers`. -->

# Servers that the client has met

What `mcpkit.Client` did with servers that others have written, over each transport that they speak. `make servers`
installs them, tries all of it and writes this page.

Five are programs: the reference servers `everything`, `filesystem` and `memory` of npm, `time` and `git` of PyPI.
Five are libraries, each with a small server as its users write it. Where a server knows the stateless revision as well
as the handshake, both are tried: what the client finds out by itself, and `revision="2025-11-25"`.

"""

LEGEND = """
- *Lists*: how many tools, resources, resource templates and prompts there are, all pages.
- *Elicit*, *sample*, *roots*: a tool asked, the client's handler answered, and the tool returned what it was told.
- *Progress*: a call told three times how far it had come.
- *Changes*: `client.watch` heard of a list of tools, or of a resource, that had changed.
- *Cancel*: a call that takes a minute was given up. *Yes*: the function was stopped, as the server says itself.
  *Freed*: the caller went on at once, and the server answered the next call; it does not say what became of the
  function.
- *Closed in*: how long it took until the client was closed. No process, descriptor or task of it was left.
- A dash: the server has nothing of the kind, or does not declare it.
"""


def write(rows: Sequence[Row]) -> None:
    """Write the page."""
    notes: list[str] = []
    lines = [HEADINGS, ["---"] * len(HEADINGS)]
    for row in rows:
        cells = [row.server.name, row.version, WAYS[row.transport], row.seen.get("revision", "no")]
        cells += [shown(row, column, notes) for column in ("lists", *TRIED, "close")]
        lines.append(cells)
    table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    differs = "".join(f"{number}. {note}\n" for number, note in enumerate(notes, 1))
    why = sorted(
        {(row.seen.get("revision", ""), row.seen.get("why", "")) for row in rows if row.revision is None}
    )
    reasons = "".join(f"| {revision} | {reason} | {who(rows, reason)} |\n" for revision, reason in why)
    PAGE.write_text(
        f"{HEAD}{table}\n{LEGEND}\n## What differs\n\n{differs}\n## Why that revision\n\n"
        "What `client.revision_reason` said where the client found out.\n\n"
        f"| revision | reason | servers |\n| --- | --- | --- |\n{reasons}",
        "utf-8",
    )


def who(rows: Sequence[Row], reason: str) -> str:
    """The servers of which a reason was given."""
    named = {
        f"{row.server.name} ({row.transport})": None
        for row in rows
        if row.revision is None and row.seen.get("why") == reason
    }
    return ", ".join(named)


def shown(row: Row, column: str, notes: list[str]) -> str:
    """What stands in a cell, with the number of its note where it is otherwise than expected."""
    seen = row.seen.get(column, NONE)
    note = row.expected(column)
    if note is None:
        return seen.split(":")[0]
    if note not in notes:
        notes.append(note)
    return f"{seen.split(':')[0]} [{notes.index(note) + 1}]"
