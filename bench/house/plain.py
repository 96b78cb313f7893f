"""Counts code lines, files, and narrative language in the package; none may grow beyond `tests/house/counts.json`.

It also counts the sentences of the documentation with narrative language, of which a test allows 2 %.

    python bench/house/plain.py            # the counts
    python bench/house/plain.py --update   # records counts that are lower now
    python bench/house/plain.py -v         # lists each docstring, message and identifier that counts

Narrative language is prose about persons who speak (`tells`, `hears`, `whoever`) where a term of the specification
exists, and identifiers that are not nouns or verbs of the field (`told`, `held`, `given`).
"""

from __future__ import annotations

import ast
import io
import json
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
PACKAGE: Final = ROOT / "mcpkit"
RECORDED: Final = ROOT / "tests" / "house" / "counts.json"

PROSE: Final = re.compile(
    r"\b(hear[sd]?|heard|hearing|tells?|told|telling|says?|said|saying|speaks? of|nobody|somebody|whoever|whom|whose"
    r"|anyone who|those who|who (?:asks?|comes?|calls?|has|is))\b",
    re.IGNORECASE,
)
HEADLESS: Final = re.compile(r"^(?:What|Who|Whoever|Where|Whether|That which|How)\b(?!.*\?)")
NARRATIVE_NAMES: Final = re.compile(
    r"(?:^|_)(?:told|tell|tells|telling|hear|hears|heard|hearing|hearer|said|say|says|saying|unsaid|asked"
    r"|asking|asker|held|hold|kept|wanted|unwant|looked|glance|meant|given|taken|entered|entering|remembered"
    r"|seen|roof|together|beside|aside|edge|shelf|ground|door|entrance|pen|ledger|trouble|patient|patients"
    r"|people|look|mend|mint|twin|whose|whom|nobody|somebody|whoever|patience|farewell|most|longest|many|much"
    r"|deepest|staying|stay|spend|hindrance|deaf|deafness|unhurt|newcomer|guest|unbuilt|converses|visits)(?:$|_)"
)
LAYOUT: Final = frozenset(
    {
        tokenize.COMMENT,
        tokenize.DEDENT,
        tokenize.ENCODING,
        tokenize.ENDMARKER,
        tokenize.INDENT,
        tokenize.NEWLINE,
        tokenize.NL,
    }
)


def docstrings(tree: ast.Module) -> Iterator[ast.Constant]:
    """Yield the docstrings of a module, its classes and its functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            match node.body[:1]:
                case [ast.Expr(ast.Constant(str()) as text)]:
                    yield text


def code_lines(text: str, tree: ast.Module) -> int:
    """Return the number of lines with code: comments, docstrings and blank lines are not counted."""
    documentation = {
        line for text in docstrings(tree) for line in range(text.lineno, (text.end_lineno or text.lineno) + 1)
    }
    code = set[int]()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in LAYOUT and token.start[0] not in documentation:
            code.update(range(token.start[0], token.end[0] + 1))
    return len(code)


def narrative(tree: ast.Module) -> Iterator[tuple[str, int, str]]:
    """Yield what is narrative in a module: its kind, line and text."""
    found = list(docstrings(tree))
    for text in found:
        first = str(text.value).strip().partition("\n")[0]
        if PROSE.search(str(text.value)) or HEADLESS.search(first):
            yield "narrative docstrings", text.lineno, first
    for node in ast.walk(tree):
        match node:
            case ast.Constant(str(value)) if (
                node not in found and value.count(" ") >= 3 and PROSE.search(value)
            ):
                yield "narrative messages", node.lineno, value
            case ast.ClassDef(name) | ast.FunctionDef(name) | ast.AsyncFunctionDef(name) | ast.arg(name):
                if NARRATIVE_NAMES.search(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()):
                    yield "narrative names", node.lineno, name


def counts(package: Path = PACKAGE, *, verbose: bool = False) -> dict[str, int]:
    """Return the counts of a package by name."""
    found = dict.fromkeys(
        ("code lines", "files", "narrative docstrings", "narrative messages", "narrative names"), 0
    )
    for path in sorted(package.rglob("*.py")):
        text = path.read_text("utf-8")
        tree = ast.parse(text)
        found["code lines"] += code_lines(text, tree)
        found["files"] += 1
        for kind, line, example in narrative(tree):
            found[kind] += 1
            if verbose:
                print(f"{path.relative_to(package)}:{line}: {kind}: {example[:90]}")
    return found


def sentences(page: str) -> list[str]:
    """Return the sentences and table cells of a Markdown page, without code, comments and addresses."""
    text = re.sub(r"^ *```.*?^ *```", "", page, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"<!--.*?-->", "", re.sub(r"`[^`\n]*`", "x", text), flags=re.DOTALL)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    paragraphs = re.split(r"\n\s*\n|\n(?=[-|#*\d])", text)
    parts = [part for each in paragraphs for part in re.split(r"(?<=[.!?:;])\s+|\|", " ".join(each.split()))]
    return [part for part in parts if re.search(r"[a-z]{2}", part)]


def narrative_sentences(page: str) -> list[str]:
    """Return the sentences of a Markdown page that have narrative language."""
    return [sentence for sentence in sentences(page) if PROSE.search(sentence)]


def pages() -> list[Path]:
    """Return the pages of the documentation."""
    return [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]


def recorded() -> dict[str, int]:
    """Return the counts that are recorded as bounds."""
    numbers: dict[str, int] = json.loads(RECORDED.read_text("utf-8"))
    return numbers


def main() -> None:
    """Print the counts; with `--update` record those that are lower."""
    now = counts(verbose="-v" in sys.argv)
    bounds = recorded()
    for name, count in now.items():
        print(f"{name:24} {count:7,} (at most {bounds.get(name, count):,})")
    texts = {path: path.read_text("utf-8") for path in pages()}
    total = sum(len(sentences(text)) for text in texts.values())
    found = [(path, sentence) for path, text in texts.items() for sentence in narrative_sentences(text)]
    print(f"{'narrative sentences':24} {len(found):7,} of {total:,} in the documentation")
    if "-v" in sys.argv:
        for path, sentence in found:
            print(f"{path.relative_to(ROOT)}: {sentence[:90]}")
    if "--update" in sys.argv:
        lower = {name: min(count, bounds.get(name, count)) for name, count in now.items()}
        RECORDED.write_text(json.dumps(lower, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
