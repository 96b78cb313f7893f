"""Sends wrong arguments to all libraries, and writes docs/reference/argument-errors.md: `python bench/corpus.py`.

corpus.json has what is sent, what was meant by it (null where that is not known) and which field is wrong. What the
peers answer is kept in corpus_answers.json, so that the page can be checked without them.
"""

from __future__ import annotations

import asyncio
import json
import re
import statistics
import subprocess
import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

BENCH = Path(__file__).resolve().parent
PAGE = BENCH.parent / "docs" / "reference" / "argument-errors.md"
ANSWERS = BENCH / "corpus_answers.json"
LIBRARIES = ("mcpkit", "mcp", "fastmcp")
RIGHT = "Right, though it looks wrong"
SHOWN_IN_FULL = ("draw", {"shape": {"kind": "Circle", "radius": 2}, "at": [1, 2]})

INTRODUCTION = """\
<!-- Written by bench/corpus.py: change that, or bench/corpus.json, and run it again. -->

# Mistakes that models make

What becomes of {wrong} calls whose arguments do not fit the tool, each of a kind that models really send, and of
{right} that are right though they look wrong. Three libraries serve the same typed functions, each as an author writes
it, without settings: mcpkit, mcp {mcp} (`MCPServer`) and fastmcp {fastmcp}. `python bench/corpus.py` calls them all
and writes this page; a test keeps mcpkit's part true.

*Runs as meant*: the function is called with what the model had in mind. *Names the field*: the error names the
field that is wrong, so the model can correct it. *Runs otherwise*: the function is called with something else than
was meant, without an error.
"""

READING = """\
mcpkit takes what fits the published schema, and a string that holds the JSON of what was meant where a string itself
does not fit. It guesses no further: a wrong name, a word for a number and a field too many are refused with a line that
shows what to write. [Errors](../guides/errors.md#invalid-arguments): how a tool ignores unknown arguments instead."""

Answer = dict[str, str]


def cases() -> list[dict[str, Any]]:
    """Return the corpus."""
    return json.loads((BENCH / "corpus.json").read_text("utf-8"))


def ask(python: str, library: str) -> list[Answer]:
    """Return what a library answers to each case; see peers/corpus_peer.py."""
    calls = json.dumps([[case["tool"], case["sent"]] for case in cases()])
    argv = [python, str(BENCH / "peers" / "corpus_peer.py"), library]
    return json.loads(subprocess.run(argv, input=calls, check=True, stdout=subprocess.PIPE, text=True).stdout)


def intended() -> list[Any]:
    """Return what the function of each case would see if the arguments were right, or None."""
    from pydantic import validate_call

    sys.path.insert(0, str(BENCH / "peers"))
    try:
        from corpus_tools import TOOLS
    finally:
        sys.path.remove(str(BENCH / "peers"))
    tools = {tool.__name__: validate_call(tool) for tool in TOOLS}
    return [
        None if case["meant"] is None else json.loads(asyncio.run(tools[case["tool"]](**case["meant"])))
        for case in cases()
    ]


def classify(case: dict[str, Any], expected: Any, answer: Answer) -> str:
    """Return the class of an answer: `runs as meant`, `runs otherwise`, `names the field`, `refuses` or `fails`."""
    if "ran" in answer:
        return "runs as meant" if json.loads(answer["ran"]) == expected else "runs otherwise"
    if "failed" in answer:
        return "fails"
    steps = [re.escape(step) for step in re.split(r"[.\[\]]+", case["field"]) if step]
    return "names the field" if re.search(".*".join(steps), answer["refused"]) else "refuses"


def page(answers: dict[str, list[Answer]], versions: dict[str, str]) -> str:
    """Return the page that shows all answers."""
    corpus, expected = cases(), intended()
    classes = {
        library: [classify(*each) for each in zip(corpus, expected, answers[library], strict=True)]
        for library in LIBRARIES
    }
    wrong = [number for number, case in enumerate(corpus) if case["kind"] != RIGHT]
    numbers = {"wrong": len(wrong), "right": len(corpus) - len(wrong)}
    lines = [
        INTRODUCTION.format(**numbers, **versions),
        *summary(corpus, wrong, classes, answers),
        "",
        READING,
    ]
    rows = zip(
        corpus,
        *([*zip(classes[library], answers[library], strict=True)] for library in LIBRARIES),
        strict=True,
    )
    for kind, group in groupby(rows, key=lambda row: row[0]["kind"]):
        lines += ["", f"## {kind}", "", f"| call | {' | '.join(LIBRARIES)} |", "| --- " * 4 + "|"]
        lines += [row(*each) for each in group]
    lines += ["", "## One answer in full", "", *in_full(corpus, answers)]
    return "\n".join(lines) + "\n"


