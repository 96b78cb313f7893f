"""The page of `mcpkit doctor` names all that is found."""

from __future__ import annotations

from pathlib import Path

from mcpkit.cli.doctor.findings.catalogue import CATALOGUE

PAGE = Path(__file__).parents[3] / "docs" / "commands" / "doctor.md"


def test_the_page_names_all_that_is_found() -> None:
    named = [line.split("`")[1] for line in PAGE.read_text().splitlines() if line.startswith("- `")]
    assert named == list(CATALOGUE)


def test_all_that_is_found_is_planted_somewhere() -> None:
    tests = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*s.py"))
    assert not [code for code in CATALOGUE if f'"{code}"' not in tests and f" {code}: " not in tests]
