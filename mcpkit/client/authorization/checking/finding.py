"""What is found where somebody wants to log in: who fails there, why, and what to change."""

from __future__ import annotations

from dataclasses import dataclass

from .catalogue import CATALOGUE, Severity


@dataclass(frozen=True)
class Finding:
    """Something that keeps clients from logging in at a server, or may.

    Attributes:
        code: What it is, in words that stay the same.
        severity: `error`: clients cannot log in, or nobody is kept out; `warning`: some client meets with something;
            `note`: good to know.
        clients: Who fails; nobody may be among them.
        why: What was seen, and what comes of it.
        cure: What to change.
        url: Where it was seen.
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
    """Return what the catalogue says of something that was found.

    Args:
        code: Its code.
        url: Where it was seen.
        facts: What its words have a place for; texts of strangers have been shortened.
    """
    known = CATALOGUE[code]
    return Finding(
        code, known.severity, known.clients, known.why.format(**facts), known.cure.format(**facts), url
    )