def summary(
    corpus: list[dict[str, Any]],
    wrong: list[int],
    classes: dict[str, list[str]],
    answers: dict[str, list[Answer]],
) -> Iterator[str]:
    """Yield the table with one number for each library."""

    def count(what: str, library: str) -> int:
        return sum(classes[library][number] == what for number in wrong)

    def texts(library: str) -> list[str]:
        return [
            answers[library][number]["refused"] for number in wrong if "refused" in answers[library][number]
        ]

    def shows_secret(library: str) -> int:
        secrets = [
            (case["sent"].get("password"), answer)
            for case, answer in zip(corpus, answers[library], strict=True)
        ]
        return sum(secret is not None and secret in answer.get("refused", "") for secret, answer in secrets)

    right = [number for number in range(len(corpus)) if number not in wrong]
    rows: list[tuple[str, Any]] = [
        ("runs as meant", lambda library: count("runs as meant", library)),
        ("names the field", lambda library: count("names the field", library)),
        ("refuses, and does not name the field", lambda library: count("refuses", library)),
        ("runs otherwise, without an error", lambda library: count("runs otherwise", library)),
        ("fails: no result, but an error of the protocol", lambda library: count("fails", library)),
        (
            "of those that only look wrong, run as meant",
            lambda library: (
                f"{sum(classes[library][number] == 'runs as meant' for number in right)} of {len(right)}"
            ),
        ),
        (
            "characters of a refusal, median",
            lambda library: round(statistics.median(map(len, texts(library)))),
        ),
        (
            "refusals with a link or a library's name",
            lambda library: sum("pydantic" in text for text in texts(library)),
        ),
        ("refusals that show a password", shows_secret),
    ]
    yield f"| of {len(wrong)} wrong calls | {' | '.join(LIBRARIES)} |"
    yield "| --- " * 4 + "|"
    for name, value in rows:
        yield f"| {name} | {' | '.join(str(value(library)) for library in LIBRARIES)} |"


def row(case: dict[str, Any], *outcomes: tuple[str, Answer]) -> str:
    """Return the row of one case: mcpkit's answer in its words, what the others do in ours."""
    (ours, answer), *others = outcomes
    own = "<br>".join(code(line) for line in answer["refused"].splitlines()) if "refused" in answer else ours
    cells = [
        f"{what} ({len(other['refused'])} characters)" if "refused" in other else what
        for what, other in others
    ]
    sent = code(f"{case['tool']} {json.dumps(case['sent'], ensure_ascii=False)}")
    return f"| {sent} | {own} | {' | '.join(cells)} |"


def code(text: str) -> str:
    """Return a text as code in a table."""
    assert not {"`", "|", "\n"} & set(text), f"Markdown would not show this in a table: {text}"
    return f"`{text}`"


def in_full(corpus: list[dict[str, Any]], answers: dict[str, list[Answer]]) -> Iterator[str]:
    """Yield one call and the three texts that a model reads in answer."""
    tool, sent = SHOWN_IN_FULL
    number = next(
        number for number, case in enumerate(corpus) if (case["tool"], case["sent"]) == (tool, sent)
    )
    yield f"{code(f'{tool} {json.dumps(sent)}')}, where a shape is a `Circle` or a `Square`:"
    for library in LIBRARIES:
        yield from ("", f'```text title="{library}"', answers[library][number]["refused"], "```")


def main() -> None:
    import environment

    python = str(environment.python_with_peers(environment.interpreter(sys.executable)))
    versions = environment.versions(Path(python), None)
    peers = {library: ask(python, library) for library in LIBRARIES[1:]}
    kept = {"versions": {library: versions[library] for library in peers}, "answers": peers}
    ANSWERS.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", "utf-8")
    PAGE.write_text(page({"mcpkit": ask(sys.executable, "mcpkit"), **peers}, kept["versions"]), "utf-8")
    print(f"wrote {PAGE}")


if __name__ == "__main__":
    main()
