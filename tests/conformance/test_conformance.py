"""The official conformance suite, and what judges its results."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.conformance import run
from tests.conformance.run import Run, judge, read_results

GOOD = {"id": "ping", "status": "SUCCESS"}
SKIPPED = {"id": "ping", "status": "SKIPPED"}
WARNING = {"id": "ping", "status": "WARNING", "errorMessage": "slow"}
FAILURE = {"id": "ping", "status": "FAILURE", "errorMessage": "no pong"}


@pytest.mark.skipif(
    os.environ.get("MCPKIT_TEST_NODE") == "0", reason="left out on purpose: MCPKIT_TEST_NODE=0"
)
def test_server_suite_has_no_failure_or_warning():
    ended = subprocess.run([sys.executable, run.__file__], capture_output=True, encoding="utf-8", check=False)
    assert ended.returncode == 0, f"{ended.stdout}\n{ended.stderr}"


@pytest.mark.parametrize(
    ("checks", "problems"),
    [
        ([GOOD], []),
        ([SKIPPED], []),
        ([GOOD, FAILURE], ["v, h11: ping: FAILURE ping: no pong"]),
        ([GOOD, WARNING], ["v, h11: ping: WARNING ping: slow"]),
    ],
)
def test_judge_reports_failures_and_warnings(checks, problems):
    tasks = {scenario: [GOOD] for scenario in run.NOT_SKIPPED}
    assert judge([Run("v", "h11", {"ping": checks, **tasks})]) == problems


@pytest.mark.parametrize("checks", [{}, {"tasks-lifecycle": [SKIPPED]}])
def test_judge_reports_task_scenarios_that_did_not_run(checks):
    tasks = {scenario: [GOOD] for scenario in run.NOT_SKIPPED if scenario != "tasks-lifecycle"}
    assert judge([Run("v", "h11", {**tasks, **checks})]) == ["tasks-lifecycle: it is not run"]


def test_read_results_scenario_without_checks_failed(tmp_path):
    good = tmp_path / "server-ping-2026-11-21T12-22-11-614Z"
    good.mkdir()
    (good / "checks.json").write_text(json.dumps([GOOD]))
    (tmp_path / "server-sep-2164-resource-not-found-2026-11-21T12-22-11-614Z").mkdir()
    results = read_results(tmp_path)
    assert results["ping"] == [GOOD]
    assert [check["status"] for check in results["sep-2164-resource-not-found"]] == ["FAILURE"]
