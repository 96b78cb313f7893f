"""Every example of the README and of the documentation runs, and prints what the page shows."""

import re
import sys
import types
from pathlib import Path

import pytest

import mcpkit

from .pages import ROOT, SHOWN_ONLY, Runner, WrongPageError, blocks_of
from .show import shown

DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted(DOCS.rglob("*.md"))]

_LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)(?:#[^)]*)?\)")
_REFERENCE = re.compile(r"^::: (mcpkit[\w.]*)$", re.MULTILINE)


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_snippets_print_what_the_page_shows(page: Path, tmp_path: Path) -> None:
    text = page.read_text()
    count = Runner(name_of(page), tmp_path).run(text)
    runnable = [block for block in blocks_of(text) if block.is_run and block.language not in SHOWN_ONLY]
    assert count == len([block for block in runnable if not block.is_output])


def test_links_lead_to_existing_files() -> None:
    faults = []
    for page in PAGES:
        prose = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(), flags=re.DOTALL)
        faults += [f"{page}: {link}" for link in _LINK.findall(prose) if not (page.parent / link).exists()]
    assert not faults, "\n".join(faults)


def test_security_page_names_an_existing_test_for_each_threat() -> None:
    page = (DOCS / "concepts" / "security-model.md").read_text()
    rows = [line for line in page.split("### Threat by threat")[1].splitlines() if line.startswith("| ")]
    assert len(rows) > 20
    faults = []
    for row in rows[2:]:
        tests = re.findall(r"`([\w/]+\.py)::(test_\w+)`", row)
        if not tests:
            faults.append(f"no test: {row}")
        for file, name in tests:
            path = ROOT / "tests" / file
            if not path.exists() or not re.search(rf"^(async )?def {name}\(", path.read_text(), re.MULTILINE):
                faults.append(f"{file} has no {name}")
    assert not faults, "\n".join(faults)


def test_reference_has_every_public_name() -> None:
    described = {
        name for page in (DOCS / "reference").glob("*.md") for name in _REFERENCE.findall(page.read_text())
    }

    missing = [name for name in mcpkit.__all__ if f"mcpkit.{name}" not in described]

    assert not missing


# The runner itself

OUTPUT = '\n```text title="Output"\n{}\n```\n'
FAULTY_PAGES = {
    "```python\nprint(42)\n```\n": "is not shown",
    OUTPUT.format(42): "no example stands before",
    "```python\nx = 42\n```\n" + OUTPUT.format(42): "the page shows\n42",
    "```python\nprint(42)\n```\n"
    + OUTPUT.format(41): r"page\.md, line 6: the page shows\n41\n\nbut .* printed\n42",
    "```python\nprint('ref 1a\\n2b)')\n```\n" + OUTPUT.format("ref ...)"): "the page shows",
    "```console\n$ python -c 'print(42)'\n41\n```\n": "but it printed\n42",
    "```console\n$ python no_such_file.py\n```\n": "no_such_file",
    "```console\n$ mcpkit lst\n```\n": "did you mean list",
    "```console\n$ mcpkit lst\n...\n...\n$ echo $?\n0\n```\n": "but it printed\n1",
    "```console\n$ make coffee\n```\n": "no target coffee",
    "```console\n$ rm x\n```\n": "`rm` is not run",
    "```json\n{'a': 1}\n```\n": "not JSON",
    "```sh\nrm x\n```\n": "cannot be run",
    "```python\nx = 1\n": "no end",
}


def test_runner_reports_faults_of_a_page(tmp_path: Path) -> None:
    for page, message in FAULTY_PAGES.items():
        with pytest.raises(WrongPageError, match=re.compile(message, re.DOTALL)):
            Runner("page.md", tmp_path).run(page)
    with pytest.raises(ZeroDivisionError):
        Runner("page.md", tmp_path).run("```python\n1 / 0\n```\n")


def test_runner_runs_blocks_modules_and_commands(tmp_path: Path) -> None:
    page = """
```python title="answer.py"
answer = 42
```

```python
import asyncio
from answer import answer

asyncio.run(asyncio.sleep(0))
print(answer, "ref 1a2b)")
```

```text title="Output"
42 ref ...)
```

```console
$ python -c "import answer; print(answer.answer)"
42
```

<!-- not run: it needs a file -->

```sh
rm x
```
"""
    other = sys.modules["answer"] = types.ModuleType("answer")
    try:
        assert Runner("page.md", tmp_path).run(page) == 3
        assert sys.modules["answer"] is other, "modules of a page replace others for the page only"
    finally:
        del sys.modules["answer"]


def test_show_writes_output_of_commands_into_the_page() -> None:
    page = "# Help\n\n```console\n$ mcpkit --version\nmcpkit ...\n$ mcpkit lst\nold\n```\n"
    now = shown(page, "page.md")
    assert "$ mcpkit --version\nmcpkit ...\n$ mcpkit lst\nUsage: mcpkit" in now
    assert now.endswith("did you mean list?\n```\n")
    assert shown(now, "page.md") == now
