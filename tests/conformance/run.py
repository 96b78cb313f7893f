"""Runs the official conformance suite against `server.py`, prints a table, and fails on whatever was not expected.

Both versions of the suite, its two requirement sets and all of its scenarios, over both of uvicorn's HTTP parsers.
A warning counts as a failure, and so does a scenario on tasks that the suite skips, but for one that it always does.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
SERVER = HERE / "server.py"
NODE_MODULES = HERE.parents[1] / "node_modules"
PARSERS = ("h11", "httptools")
SELECTIONS = [
    ("conformance-0-1", ("--suite", "all")),
    ("conformance-0-2", ("--requirements", "2025-11-25")),
    ("conformance-0-2", ("--requirements", "2026-07-28")),
    ("conformance-0-2", ("--suite", "all")),
]
START_TIME_OUT = 30.0  # seconds until the server accepts connections
RUN_TIME_OUT = 150.0  # seconds for one run of the suite; it gives each scenario 30
STOP_TIME_OUT = 15.0  # seconds for the server to end
FAILED = {"FAILURE", "WARNING"}
NOT_SKIPPED = [
    f"tasks-{name}"
    for name in (
        "capability-negotiation",
        "dispatch-and-envelope",
        "lifecycle",
        "mrtr-composition",
        "mrtr-input",
        "request-headers",
        "request-state-removal",
        "required-task-error",
        "wire-fields",
    )
]
"""Scenarios of an extension: the suite would skip those whose extension is not declared."""

Check = Mapping[str, Any]
Scenarios = Mapping[str, Sequence[Check]]


class ConformanceError(Exception):
    """The suite could not be run; the text says why."""


class Run(NamedTuple):
    """One run of the suite and the checks of each of its scenarios."""

    suite: str
    parser: str
    scenarios: Scenarios


def find_node() -> str:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    node = shutil.which("node", path=path)
    if node is None or not all((NODE_MODULES / package).is_dir() for package, _ in SELECTIONS):
        raise ConformanceError("Node or the suite is not installed: run `make setup`")
    return node


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


@contextmanager
def serving(server: Path, parser: str, log: Path) -> Iterator[str]:
    """Start the server and yield its URL; what it logs goes to a file."""
    port = free_port()
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, str(server), str(port), "--http", parser],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        wait_for(process, port, log)
        yield f"http://127.0.0.1:{port}/mcp"
        if process.poll() is not None:
            raise ConformanceError(f"the server ended with status {process.returncode}:\n{tail(log)}")
    finally:
        process.terminate()
        try:
            process.wait(STOP_TIME_OUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_for(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + START_TIME_OUT
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise ConformanceError(f"the server does not listen:\n{tail(log)}") from None
            time.sleep(0.05)
        else:
            return


def tail(log: Path, lines: int = 40) -> str:
    return "\n".join(log.read_text("utf-8", "replace").splitlines()[-lines:])


def run_suite(node: str, package: str, arguments: Sequence[str], url: str, results: Path) -> Scenarios:
    """Run the suite once and return the checks of each scenario."""
    command = [node, str(NODE_MODULES / package / "dist" / "index.js"), "server", "--url", url, *arguments]
    try:
        ended = subprocess.run(
            [*command, "--output-dir", str(results)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            timeout=RUN_TIME_OUT,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ConformanceError(f"{' '.join(command)} took longer than {RUN_TIME_OUT:g} s") from error
    scenarios = read_results(results)
    if "=== SUMMARY ===" not in ended.stdout or not scenarios:
        raise ConformanceError(f"{' '.join(command)} broke off:\n{ended.stdout[-2000:]}")
    return scenarios


def read_results(results: Path) -> Scenarios:
    """Read what the suite wrote: a folder for each scenario, empty where the scenario itself broke off."""
    scenarios: dict[str, Sequence[Check]] = {}
    for folder in sorted(results.glob("server-*")):
        name = re.sub(r"^server-|-\d{4}-\d\d-\d\dT[\d-]+Z$", "", folder.name)
        checks = folder / "checks.json"
        if checks.is_file():
            scenarios[name] = json.loads(checks.read_bytes())
        else:
            scenarios[name] = [{"id": name, "status": "FAILURE", "errorMessage": "the scenario broke off"}]
    return scenarios


def judge(runs: Sequence[Run]) -> list[str]:
    """Return what is wrong, a line for each thing."""
    problems = [
        f"{run.suite}, {run.parser}: {scenario}: {check['status']} {check['id']}: "
        f"{check.get('errorMessage') or check.get('description')}"
        for run in runs
        for scenario, checks in run.scenarios.items()
        for check in checks
        if check["status"] in FAILED
    ]
    passed = {
        scenario
        for run in runs
        for scenario, checks in run.scenarios.items()
        if any(check["status"] == "SUCCESS" for check in checks)
    }
    return problems + [f"{scenario}: it is not run" for scenario in NOT_SKIPPED if scenario not in passed]


def row(run: Run) -> str:
    counts = Counter(check["status"] for checks in run.scenarios.values() for check in checks)
    figures = [len(run.scenarios)] + [counts[kind] for kind in ("SUCCESS", "FAILURE", "WARNING", "SKIPPED")]
    return f"{run.suite:<42}{run.parser:<11}" + "".join(f"{figure:>10}" for figure in figures)


def run_all(server: Path, parser: str, node: str, folder: Path) -> list[Run]:
    runs = []
    with serving(server, parser, folder / "server.log") as url:
        for number, (package, arguments) in enumerate(SELECTIONS):
            version = json.loads((NODE_MODULES / package / "package.json").read_bytes())["version"]
            scenarios = run_suite(node, package, arguments, url, folder / str(number))
            runs.append(Run(f"{version} {' '.join(arguments)}", parser, scenarios))
    return runs


def main(server: Path = SERVER) -> int:
    started = time.monotonic()
    node = find_node()
    with tempfile.TemporaryDirectory() as temporary, ThreadPoolExecutor() as pool:
        folders = [Path(temporary, parser) for parser in PARSERS]
        for folder in folders:
            folder.mkdir()
        all_runs = pool.map(run_all, [server] * len(PARSERS), PARSERS, [node] * len(PARSERS), folders)
        runs = [run for of_parser in all_runs for run in of_parser]
        logs = [tail(folder / "server.log") for folder in folders]
    headings = ["scenarios", "passed", "failed", "warnings", "skipped"]
    print(f"{'suite':<42}{'uvicorn':<11}" + "".join(f"{heading:>10}" for heading in headings))
    for run in runs:
        print(row(run))
    problems = judge(runs)
    seconds = time.monotonic() - started
    print(f"{len(problems) or 'no'} problems, {seconds:.0f} s")
    if problems:
        print(*problems, *(log for log in logs if log), sep="\n")
    return 1 if problems else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ConformanceError as error:
        sys.exit(f"conformance: {error}")
