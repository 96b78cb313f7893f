"""The tests that the page on security names are there."""

from __future__ import annotations

import re

from .pages import ROOT

_NAMED = re.compile(r"`([\w/]+\.py)::(test_\w+)`")


def test_each_threat_is_held_by_a_test_that_there_is() -> None:
    page = (ROOT / "docs" / "how-to" / "security.md").read_text()
    threats = [line for line in page.split("### Threat by threat")[1].splitlines() if line.startswith("| ")][
        1:
    ]
    assert len(threats) > 20
    for threat in threats[1:]:
        named = _NAMED.findall(threat)
        assert named, f"no test: {threat}"
        for file, name in named:
            text = (ROOT / "tests" / file).read_text()
            assert re.search(rf"^(async )?def {name}\(", text, re.MULTILINE), f"{file} has no {name}"
