"""Rules of the code that no linter knows: counts, public names, comments, paths and dependencies."""

import ast
import importlib
import pkgutil
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

import mcpkit
from mcpkit.testing import connect
from messages import PAGE as MESSAGES
from messages import page as messages
from modules import PAGE as MODULES
from modules import page as modules
from plain import PACKAGE, ROOT, code_lines, counts, narrative_sentences, pages, recorded, sentences
from tests.typed.author import server as typed_server

pytestmark = pytest.mark.slow


MOST_LINES = 500


def test_counts_do_not_grow() -> None:
    now = counts()
    assert list(recorded()) == list(now)
    grown = {name: count for name, count in now.items() if count > recorded()[name]}
    assert not grown, "bench/house/plain.py -v lists the places"


def test_catalogue_of_messages_is_current() -> None:
    assert MESSAGES.read_text("utf-8") == messages(), "run `make house`"


def test_list_of_modules_is_current() -> None:
    assert MODULES.read_text("utf-8") == modules(), "run `make house`"


def test_names_in_messages_exist() -> None:
    rows = "\n".join(line for line in MESSAGES.read_text("utf-8").splitlines() if line.startswith("|"))
    names = re.findall(r"\bmcpkit(?:\.[A-Za-z]\w*)+", rows.replace("[tool.mcpkit.check]", ""))
    assert "mcpkit.types.json_type" in names
    for name in {*names}:
        pkgutil.resolve_name(name)


# What is public


def test_public_api_is_as_recorded() -> None:
    pytest.importorskip("griffe", reason="the environment of the lowest dependencies has no griffe")
    from public_api import SNAPSHOT, snapshot

    assert SNAPSHOT.read_text("utf-8") == snapshot(), "run `make house`, and review the difference"


_SUBMODULES: Final = (
    *(
        "auth", "client", "compat", "compat.agent_sdk", "compat.fastmcp", "compat.lowlevel",
        "compat.mcp_fastmcp",
    ),
    *(
        "compat.types", "doctor", "elicitation", "exceptions", "extensions", "middleware",
        "protocol.revisions",
    ),
    *("storage", "testing", "transports", "transports.stdio", "types"),
)  # fmt: skip
PUBLIC: Final = ("mcpkit", *(f"mcpkit.{name}" for name in _SUBMODULES))
"""The modules that authors import."""

INTERNAL_PAGES: Final = {
    "architecture.md",
    "architecture-http.md",
    "decisions.md",
    "life-of-a-call.md",
    "modules.md",
}
IMPORT: Final = re.compile(r"^ *from (mcpkit[\w.]*) import ((?:\w|, |\(|\n    |,\n)+)", re.MULTILINE)


def test_pages_and_examples_import_public_names_only() -> None:
    pages = [path for path in (ROOT / "docs").rglob("*.md") if path.name not in INTERNAL_PAGES]
    faults = []
    for path in [*pages, ROOT / "README.md", *(ROOT / "examples").rglob("*.py")]:
        for module, names in IMPORT.findall(path.read_text("utf-8")):
            if module not in PUBLIC:
                faults.append(f"{path}: {module}")
                continue
            public = importlib.import_module(module)
            for name in re.findall(r"\w+", names):
                if name.startswith("_") or not hasattr(public, name):
                    faults.append(f"{path}: {module}.{name}")
    assert not faults, "\n".join(faults)


def test_packages_declare_whether_they_are_public() -> None:
    assert [name for name in PUBLIC if f"`{name}`" not in (mcpkit.__doc__ or "")] == []
    faults = []
    for path in sorted(PACKAGE.rglob("__init__.py")):
        name = ".".join(path.parent.relative_to(ROOT).parts)
        docstring = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
        if ("Internal:" in docstring) is (name in PUBLIC):
            faults.append(name)
    assert not faults, "a package is in PUBLIC, or its docstring has `Internal:`"


