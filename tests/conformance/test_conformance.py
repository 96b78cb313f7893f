"""The official conformance suite, and what judges its results."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from conformance import run
from conformance.run import Run, judge, read_expected, read_results

LATER = ("tools-call-elicitation", "tools-call-sampling", "elicitation-", "input-required-result-", "tasks-")
GOOD = {"id": "ping", "status": "SUCCESS"}
SKIPPED = {"id": "ping", "status": "SKIPPED"}
WARNING = {"id": "ping", "status": "WARNING", "errorMessage": "slow"}
FAILURE = {"id": "ping", "status": "FAILURE", "errorMessage": "no pong"}
BAD_MESSAGE = {"id": run.SCHEMA_CHECK, "status": "FAILURE", "errorMessage": "not in the schema"}


@pytest.mark.skipif(
    os.environ.get("MCPKIT_TEST_NODE") == "0", reason="left out on purpose: MCPKIT_TEST_NODE=0"
)
def test_the_suite_finds_nothing_but_what_is_expected():
    ended = subprocess.run([sys.executable, run.__file__], capture_output=True, encoding="utf-8", check=False)
    assert ended.returncode == 0, f"{ended.stdout}\n{ended.stderr}"


def test_only_what_needs_elicitation_sampling_or_tasks_is_excused():
    assert [name for name in read_expected() if not name.startswith(LATER)] == []


@pytest.mark.parametrize(
    ("checks", "expected", "problems"),
    [
        ([GOOD], [], []),
        ([SKIPPED], [], []),
        ([GOOD, FAILURE], [], ["v, h11: ping: FAILURE ping: no pong"]),
        ([GOOD, WARNING], [], ["v, h11: ping: WARNING ping: slow"]),
        ([GOOD, FAILURE], ["ping"], []),
        ([WARNING], ["ping"], []),
        ([GOOD], ["ping"], ["v, h11: ping: passes, so take it out of expected_failures.yml"]),
        ([SKIPPED], ["ping"], ["v, h11: ping: passes, so take it out of expected_failures.yml"]),
        ([FAILURE, BAD_MESSAGE], ["ping"], ["v, h11: ping: FAILURE wire-schema-valid: not in the schema"]),
        ([GOOD], ["pong"], ["pong: no such scenario, so take it out of expected_failures.yml"]),
    ],
)
def test_what_is_a_problem(checks, expected, problems):
    assert judge([Run("v", "h11", {"ping": checks})], expected) == problems


def test_an_entry_that_passes_in_one_run_only_is_a_problem():
    runs = [Run("v", "h11", {"ping": [FAILURE]}), Run("v", "httptools", {"ping": [GOOD]})]
    assert len(judge(runs, ["ping"])) == 1


def test_a_scenario_that_broke_off_has_failed(tmp_path):
    good = tmp_path / "server-ping-2026-11-21T12-22-11-614Z"
    good.mkdir()
    (good / "checks.json").write_text(json.dumps([GOOD]))
    (tmp_path / "server-sep-2164-resource-not-found-2026-11-21T12-22-11-614Z").mkdir()
    results = read_results(tmp_path)
    assert results["ping"] == [GOOD]
    assert [check["status"] for check in results["sep-2164-resource-not-found"]] == ["FAILURE"]


def test_the_list_of_expected_failures_is_read(tmp_path):
    file = tmp_path / "expected.yml"
    file.write_text("# - not-this\nserver:\n  # later\n  - tasks-lifecycle\n  - elicitation-sep1330-enums\n")
    assert read_expected(file) == ["tasks-lifecycle", "elicitation-sep1330-enums"]
