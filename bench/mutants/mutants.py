"""Plant small faults in the package, one at a time, and count how many of them the tests find.

    python -m pytest -p bench.mutants.contexts ...       with MCPKIT_CONTEXTS=FOLDER: which test runs which line
    python bench/mutants/mutants.py plant FOLDER         choose 100 faults among the lines that tests run
    python bench/mutants/mutants.py run FOLDER RESULTS   run the tests of each fault, 60 seconds at most

The faults are in `mutants.json`: chosen once with a fixed seed, evenly over the areas, by file and source text, so that
they can be planted again after lines have moved. `run` plants them in this checkout, restores each file, and appends
one line for each fault to RESULTS; it skips those that RESULTS has already, so it can be stopped and started again.
"""

from __future__ import annotations

import argparse
import ast
import json
import random
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PACKAGE = ROOT / "mcpkit"
MUTANTS = HERE / "mutants.json"

AREAS = {
    **{name: (name,) for name in ("protocol", "schema", "engine", "storage", "tasks", "components", "content")},
    "requests": ("requests", "execution"), "middleware": ("middleware",), "client": ("client",),
}  # fmt: skip
COUNT = 100
SEED = 20261129
SECONDS = 60
FUNCTIONS = 60
"""How many test functions are tried for a fault: half of them are those that run the fewest lines."""

COMPARISONS = {
    ast.Eq: "!=", ast.NotEq: "==", ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">",
    ast.Is: "is not", ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in",
}  # fmt: skip
OPERATORS = {ast.Add: "-", ast.Sub: "+", ast.Mult: "+", ast.FloorDiv: "*", ast.Mod: "*"}


def changes(source: str) -> Iterator[tuple[int, int, str, str]]:
    """Yield each possible fault: its line, its place in the source, its text, and what that becomes."""
    lines = source.splitlines(keepends=True)
    starts = list(accumulate(map(len, lines), initial=0))

    def place(line: int, column: int) -> int:
        return starts[line - 1] + len(lines[line - 1].encode()[:column].decode())

    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.expr | ast.stmt):
            continue
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        at = place(node.lineno, node.col_offset)
        text = source[at : place(node.end_lineno, node.end_col_offset)]
        new: str | None = None
        match node:
            case ast.Compare(left=left, ops=[operator], comparators=[right]):
                new = f"{ast.unparse(left)} {COMPARISONS[type(operator)]} {ast.unparse(right)}"
            case ast.BoolOp(op=operator, values=values):
                word = " or " if isinstance(operator, ast.And) else " and "
                new = "(" + word.join(f"({ast.unparse(each)})" for each in values) + ")"
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                new = f"bool({ast.unparse(operand)})"
            case ast.BinOp(left=left, op=operator, right=right) if type(operator) in OPERATORS:
                new = f"({ast.unparse(left)}) {OPERATORS[type(operator)]} ({ast.unparse(right)})"
            case ast.Constant(value=True | False as value):
                new = str(not value)
            case ast.Constant(value=int() as value):
                new = str(value + 1)
            case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
                new = "return None"
            case ast.Expr(value=ast.Call() | ast.Await()):
                new = "pass"
            case ast.Continue():
                new = "break"
        if new is not None and new != text:
            yield node.lineno, at, text, new


def contexts(folder: Path) -> dict[tuple[str, int], set[str]]:
    """Return the test functions that run each line, by file and line; without lines that run at import."""
    found: dict[tuple[str, int], set[str]] = defaultdict(set)
    at_import: set[tuple[str, int]] = set()
    for file in folder.glob("*.json"):
        for function, by_file in json.loads(file.read_text())["lines"].items():
            places = {(name, line) for name, lines in by_file.items() for line in lines}
            if function == "import":
                at_import |= places
                continue
            for place in places:
                found[place].add(function)
    return {place: functions for place, functions in found.items() if place not in at_import}


