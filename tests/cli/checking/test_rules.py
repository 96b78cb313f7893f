"""The rules of `mcpkit check`: each finds its planted faults, and none finds anything in a server without one."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcpkit.cli.checking.finding import SEVERITIES, Looked
from mcpkit.cli.checking.rules.catalogue import RULES, findings

from .planted import AT_EASE, BLOCKING, CLEAN, PLANTED, with_source

PAGE = Path(__file__).parents[3] / "docs" / "commands" / "check.md"


def test_a_server_without_a_fault_is_found_so() -> None:
    assert findings(Looked([CLEAN])) == []


def test_each_rule_has_a_planted_fault() -> None:
    assert {*PLANTED, "blocks-the-loop"} == set(RULES)


@pytest.mark.parametrize(
    ("code", "looked"), [(code, looked) for code, faults in PLANTED.items() for looked in faults]
)
def test_a_planted_fault_is_found_by_its_rule_and_by_no_other_error(code: str, looked: Looked) -> None:
    found = findings(looked)
    assert code in {finding.code for finding in found}, found
    assert code not in {finding.code for finding in findings(looked, ignored=[code])}
    for finding in found:
        assert finding.where
        assert finding.what
        assert finding.cure
        assert finding.severity == RULES[finding.code].severity


@pytest.mark.parametrize(("line", "head"), BLOCKING)
def test_what_blocks_is_found_with_its_line(tmp_path: Path, line: str, head: str) -> None:
    [finding] = findings(with_source(tmp_path, line, head=head))
    assert (finding.code, finding.where) == ("blocks-the-loop", "server.py:3 slow")


@pytest.mark.parametrize(("line", "head"), AT_EASE)
def test_what_does_not_block_is_not_found(tmp_path: Path, line: str, head: str) -> None:
    assert findings(with_source(tmp_path, line, head=head)) == []


def test_a_function_in_a_thread_may_block(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text("import time\n\ndef slow():\n    time.sleep(1)\n")
    assert findings(Looked([CLEAN], [tmp_path / "server.py"])) == []


def test_what_is_ignored_is_a_rule() -> None:
    with pytest.raises(ValueError, match="there is no rule name-leters; did you mean name-letters"):
        findings(Looked(), ignored=["name-leters"])


def test_the_worst_comes_first() -> None:
    found = findings(Looked([each.surfaces[0] for faults in PLANTED.values() for each in faults[:1]]))
    order = [SEVERITIES.index(finding.severity) for finding in found]
    assert order == sorted(order)


@pytest.mark.parametrize("code", RULES)
def test_the_page_has_each_rule(code: str) -> None:
    rule = RULES[code]
    assert f"| `{code}` | {rule.severity} | {rule.summary} |" in PAGE.read_text()
