"""Findings, as a person or a script reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from ...console import escape_control_characters, write, write_json
from ...exit_status import Status
from ..finding import SEVERITIES, Finding


def tell(found: Sequence[Finding], *, is_json: bool, is_strict: bool) -> int:
    """Write findings to standard output.

    Args:
        found: The findings.
        is_json: Whether JSON is wanted.
        is_strict: Whether advice counts as much as errors.

    Returns:
        The status of the process.
    """
    if is_json:
        write_json({"findings": [asdict(finding) for finding in found]})
    else:
        for finding in found:
            write(_lines(finding))
        write(_sum(found))
    is_found = any(is_strict or finding.severity != "advice" for finding in found)
    return Status.FINDINGS if is_found else Status.DONE


def _lines(finding: Finding) -> str:
    return escape_control_characters(
        f"{finding.severity}: {finding.where}: {finding.what} [{finding.code}]\n  {finding.cure}"
    )


def _sum(found: Sequence[Finding]) -> str:
    if not found:
        return "no findings"
    counts = [(severity, sum(finding.severity == severity for finding in found)) for severity in SEVERITIES]
    words = {"error": "errors", "warning": "warnings", "advice": "pieces of advice"}
    ones = {"error": "error", "warning": "warning", "advice": "piece of advice"}
    return ", ".join(
        f"{count} {(ones if count == 1 else words)[severity]}" for severity, count in counts if count
    )
