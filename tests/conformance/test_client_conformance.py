"""The official conformance suites in client mode, a test for each scenario and revision.

Those on authorization stand in `test_client_authorization.py`. Those on skills are left out: they are not here yet.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.conformance.client_suite import NEW, OLD, Run, problems_of, suite

pytestmark = pytest.mark.skipif(
    os.environ.get("MCPKIT_TEST_NODE") == "0", reason="left out on purpose: MCPKIT_TEST_NODE=0"
)

HANDSHAKE = ("initialize", "tools_call", "elicitation-sep1034-client-defaults", "sse-retry")
BOTH = ("json-schema-2020-12-preservation",)
STATELESS = (
    "tools_call",
    "request-metadata",
    "sep-2322-client-request-state",
    "http-standard-headers",
    "http-custom-headers",
    "http-invalid-tool-headers",
    "json-schema-ref-no-deref",
)
LEFT_OUT = ("auth/", "sep-2640-")
TIMED = {"sse-retry": "client-sse-retry-timing"}
"""What the suite measures with a clock, and how that check is called. It fails on a busy machine, too."""


SETS = {
    "2025-11-25": [Run(NEW, name, "2025-11-25") for name in HANDSHAKE + BOTH],
    "2026-07-28": [Run(NEW, name, "2026-07-28") for name in STATELESS + BOTH],
}
RUNS = [*(Run(OLD, name) for name in HANDSHAKE), *SETS["2025-11-25"], *SETS["2026-07-28"]]


@pytest.mark.parametrize("run", RUNS, ids="-".join)
def test_client_suite_has_no_failure_or_warning(run: Run, tmp_path: Path) -> None:
    problems = problems_of(run, tmp_path / "first")
    if any(TIMED.get(run.scenario, "nothing") in problem for problem in problems):
        problems = problems_of(run, tmp_path / "second")
    assert problems == []


@pytest.mark.parametrize("package", [OLD, NEW])
def test_all_client_scenarios_of_the_suites_run(package: str) -> None:
    """All of them, each at the revision that the suite takes where none is named: the first, or 2025-11-25."""
    listed = re.findall(r"^  - (\S+) \[(.*)\]$", suite(package, "list", "--client").stdout, re.MULTILINE)
    wanted = {
        Run(package, name, "" if package == OLD else max("2025-11-25", revisions.split(",")[0]))
        for name, revisions in listed
        if not name.startswith(LEFT_OUT)
    }
    assert len(wanted) >= len(HANDSHAKE)
    assert wanted <= set(RUNS)


@pytest.mark.parametrize("revision", SETS)
def test_all_client_scenarios_of_the_requirement_sets_run(revision: str) -> None:
    listed = suite(NEW, "list", "--requirements", revision).stdout.partition("Client scenarios")[2]
    names = re.findall(r"^ +- (\S+)(?: \[client\])?$", listed, re.MULTILINE)
    wanted = [name for name in names if not name.startswith(LEFT_OUT)]
    assert sorted(wanted) == sorted(run.scenario for run in SETS[revision])
