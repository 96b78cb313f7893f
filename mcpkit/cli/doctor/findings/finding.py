"""What was found at a server, and what a check has seen."""

from __future__ import annotations

from dataclasses import dataclass, field

from .catalogue import CATALOGUE, Severity


@dataclass(frozen=True)
class Finding:
    """Something that a client stumbles over, or may.

    Attributes:
        code: What it is, in words that stay the same.
        severity: `error`: something does not work; `warning`: some client meets with something; `note`: good to know.
        seen: What was seen.
        cure: What to change.
    """

    code: str
    severity: Severity
    seen: str
    cure: str


@dataclass
class Seen:
    """What a step has come to.

    Attributes:
        step: What was looked at.
        summary: What was seen, in a line; empty where there is nothing to say.
        findings: What is wrong.
        is_end: Whether there is no way on from here.
    """

    step: str
    summary: str = ""
    findings: list[Finding] = field(default_factory=list[Finding])
    is_end: bool = False

    def find(self, code: str, **facts: object) -> Seen:
        """Add what the catalogue says of something, unless it is there already, and return this."""
        known = CATALOGUE[code]
        finding = Finding(code, known.severity, known.seen.format(**facts), known.cure.format(**facts))
        if finding not in self.findings:
            self.findings.append(finding)
        return self


def quoted(text: str, most: int = 80) -> str:
    """Return a stranger's text as it can be shown in a line."""
    return repr(text if len(text) <= most else f"{text[:most]}...")
