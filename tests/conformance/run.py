"""Runs the official conformance suite against `server.py` and fails on whatever was not expected.

Both versions of the suite, its two requirement sets and all of its scenarios, over both of uvicorn's HTTP parsers.
A warning counts as a failure, and so does a scenario on tasks that the suite skips.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[2])]

from tests.helpers.node import node_search_path  # noqa: E402 - found by the path above
from tests.helpers.serving import Served  # noqa: E402 - found by the path above

SERVER = Path(__file__).parent / "server.py"
NODE_MODULES = Path(__file__).parents[2] / "node_modules"
PARSERS = ("h11", "httptools")
SELECTIONS = [
    ("conformance-0-1", ("--suite", "all")),
    ("conformance-0-2", ("--requirements", "2025-11-25")),
    ("conformance-0-2", ("--requirements", "2026-07-28")),
    ("conformance-0-2", ("--suite", "all")),
]
TIMEOUT = 150.0  # seconds for one run of the suite; it gives each scenario 30
FAILED = {"FAILURE", "WARNING"}
_TASKS = (
    *("capability-negotiation", "dispatch-and-envelope", "lifecycle", "mrtr-composition", "mrtr-input"),
    *("request-headers", "request-state-removal", "required-task-error", "wire-fields"),
)
NOT_SKIPPED = [f"tasks-{name}" for name in _TASKS]
"""Scenarios of an extension: the suite would skip those of an undeclared extension."""


def find_node() -> str:
    node = shutil.which("node", path=node_search_path())
    if node is None or not all((NODE_MODULES / package).is_dir() for package, _ in SELECTIONS):
        sys.exit("conformance: Node or the suite is not installed: run `make setup`")
    return node


def run_suite(node: str, package: str, arguments: Sequence[str], url: str) -> tuple[Counter[str], list[str]]:
    """Run the suite once; return how many checks have each status, by scenario too, and the problems."""
    command = [node, str(NODE_MODULES / package / "dist" / "index.js"), "server", "--url", url, *arguments]
    counts: Counter[str] = Counter()
    problems = []
    with tempfile.TemporaryDirectory() as results:
        command += ["--output-dir", results]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
        folders = sorted(Path(results).glob("server-*"))
        if "=== SUMMARY ===" not in ended.stdout or not folders:
            problems.append(f"the suite broke off:\n{ended.stdout[-2000:]}\n{ended.stderr[-2000:]}")
        for folder in folders:
            file = folder / "checks.json"
            if not file.is_file():
                problems.append(f"{folder.name} broke off")
                continue
            for check in json.loads(file.read_bytes()):
                counts[check["status"]] += 1
                if check["status"] == "SUCCESS":
                    counts.update(name for name in NOT_SKIPPED if name in folder.name)
                if check["status"] in FAILED:
                    text = check.get("errorMessage") or check.get("description")
                    problems.append(f"{folder.name}: {check['status']} {check['id']}: {text}")
    return counts, problems


def run_all(node: str, parser: str) -> list[str]:
    """Run all selections over one parser, print a line for each, and return the problems."""
    problems: list[str] = []
    passed: Counter[str] = Counter()
    with Served([sys.executable, str(SERVER), "0", parser]) as server:
        url = f"{server.origin}/mcp"
        for package, arguments in SELECTIONS:
            counts, found = run_suite(node, package, arguments, url)
            statuses = ", ".join(
                f"{status} {counts[status]}" for status in sorted(counts) if status.isupper()
            )
            print(f"{package} {' '.join(arguments)}, {parser}: {statuses}")
            problems += [f"{package} {' '.join(arguments)}, {parser}: {each}" for each in found]
            passed += counts
    return problems + [f"{parser}: {name} did not run" for name in NOT_SKIPPED if not passed[name]]


def main() -> int:
    node = find_node()
    with ThreadPoolExecutor() as pool:
        problems = [
            each for found in pool.map(lambda parser: run_all(node, parser), PARSERS) for each in found
        ]
    print(*problems, f"{len(problems) or 'no'} problems", sep="\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