def plant(folder: Path) -> None:
    """Choose the faults and write `mutants.json`."""
    run_by = contexts(folder)
    chance = random.Random(SEED)
    chosen: list[dict[str, Any]] = []
    for number, (area, folders) in enumerate(AREAS.items()):
        possible = []
        for path in sorted(path for folder in folders for path in (PACKAGE / folder).rglob("*.py")):
            name = path.relative_to(PACKAGE).as_posix()
            source = path.read_text()
            for line, _, text, new in changes(source):
                if (name, line) in run_by:
                    possible.append({"area": area, "file": name, "line": line, "text": text, "new": new})
        share = COUNT // len(AREAS) + (number < COUNT % len(AREAS))
        chosen += sorted(chance.sample(possible, share), key=lambda one: (one["file"], one["line"]))
    MUTANTS.write_text(json.dumps(chosen, indent=1) + "\n")


def planted(mutant: dict[str, Any], source: str) -> tuple[int, str] | None:
    """Return the line of a fault and the source with it, or None where the text is gone."""
    wanted = (mutant["text"], mutant["new"])
    same = [(line, at) for line, at, text, new in changes(source) if (text, new) == wanted]
    if not same:
        return None
    line, at = min(same, key=lambda each: abs(each[0] - mutant["line"]))
    return line, source[:at] + mutant["new"] + source[at + len(mutant["text"]) :]


def verdict(
    mutant: dict[str, Any], run_by: dict[tuple[str, int], set[str]], sizes: dict[str, int]
) -> dict[str, Any]:
    """Plant one fault, run its tests, restore the file."""
    path = PACKAGE / mutant["file"]
    source = path.read_text()
    found = planted(mutant, source)
    if found is None:
        return {"verdict": "gone"}
    line, changed = found
    functions = sorted(run_by.get((mutant["file"], line), ()), key=lambda each: (sizes[each], each))
    if len(functions) > FUNCTIONS:
        rest = random.Random(SEED).sample(functions[FUNCTIONS // 2 :], FUNCTIONS // 2)
        functions = functions[: FUNCTIONS // 2] + rest
    if not functions:
        return {"verdict": "not run by any test"}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "--timeout",
        "30",
        "-p",
        "no:cacheprovider",
        *functions,
    ]
    began = time.monotonic()
    path.write_text(changed)
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        word = "survived" if done.returncode == 0 else "killed" if done.returncode in {1, 2} else "error"
        failed = [each for each in done.stdout.splitlines() if each.startswith(("FAILED", "ERROR"))]
        detail = failed[0][:200] if failed else done.stdout[-200:] if word != "survived" else ""
    except subprocess.TimeoutExpired:
        word, detail = "no failure in time", ""
    finally:
        path.write_text(source)
    seconds = round(time.monotonic() - began, 1)
    return {"verdict": word, "functions": len(functions), "seconds": seconds, "detail": detail}


def run(folder: Path, results: Path) -> None:
    """Write the verdict of the tests on each fault."""
    run_by = contexts(folder)
    sizes: dict[str, int] = defaultdict(int)
    for functions in run_by.values():
        for function in functions:
            sizes[function] += 1
    done = (
        {json.loads(line)["number"] for line in results.read_text().splitlines()}
        if results.exists()
        else set()
    )
    for number, mutant in enumerate(json.loads(MUTANTS.read_text())):
        if number in done:
            continue
        row = {"number": number, **verdict(mutant, run_by, sizes)}
        with results.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(number, row["verdict"], mutant["file"], mutant["line"], flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Plant small faults, and count how many the tests find.")
    parser.add_argument("action", choices=["plant", "run"])
    parser.add_argument("contexts", type=Path, help="the folder that bench.mutants.contexts has written")
    parser.add_argument("results", type=Path, nargs="?", help="the file of verdicts, one JSON object a line")
    arguments = parser.parse_args()
    if arguments.action == "plant":
        plant(arguments.contexts)
    else:
        run(arguments.contexts, arguments.results)


if __name__ == "__main__":
    main()
