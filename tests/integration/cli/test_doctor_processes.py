"""mcpkit doctor at processes: planted faults are found, a sound server has none."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from mcpkit.cli.app import run
from mcpkit.cli.doctor.checks import leaving, starting
from mcpkit.cli.doctor.findings.catalogue import CATALOGUE
from mcpkit.client.link import negotiation
from tests.helpers.serving import ROOT

WEATHER = f"{sys.executable} {ROOT / 'examples' / 'weather' / 'server.py'} --sample"


@pytest.fixture(autouse=True)
def haste(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait less for what does not come."""
    monkeypatch.setattr(leaving, "_ENDING", 1.0)
    monkeypatch.setattr(leaving, "_REPEATING", 1.0)
    monkeypatch.setattr(negotiation, "PROBE", 0.5)


def faulty(*faults: str) -> str:
    return f"{sys.executable} -S {Path(__file__).with_name('faulty_process.py')} {' '.join(faults)}"


def doctor(capfd: pytest.CaptureFixture[str], target: str, *options: str) -> tuple[int, dict[str, Any]]:
    """Return the status, and what is written as JSON; `codes` are those of the findings, in order."""
    status = run(["doctor", target, "--json", *options])
    report: dict[str, Any] = json.loads(capfd.readouterr().out)
    report["codes"] = [each["code"] for each in report["findings"]]
    return status, report


def test_doctor_weather_example_has_no_findings(capfd: pytest.CaptureFixture[str]) -> None:
    status, report = doctor(capfd, WEATHER, "--call")
    assert (status, report["findings"]) == (0, [])
    seen = {each["step"]: each["seen"] for each in report["steps"]}
    assert "weather 1.0.0" in seen["start"]
    assert seen["revisions"] == "supports 2024-11-05, 2025-03-26, 2025-06-18, 2025-11-25, 2026-07-28"
    assert seen["capabilities"] == "completions, logging, resources.subscribe, subscriptions/listen"


@pytest.mark.parametrize(
    ("faults", "found"),
    [
        ("", []),
        ("noise", ["noise", "noise"]),
        ("byte-order-mark crlf", ["byte-order-mark", "crlf"]),
        ("encoding", ["encoding"]),
        ("encoding-windows", ["encoding-windows"]),
        ("echoed-revision", ["echoed-revision"]),
        ("no-common-revision", ["no-common-revision"]),
        ("unknown-revision", ["unknown-revision"]),
        ("discover-ends", ["discover-ends"]),
        ("tools/list prompts/list", ["list-fails", "list-fails"]),
        ("undeclared-tools undeclared-prompts", ["undeclared", "undeclared"]),
        ("cursor-loops", ["cursor-loops", "cursor-accepted"]),
        ("pages", []),
        ("pages cursor-accepted", ["cursor-accepted"]),
        ("resources/subscribe logging/setLevel", ["logging-fails", "subscribe-fails"]),
        ("completion/complete", ["completions-fail"]),
        ("ping unknown-method", ["ping-fails", "unknown-method"]),
        ("client-fails", ["client-fails"]),
        ("output-mismatch", ["output-mismatch"]),
        ("tools/call", ["call-fails"]),
        ("listen-refused", ["listen-refused"]),
        ("malformed-ends", ["malformed-ends"]),
        ("orphans", ["orphans"]),
    ],
)
def test_doctor_finds_planted_faults(
    faults: str, found: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    status, report = doctor(capfd, faulty(*faults.split()), "--call")
    assert report["codes"] == found, report
    assert status == (6 if found else 0)
    assert all(each["cure"] and "{" not in each["seen"] + each["cure"] for each in report["findings"])


@pytest.mark.parametrize(
    ("faults", "found", "status"),
    [
        ("discover-silent", ["discover-silent"], 6),
        ("no-answer", ["no-answer"], 4),
        ("buffered-output", ["buffered-output"], 6),
        ("ended-at-start", ["ended-at-start"], 4),
        ("input-end-ignored", ["input-end-ignored"], 6),
        ("sigterm-ignored", ["sigterm-ignored"], 6),
    ],
)
def test_doctor_finds_missing_responses(
    faults: str, found: list[str], status: int, capfd: pytest.CaptureFixture[str]
) -> None:
    ended, report = doctor(capfd, faulty(*faults.split()), "--timeout", "2")
    assert (report["codes"], ended) == (found, status), report


def test_doctor_prints_observation_and_fix(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(starting, "_SLOW", 0.0)
    assert run(["doctor", faulty("noise", "no-common-revision")]) == 6
    said = capfd.readouterr().out
    assert "error noise: Line 1 of standard output is not a JSON-RPC message: 'Server is running...'" in said
    assert "Fix: write only messages to standard output, and other output to standard error: print(" in said
    assert "initialize with revision 2099-12-31 got error -32602 (refused)" in said
    assert "warning slow-start: " in said
    assert run(["doctor", faulty("ended-at-start")]) == 4
    assert "with exit status 1 before its first response: DATABASE_URL is not set" in capfd.readouterr().out


def test_doctor_missing_program_is_finding(capfd: pytest.CaptureFixture[str]) -> None:
    status, report = doctor(capfd, "no-such-program --serve")
    assert (status, report["codes"]) == (4, ["not-started"])
    assert "it is not on PATH" in report["findings"][0]["seen"]
    assert "absolute path" in report["findings"][0]["cure"]


PAGE = Path(__file__).parents[3] / "docs" / "commands" / "doctor.md"


def test_doctor_page_lists_catalogue() -> None:
    named = [line.split("`")[1] for line in PAGE.read_text().splitlines() if line.startswith("- `")]
    assert named == list(CATALOGUE)


def test_doctor_catalogue_codes_are_all_tested() -> None:
    tests = "".join(path.read_text() for path in Path(__file__).parent.glob("test_doctor_*.py"))
    assert not [code for code in CATALOGUE if f'"{code}"' not in tests and f" {code}: " not in tests]


def test_doctor_configuration_entry_is_target(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    [program, *arguments] = faulty("crlf", "$FAULT").split()
    entry = {"command": program, "args": [*arguments[:-1], "ping"]}
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({"mcpServers": {"one": entry, "two": entry}}))
    assert doctor(capfd, f"{file}:two")[1]["codes"] == ["crlf", "ping-fails"]
    assert run(["doctor", str(file)]) == 1
    assert "Write " in capfd.readouterr().err
