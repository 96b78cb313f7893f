"""Findings of a check: affected clients, reason and fix."""

from __future__ import annotations

from dataclasses import dataclass

from .catalogue import CATALOGUE, Severity


@dataclass(frozen=True)
class Finding:
    """A finding about logins at a server.

    Attributes:
        code: The stable code of the finding.
        severity: `error`: clients cannot log in, or requests are accepted without a token; `warning`: some clients have
            a problem; `note`: information.
        clients: The affected clients; may be empty.
        why: The observation and its consequence.
        cure: The recommended change.
        url: The URL of the observation.
    """

    code: str
    severity: Severity
    clients: tuple[str, ...]
    why: str
    cure: str
    url: str

    def __str__(self) -> str:
        lines = [f"{self.severity} {self.code}: {self.url}", self.why]
        if self.clients:
            lines.append(f"Affected clients: {'; '.join(self.clients)}.")
        return "\n  ".join([*lines, f"What to change: {self.cure}."])


def found(code: str, url: str, **facts: object) -> Finding:
    """Return the finding of a code from the catalogue.

    Args:
        code: The code.
        url: The URL of the observation.
        facts: The values for the placeholders. Texts from servers are shortened.
    """
    known = CATALOGUE[code]
    return Finding(
        code, known.severity, known.clients, known.why.format(**facts), known.cure.format(**facts), url
    )
