"""Findings of `check`, `lock`, `doctor` and `auth check`: catalogue entries, text, JSON and exit status."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Final, Literal, NamedTuple

from ..protocol.jsonrpc import Json
from .exit_status import Status

Severity = Literal["error", "warning", "advice", "note"]

SEVERITIES: Final[tuple[Severity, ...]] = ("error", "warning", "advice", "note")
"""From most to least severe: certain failure, problem of some hosts or clients, improvement, information."""


@dataclass(frozen=True)
class Finding:
    """A problem of a server.

    Attributes:
        code: A stable code, such as `name-too-long`.
        severity: The severity.
        place: The component, such as `tool price`, or the step of the check.
        message: The observation and its consequence.
        cure: The fix.
    """

    code: str
    severity: Severity
    place: str
    message: str
    cure: str

    def __str__(self) -> str:
        return finding_text(self.severity, self.code, f"{self.place}: {self.message}", self.cure)

    def as_json(self, place: str, message: str) -> Json:
        """Return the finding as JSON.

        Args:
            place: The key of the place.
            message: The key of the message.
        """
        keys = {"place": place, "message": message}
        return {keys.get(key, key): value for key, value in asdict(self).items()}


def finding_text(
    severity: Severity, code: str, message: str, cure: str, clients: tuple[str, ...] = ()
) -> str:
    """Return the text of a finding: severity, code and message, and indented lines with clients and fix."""
    lines = [f"{severity} {code}: {message}"]
    if clients:
        lines.append(f"Affected clients: {'; '.join(clients)}.")
    return "\n  ".join([*lines, f"Fix: {cure}."])


class CatalogueEntry(NamedTuple):
    """The finding of a code; `{...}` in its texts stands for a fact.

    Attributes:
        severity: The severity.
        message: The observation and its consequence.
        cure: The fix.
        clients: The affected clients; empty if they are not known.
    """

    severity: Severity
    message: str
    cure: str
    clients: tuple[str, ...] = ()

    def finding(self, code: str, place: str, **facts: object) -> Finding:
        """Return the finding with its facts."""
        return Finding(code, self.severity, place, self.message.format(**facts), self.cure.format(**facts))


def error(message: str, cure: str, *clients: str) -> CatalogueEntry:
    """Return the catalogue entry of an error."""
    return CatalogueEntry("error", message, cure, clients)


def warning(message: str, cure: str, *clients: str) -> CatalogueEntry:
    """Return the catalogue entry of a warning."""
    return CatalogueEntry("warning", message, cure, clients)


def note(message: str, cure: str, *clients: str) -> CatalogueEntry:
    """Return the catalogue entry of a note."""
    return CatalogueEntry("note", message, cure, clients)


def exit_status_of(severities: Iterable[Severity], *allowed: Severity) -> Status:
    """Return the exit status of a command with findings of these severities; an allowed severity does not count."""
    return Status.FINDINGS if set(severities) - set(allowed) else Status.DONE