async def test_typed_author_file_registers_its_components() -> None:
    async with connect(typed_server) as client:
        tools = [each["name"] for each in await client.list_tools()]
        prompts = [each["name"] for each in await client.list_prompts()]
        called = await client.call_tool("called", {"table": "stars"})
    assert tools == ["bare", "called", "more_bare", "paint", "colours", "injected", "travel", "stream"]
    assert prompts == ["bare_prompt", "mix"]
    assert called.structured_content == 5


# Style

MAX_NARRATIVE: Final = 0.02
"""The share of sentences of the documentation, and of each long page, that may have narrative language."""


def test_documentation_is_plain() -> None:
    total, narrative, faults = 0, 0, []
    for page in pages():
        text = page.read_text("utf-8")
        count, found = len(sentences(text)), narrative_sentences(text)
        total, narrative = total + count, narrative + len(found)
        if len(found) > max(1, MAX_NARRATIVE * count):
            faults += [f"{page.relative_to(ROOT)}: {sentence[:100]}" for sentence in found]
    assert not faults, "\n".join(faults)
    assert narrative <= MAX_NARRATIVE * total


def test_narrative_sentences_are_found_outside_of_code() -> None:
    page = (
        "# Title\n\nNobody hears it. The server logs `nobody`.\n\n| a | whose b |\n\n```text\nhe said\n```\n"
    )
    assert sentences(page)[0] == "# Title"
    assert narrative_sentences(page) == ["Nobody hears it.", " whose b "]


TEXT = {".json", ".md", ".mjs", ".py", ".toml", ".yml"}
IGNORE = re.compile(r"#\s*(type|pyright): ?ignore")
WITH_CODE_AND_REASON = re.compile(r"#\s*(type|pyright): ?ignore\[[\w, -]+\]\s+#\s*(?!type:|pyright:)\S.{5}")
MACHINE_PATH = re.compile(r"(?<![\w.])/(work|root|home/\w+|Users/\w+)/")


def files(folder: str) -> Iterator[Path]:
    for path in (ROOT / folder).rglob("*"):
        if path.is_file() and path.suffix in TEXT and {"node_modules", "__pycache__"}.isdisjoint(path.parts):
            yield path


def test_ignored_type_errors_have_code_and_reason() -> None:
    faults = []
    for path in PACKAGE.rglob("*.py"):
        with path.open("rb") as source:
            for token in tokenize.tokenize(source.readline):
                is_ignore = token.type == tokenize.COMMENT and IGNORE.search(token.string)
                if is_ignore and not WITH_CODE_AND_REASON.search(token.string):
                    faults.append(f"{path}:{token.start[0]}: {token.string}")
    assert faults == [], "write `# type: ignore[code]  # reason`"
    assert WITH_CODE_AND_REASON.search("# type: ignore[misc]  # a TypedDict made at run time")
    for comment in ("# type: ignore", "# type: ignore[misc]", "# type: ignore  # because"):
        assert not WITH_CODE_AND_REASON.search(comment)


def test_package_files_are_not_long() -> None:
    texts = {str(path): path.read_text("utf-8") for path in PACKAGE.rglob("*.py")}
    lengths = {path: code_lines(text, ast.parse(text)) for path, text in texts.items()}
    assert {path: length for path, length in lengths.items() if length > MOST_LINES} == {}


def test_files_have_no_path_of_a_machine() -> None:
    faults = [
        f"{path}: {found.group()}"
        for folder in ("mcpkit", "tests", "examples", "bench", "docs")
        for path in files(folder)
        if (found := MACHINE_PATH.search(path.read_text("utf-8")))
    ]
    assert faults == []


def test_lowest_versions_are_those_of_the_requirements() -> None:
    tomllib = pytest.importorskip("tomllib", reason="Python 3.10 reads no TOML")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    expected = {}
    for requirement in sum((extras[name] for name in extras if name != "dev"), project["dependencies"]):
        found = re.match(r"(?P<name>[\w-]+)>=(?P<version>[\w.]+)", requirement)
        assert found, f"{requirement} has no lowest version"
        expected[found["name"]] = found["version"]
    printed = subprocess.check_output([sys.executable, str(ROOT / ".ci" / "lowest.py")], text=True)
    assert dict(line.split("==") for line in printed.splitlines()) == expected
